//! Tests whether one set of runs is better than another on the same examples (paired bootstrap), and whether two runs
//! differ in the number of correct answers (McNemar's exact test).

use serde::{Deserialize, Serialize};

use super::bootstrap::{LEVEL, RESAMPLES, mean, percentiles, resample};
use crate::score::metrics::WeightedMetric;
use crate::{Label, Metric};

/// The difference of two mean scores, first minus second, with its bootstrap test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedTest {
    /// The metric.
    pub metric: Metric,
    /// Mean of the first over its seeds, minus the mean of the second.
    pub difference: f64,
    /// Lower end of the difference's confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence level.
    pub level: f64,
    /// Two-sided p-value: twice the fraction of resamples in which the difference has the opposite sign or is zero, at
    /// most 1.
    pub p: f64,
    /// Number of resamples.
    pub resamples: usize,
    /// Whether runs were drawn in pairs, which requires equal seeds on both sides.
    pub seeds_paired: bool,
}

/// Tests the difference of the mean `metric` between the runs of `first` and `second`; every run has answers to all
/// `labels`. `None` for a metric that does not compare single answers.
///
/// A resample draws the same examples for both sides. It draws runs in pairs if `same_seeds` (run `i` of both sides has
/// the same seed), else separately for each side.
///
/// # Panics
/// When a side has no runs, a run has a different number of answers, or `same_seeds` is set and the numbers of runs
/// differ.
pub fn paired_test(
    metric: Metric,
    labels: &[Label],
    first: &[&[Label]],
    second: &[&[Label]],
    same_seeds: bool,
) -> Option<PairedTest> {
    assert!(!same_seeds || first.len() == second.len(), "one run of each for every seed");
    let prepare = |runs: &[&[Label]]| -> Option<Vec<WeightedMetric>> {
        runs.iter().map(|run| WeightedMetric::new(metric, run, labels)).collect()
    };
    let first = prepare(first)?;
    let second = prepare(second)?;
    let groups = if same_seeds { vec![first.len()] } else { vec![first.len(), second.len()] };
    let mut differences = resample(labels.len(), &groups, |weights, drawn| {
        mean(&first, weights, &drawn[0]) - mean(&second, weights, &drawn[groups.len() - 1])
    });
    differences.sort_by(f64::total_cmp);
    let (low, high) = percentiles(&differences);
    let once = |runs: &[WeightedMetric]| mean(runs, &vec![1; labels.len()], &vec![1; runs.len()]);
    Some(PairedTest {
        metric,
        difference: once(&first) - once(&second),
        low,
        high,
        level: LEVEL,
        p: two_sided_p_value(&differences),
        resamples: RESAMPLES,
        seeds_paired: same_seeds,
    })
}

/// Returns twice the smaller fraction of the sorted differences on either side of zero. The observed difference counts
/// as a resample, so the result is never 0 (Davison and Hinkley, Bootstrap Methods and their Application, section 4.2).
fn two_sided_p_value(sorted: &[f64]) -> f64 {
    // Means of equal scores may differ by a rounding error.
    let tiny = 1e-12;
    let not_above = sorted.partition_point(|difference| *difference <= tiny);
    let not_below = sorted.len() - sorted.partition_point(|difference| *difference < -tiny);
    (2.0 * (1 + not_above.min(not_below)) as f64 / (1 + sorted.len()) as f64).min(1.0)
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
    /// When the numbers of answers and labels differ.
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

    /// Two models differ on 20 of 100 examples, 15 to 5. The resampled difference is a sum of 100 draws of +1, -1 and 0
    /// with probability .15, .05 and .8. The 2.5 % and 97.5 % quantiles of its distribution (100 convolutions in
    /// Python) are .02 and .19, and P(difference <= 0) is .013376.
    #[test]
    fn difference_of_two_models_by_hand() {
        let labels = vec![Label::Class(1); 100];
        let a = answers(0..5, 100);
        let b = answers(5..20, 100);
        let test = paired_test(Metric::Accuracy, &labels, &[&a], &[&b], true).unwrap();
        assert!((test.difference - 0.1).abs() < 1e-12);
        assert!((test.low - 0.02).abs() < 0.0101 && (test.high - 0.19).abs() < 0.0101, "{test:?}");
        // 5 sigma of 10,000 draws with this probability, twice.
        assert!((test.p - 2.0 * 0.013376).abs() < 0.012, "{test:?}");
        let back = paired_test(Metric::Accuracy, &labels, &[&b], &[&a], true).unwrap();
        assert_eq!((back.low, back.high, back.p), (-test.high, -test.low, test.p));
    }

    #[test]
    fn equal_answers_do_not_differ() {
        let labels = vec![Label::Class(1); 20];
        let a = answers(0..5, 20);
        let b = answers(3..6, 20);
        let test = paired_test(Metric::Accuracy, &labels, &[&a, &b], &[&a, &b], true).unwrap();
        assert_eq!((test.difference, test.low, test.high, test.p), (0.0, 0.0, 0.0, 1.0));
        // Drawn separately, the seeds alone make a difference.
        let apart = paired_test(Metric::Accuracy, &labels, &[&a, &b], &[&a, &b], false).unwrap();
        assert!(apart.low < 0.0 && apart.high > 0.0 && apart.p > 0.5, "{apart:?}");
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
