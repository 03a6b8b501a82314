//! Computes confidence intervals of mean scores over seeds.

use serde::{Deserialize, Serialize};

use super::variance::{LEVEL, RunScores, Variance};
use crate::score::metrics::{Ratio, WeightedMetric};
use crate::{Label, Metric};

/// A confidence interval of a mean score over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The metric.
    pub metric: Metric,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence level.
    pub level: f64,
    /// Standard error of the mean score.
    pub standard_error: f64,
}

impl Interval {
    /// Formats the interval for a mean over `runs` runs.
    pub fn describe(&self, runs: usize) -> String {
        let Self { metric, level, .. } = self;
        let range = self.range();
        format!("{:.0} % interval of the mean {metric}: {range} ({})", 100.0 * level, Self::coverage(runs))
    }

    /// Formats both ends.
    pub fn range(&self) -> String {
        format!("{} to {}", self.metric.with_unit(self.low), self.metric.with_unit(self.high))
    }

    /// Returns the sources of variation that an interval over `runs` runs covers.
    pub fn coverage(runs: usize) -> &'static str {
        if runs == 1 {
            "over examples; one seed does not show how other seeds differ"
        } else {
            "over examples and seeds"
        }
    }
}

/// Returns the 95 % interval of the mean of `metric` over `runs`, where each run holds one seed's answers to all
/// `labels`. `None` for a metric that does not compare single answers with labels.
///
/// The variance has a part from the seeds and a part from the examples; with one run, only the part from the examples.
/// The interval of a metric with bounds is the score interval of Wilson (1927) for the number of independent examples
/// with the same variance, so it is never empty and never exceeds the bounds. Error metrics have a symmetric interval.
///
/// # Panics
/// Panics if the list of runs or labels is empty, or if the numbers of answers and labels of a run differ.
pub fn confidence_interval(metric: Metric, labels: &[Label], runs: &[&[Label]]) -> Option<Interval> {
    let runs = runs.iter().map(|run| WeightedMetric::new(metric, run, labels)).collect::<Option<Vec<_>>>()?;
    Some(interval(metric, labels.len(), &runs))
}

/// Returns the [`confidence_interval`] of a metric that is a ratio of sums over the examples, such as the F1 of
/// entities, or a mean. `runs` has a [`Ratio`] for every example; for a mean, the denominator is 1.
///
/// # Panics
/// Panics if the list of runs is empty, or the runs have different numbers of examples.
pub fn ratio_interval(metric: Metric, runs: Vec<Vec<Ratio>>) -> Interval {
    let examples = runs[0].len();
    assert!(runs.iter().all(|run| run.len() == examples), "a ratio for each example");
    interval(metric, examples, &runs.into_iter().map(WeightedMetric::Ratio).collect::<Vec<_>>())
}

fn interval(metric: Metric, examples: usize, runs: &[WeightedMetric]) -> Interval {
    let scores = RunScores::new(runs, examples);
    let variance = Variance::new(&scores);
    let mean = scores.mean();
    let standard_error = variance.total().sqrt();
    let quantile = variance.quantile();
    let (low, high) = match metric.bounds() {
        Some((least, most)) => {
            let width = most - least;
            let share = (mean - least) / width;
            let one = share * (1.0 - share);
            let shares_variance = variance.total() / width.powi(2);
            let independent = if shares_variance > 0.0 { one / shares_variance } else { examples as f64 };
            let (low, high) = score_interval(share, independent, quantile);
            ((least + width * low).max(least), (least + width * high).min(most))
        }
        None => ((mean - quantile * standard_error).max(0.0), mean + quantile * standard_error),
    };
    Interval { metric, low, high, level: LEVEL, standard_error }
}

/// Returns Wilson's interval of a share of `examples` examples, `quantile` standard errors wide on each side.
pub(super) fn score_interval(share: f64, examples: f64, quantile: f64) -> (f64, f64) {
    let square = quantile.powi(2) / examples;
    let centre = (share + square / 2.0) / (1.0 + square);
    let half = (square * (share * (1.0 - share) + square / 4.0)).sqrt() / (1.0 + square);
    (centre - half, centre + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(right: usize, all: usize) -> (Vec<Label>, Vec<Label>) {
        let labels = vec![Label::Class(1); all];
        ((0..all).map(|at| Label::Class(usize::from(at < right))).collect(), labels)
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() < tolerance, "{found} is not {expected}");
    }

    /// scipy 1.17: `binomtest(60, 100).proportion_ci(method='wilson')` is .5020 to .6906. This interval has the quantile of
    /// Student's distribution and the variance with the divisor 99, so it is a little wider.
    #[test]
    fn one_run_has_the_interval_of_wilson() {
        let (answers, labels) = classes(60, 100);
        let interval = confidence_interval(Metric::Accuracy, &labels, &[&answers]).unwrap();
        close(interval.low, 0.5020, 0.002);
        close(interval.high, 0.6906, 0.002);
        close(interval.standard_error, (0.6f64 * 0.4 / 99.0).sqrt(), 1e-12);
        // An accuracy is a ratio with denominator 1 for every example.
        let ratio =
            |answer: &Label| Ratio { numerator: f64::from(*answer == Label::Class(1)), denominator: 1.0 };
        let ratios = ratio_interval(Metric::Accuracy, vec![answers.iter().map(ratio).collect()]);
        close(ratios.low, interval.low, 1e-9);
        close(ratios.high, interval.high, 1e-9);
    }

    /// scipy: Wilson's interval of 10 of 10 begins at .7225, with the quantile 1.96 of the normal distribution; with
    /// Student's quantile 2.2622 for nine degrees of freedom, `10 / (10 + 2.2622**2)` is .6615.
    #[test]
    fn equal_answers_have_an_interval_too() {
        let (right, labels) = classes(10, 10);
        let (wrong, _) = classes(0, 10);
        let interval =
            |answers: &[Label]| confidence_interval(Metric::Accuracy, &labels, &[answers]).unwrap();
        let all = interval(&right);
        close(all.low, 0.6615, 1e-4);
        close(all.high, 1.0, 1e-12);
        assert_eq!(all.standard_error, 0.0);
        let none = interval(&wrong);
        close(none.high, 1.0 - 0.6615, 1e-4);
        close(none.low, 0.0, 1e-12);
        close(score_interval(1.0, 10.0, 1.959964).0, 0.7225, 1e-4);
        // A Matthews correlation is never greater than 1.
        let both: Vec<Label> = (0..10).map(|at| Label::Class(at % 2)).collect();
        let matthews = confidence_interval(Metric::Matthews, &both, &[&both]).unwrap();
        assert!(matthews.low < 0.5 && matthews.high > 0.999, "{matthews:?}");
        assert!(confidence_interval(Metric::Accuracy, &both[..1], &[&both[..1]]).unwrap().low < 0.5);
    }

    /// The law school data of Efron and Tibshirani (1993), table 3.1: r = .776; their jackknife standard error is .142
    /// (section 11.5).
    #[test]
    fn correlation_of_the_law_school_data() {
        let lsat = [576, 635, 558, 578, 666, 580, 555, 661, 651, 605, 653, 575, 545, 572, 594];
        let gpa = [3.39, 3.30, 2.81, 3.03, 3.44, 3.07, 3.00, 3.43, 3.36, 3.13, 3.12, 2.74, 2.76, 2.88, 2.96];
        let lsat: Vec<Label> = lsat.map(|x| Label::Score(x as f32)).to_vec();
        let gpa: Vec<Label> = gpa.map(Label::Score).to_vec();
        let interval = confidence_interval(Metric::Pearson, &gpa, &[&lsat]).unwrap();
        close(interval.standard_error, 0.142, 0.001);
        assert!(interval.low < 0.776 && 0.776 < interval.high && interval.high < 1.0, "{interval:?}");
        let error = confidence_interval(Metric::Mae, &gpa, &[&lsat]).unwrap();
        assert!(error.low > 500.0 && error.high < 700.0, "{error:?}");
    }

    /// One run answers all right, one all wrong: the variance of their mean is `.5 / 2`, with one degree of freedom.
    #[test]
    fn the_variance_between_seeds_counts() {
        let labels = [Label::Class(1); 30];
        let right = [Label::Class(1); 30];
        let wrong = [Label::Class(0); 30];
        let interval = confidence_interval(Metric::Accuracy, &labels, &[&right, &wrong]).unwrap();
        close(interval.standard_error, 0.5, 1e-12);
        assert!(interval.low < 0.01 && interval.high > 0.99, "{interval:?}");
    }

    /// 2,500 examples are left out in 1,000 groups of two or three.
    #[test]
    fn many_examples_are_left_out_in_groups() {
        let labels = vec![Label::Class(1); 2500];
        let answers: Vec<Label> = (0..2500).map(|at| Label::Class(usize::from(at % 7 > 2))).collect();
        let interval = confidence_interval(Metric::Accuracy, &labels, &[&answers]).unwrap();
        let share = interval.low.midpoint(interval.high);
        close(share, 4.0 / 7.0, 0.002);
        close(interval.standard_error, (12.0 / 49.0 / 2500.0f64).sqrt(), 0.002);
    }
}
