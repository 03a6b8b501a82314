//! Tests whether one set of runs is better than another on the same examples (paired t test), and whether two runs
//! differ in the number of correct answers (McNemar's exact test).

use serde::{Deserialize, Serialize};

use statrs::distribution::ContinuousCDF;

use super::interval::score_interval;
use super::variance::{LEVEL, RunScores, Variance};
use crate::score::metrics::WeightedMetric;
use crate::{Label, Metric};

/// The difference of two mean scores, first minus second, with its test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PairedTest {
    /// The metric.
    pub metric: Metric,
    /// Mean of the first set of runs over its seeds, minus the mean of the second set.
    pub difference: f64,
    /// Lower end of the difference's confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence level.
    pub level: f64,
    /// Two-sided p-value.
    pub p: f64,
    /// Degrees of freedom of Student's distribution.
    pub degrees_of_freedom: f64,
    /// Whether the test covers the variation between seeds. With one seed on each side, it compares the two models, not their
    /// configurations.
    pub covers_seeds: bool,
}

/// Tests the difference of the mean `metric` between the runs of `first` and `second`; every run has answers to all
/// `labels`. `None` for a metric that does not compare single answers.
///
/// The difference is divided by its standard error, which contains a part from the seeds and a part from the examples,
/// and is compared with Student's distribution. If the runs of the two sides agree on every example, or differ on every
/// example, the test is the sign test.
///
/// # Panics
/// Panics if a side has no runs, or a run has a different number of answers.
pub fn paired_test(
    metric: Metric,
    labels: &[Label],
    first: &[&[Label]],
    second: &[&[Label]],
) -> Option<PairedTest> {
    let scores = |runs: &[&[Label]]| -> Option<RunScores> {
        let runs = runs.iter().map(|run| WeightedMetric::new(metric, run, labels));
        Some(RunScores::new(&runs.collect::<Option<Vec<_>>>()?, labels.len()))
    };
    let first = scores(first)?;
    let second = scores(second)?;
    let difference = first.mean() - second.mean();
    let variance = Variance::difference(&first, &second);
    let error = variance.total().sqrt();
    let quantile = variance.quantile();
    let distribution = variance.distribution();
    // Means of equal scores may differ by a rounding error.
    let differs = difference.abs() > 1e-12;
    let (half_width, p) = if error > 1e-12 {
        (quantile * error, 2.0 * distribution.cdf(-difference.abs() / error))
    } else {
        let examples = labels.len() as f64;
        let p = if differs { (2.0 * (-examples).exp2()).min(1.0) } else { 1.0 };
        // Half the width of the interval is the upper bound of the share of exceptions, if no example is an
        // exception.
        (score_interval(0.0, examples, quantile).1, p)
    };
    Some(PairedTest {
        metric,
        difference,
        low: difference - half_width,
        high: difference + half_width,
        level: LEVEL,
        p,
        degrees_of_freedom: distribution.freedom(),
        covers_seeds: variance.covers_seeds(),
    })
}

impl PairedTest {
    /// Returns the name of the test and the sources of variation that it covers.
    pub fn method(&self) -> String {
        let covered = if self.covers_seeds {
            "examples and seeds"
        } else {
            "examples; one seed on each side: the two models are compared, other seeds are not covered"
        };
        format!("paired t test over {covered}")
    }
}

/// McNemar's test: the examples on which two models differ, and the probability of such a split if the models were
/// equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct McNemar {
    /// Examples that only the first model gets right.
    pub only_first: usize,
    /// Examples that only the second model gets right.
    pub only_second: usize,
    /// Two-sided probability of a split at least as uneven, if each such example fell to either model with probability
    /// 1/2.
    pub p: f64,
}

impl McNemar {
    /// Tests the answers of two models.
    ///
    /// # Panics
    /// Panics if the numbers of answers and labels differ.
    pub fn new(labels: &[Label], first: &[Label], second: &[Label]) -> Self {
        assert!(labels.len() == first.len() && labels.len() == second.len(), "one answer for each label");
        let only = |right: &[Label], wrong: &[Label]| {
            let answers = labels.iter().zip(right.iter().zip(wrong));
            answers.filter(|(label, (right, wrong))| right == label && wrong != label).count()
        };
        let only_first = only(first, second);
        let only_second = only(second, first);
        Self { only_first, only_second, p: exact_two_sided_p_value(only_first, only_second) }
    }
}

/// Returns twice the probability of at most `min(a, b)` heads in `a + b` throws of a fair coin, limited to 1.
fn exact_two_sided_p_value(a: usize, b: usize) -> f64 {
    let fewer = a.min(b);
    let all = a + b;
    // Use logarithms: 2^-n underflows from n = 1075 on.
    let mut term = -(all as f64) * std::f64::consts::LN_2;
    let mut sum = term.exp();
    for k in 1..=fewer {
        term += ((all - k + 1) as f64 / k as f64).ln();
        sum += term.exp();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(wrong: std::ops::Range<usize>, all: usize) -> Vec<Label> {
        (0..all).map(|at| Label::Class(usize::from(!wrong.contains(&at)))).collect()
    }

    /// Two models differ on 20 of 100 examples, 15 to 5. `scipy.stats.ttest_rel` of the two columns of 0 and 1 has
    /// t = 2.2827 with 99 degrees of freedom and p = .02459, and an interval of .0131 to .1869.
    #[test]
    fn one_seed_is_the_paired_t_test() {
        let labels = vec![Label::Class(1); 100];
        let a = answers(0..5, 100);
        let b = answers(5..20, 100);
        let test = paired_test(Metric::Accuracy, &labels, &[&a], &[&b]).unwrap();
        assert!((test.difference - 0.1).abs() < 1e-12 && !test.covers_seeds);
        assert!((test.degrees_of_freedom - 99.0).abs() < 1e-6, "{test:?}");
        assert!((test.low - 0.013074).abs() < 1e-4 && (test.high - 0.186926).abs() < 1e-4, "{test:?}");
        assert!((test.p - 0.0245895).abs() < 1e-5, "{test:?}");
        let back = paired_test(Metric::Accuracy, &labels, &[&b], &[&a]).unwrap();
        assert_eq!((back.low, back.high, back.p), (-test.high, -test.low, test.p));
        assert!(test.method().ends_with("other seeds are not covered"));
    }

    #[test]
    fn equal_answers_do_not_differ() {
        let labels = vec![Label::Class(1); 20];
        let a = answers(0..5, 20);
        let b = answers(3..6, 20);
        let one = paired_test(Metric::Accuracy, &labels, &[&a], &[&a]).unwrap();
        assert_eq!((one.difference, one.p), (0.0, 1.0));
        assert!(one.low < 0.0 && one.high > 0.0, "no proof that the models are equal: {one:?}");
        let several = paired_test(Metric::Accuracy, &labels, &[&a, &b], &[&a, &b]).unwrap();
        assert!(several.covers_seeds && several.p == 1.0 && several.low < 0.0, "{several:?}");
        let always = paired_test(Metric::Accuracy, &labels, &[&labels], &[&answers(0..20, 20)]).unwrap();
        assert!((always.p - 2f64.powi(-19)).abs() < 1e-12 && always.low > 0.7, "{always:?}");
    }

    /// The runs of a side differ by the seed only: `scipy.stats.ttest_ind` of .6, .7, .8 and .3, .5, .4 has p = .0213.
    #[test]
    fn several_seeds_are_the_t_test_of_their_scores() {
        let labels = vec![Label::Class(1); 10];
        let run = |right: usize| answers(right..10, 10);
        let a = [6, 7, 8].map(run);
        let b = [3, 5, 4].map(run);
        let a = a.each_ref().map(Vec::as_slice);
        let b = b.each_ref().map(Vec::as_slice);
        let scores = |runs: &[&[Label]]| {
            let runs: Vec<_> =
                runs.iter().filter_map(|run| WeightedMetric::new(Metric::Accuracy, run, &labels)).collect();
            RunScores::new(&runs, 10)
        };
        // The whole variance is at least the variance between seeds.
        let seeds = Variance::difference(&scores(&a), &scores(&b));
        assert!(seeds.total() >= 0.02 / 3.0 - 1e-12);
        let whole = paired_test(Metric::Accuracy, &labels, &a, &b).unwrap();
        assert!(whole.covers_seeds && whole.p < 0.05 && whole.degrees_of_freedom >= 2.0, "{whole:?}");
        // A side with one run gets the variance between seeds of the other side.
        let uneven = paired_test(Metric::Accuracy, &labels, &a, &b[..1]).unwrap();
        assert!(uneven.covers_seeds && uneven.p > whole.p, "{uneven:?}");
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 * expected, "{value} is not {expected}");
    }

    /// 6 against 16: exact p = .0525 in Fagerland, Lydersen and Laake, The McNemar test for binary matched-pairs
    /// data, BMC Medical Research Methodology 13 (2013). The other digits are `2 * sum(comb(n, k) for k in range(b +
    /// 1)) / 2**n` in exact integers of Python.
    #[test]
    fn mcnemar_p_values_equal_published_ones() {
        close(exact_two_sided_p_value(6, 16), 220_112.0 / 4_194_304.0);
        close(exact_two_sided_p_value(59, 121), 4.434449263755176e-06);
        close(exact_two_sided_p_value(900, 1100), 8.457089535503927e-06);
        close(exact_two_sided_p_value(0, 5), 0.0625);
        assert_eq!(exact_two_sided_p_value(0, 0), 1.0);
        assert_eq!(exact_two_sided_p_value(7, 7), 1.0);
    }

    #[test]
    fn mcnemar_ignores_examples_with_equal_outcomes() {
        let class = |of: [usize; 6]| of.map(Label::Class);
        let test =
            McNemar::new(&class([0, 0, 1, 1, 2, 2]), &class([0, 0, 1, 0, 0, 1]), &class([0, 1, 0, 0, 1, 2]));
        assert_eq!((test.only_first, test.only_second, test.p), (2, 1, 1.0));
    }
}
