//! Computes percentile intervals by the bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13),
//! resampling both examples and seeds.

use bert_random::{Domain, Random, Stream};
use serde::{Deserialize, Serialize};

use crate::score::metrics::{Ratio, WeightedMetric};
use crate::{Label, Metric, Statistics};

/// Number of resamples. The 2.5 % points are the 250th values from either end.
pub(super) const RESAMPLES: usize = 10_000;

/// Confidence level.
pub(super) const LEVEL: f64 = 0.95;

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
    /// Standard deviation of the mean score over the resamples.
    pub standard_error: f64,
    /// Number of resamples.
    pub resamples: usize,
}

impl Interval {
    /// Formats the interval for a mean over `runs` runs.
    pub fn describe(&self, runs: usize) -> String {
        let Self { metric, low, high, level, .. } = self;
        let over =
            if runs == 1 { "examples; one seed gives no variation over seeds" } else { "examples and seeds" };
        format!(
            "{:.0} % interval of the mean {metric}: {} to {} (bootstrap over {over})",
            100.0 * level,
            metric.with_unit(*low),
            metric.with_unit(*high)
        )
    }
}

/// Returns the 95 % interval of the mean of `metric` over `runs`, where each run holds one seed's answers to all
/// `labels`. `None` for a metric that does not compare single answers with labels.
///
/// A resample draws n of n examples, the same for all runs, and S of S runs; with one run, only examples are drawn.
/// With S runs the bootstrap recovers only `(S - 1) / S` of the variance between them, so the interval is slightly too
/// narrow below five seeds.
///
/// # Panics
/// When there are no runs or no labels, or a run has a different number of answers.
pub fn confidence_interval(metric: Metric, labels: &[Label], runs: &[&[Label]]) -> Option<Interval> {
    let runs = runs.iter().map(|run| WeightedMetric::new(metric, run, labels)).collect::<Option<Vec<_>>>()?;
    Some(interval(metric, labels.len(), &runs))
}

/// Returns the [`confidence_interval`] of a metric that is a ratio of sums over the examples, such as the F1 of
/// entities, or a mean. `runs` has a [`Ratio`] for every example; for a mean, the score divided by 1.
///
/// # Panics
/// When there are no runs, or their numbers of examples differ.
pub fn ratio_interval(metric: Metric, runs: Vec<Vec<Ratio>>) -> Interval {
    let examples = runs[0].len();
    assert!(runs.iter().all(|run| run.len() == examples), "a ratio for each example");
    interval(metric, examples, &runs.into_iter().map(WeightedMetric::Ratio).collect::<Vec<_>>())
}

fn interval(metric: Metric, examples: usize, runs: &[WeightedMetric]) -> Interval {
    let mut means = resample(examples, &[runs.len()], |weights, drawn| mean(runs, weights, &drawn[0]));
    means.sort_by(f64::total_cmp);
    let (low, high) = percentiles(&means);
    Interval {
        metric,
        low,
        high,
        level: LEVEL,
        standard_error: Statistics::new(&means).sd.unwrap_or(0.0),
        resamples: RESAMPLES,
    }
}

/// Evaluates `statistic` on every resample, in order. Its arguments are the number of times that each example was drawn
/// and, for each of `groups` (numbers of runs), the number of times that each run was drawn.
pub(super) fn resample(
    examples: usize,
    groups: &[usize],
    mut statistic: impl FnMut(&[u32], &[Vec<u32>]) -> f64,
) -> Vec<f64> {
    // The seed is fixed, so equal answers give equal intervals.
    let root = Stream::new(0, Domain::Bootstrap, &[]);
    let mut weights = vec![0; examples];
    let mut drawn: Vec<Vec<u32>> = groups.iter().map(|&runs| vec![0; runs]).collect();
    let one = |number| {
        let mut stream = root.branch(number);
        draw(&mut stream, &mut weights);
        drawn.iter_mut().for_each(|runs| draw(&mut stream, runs));
        statistic(&weights, &drawn)
    };
    (0..RESAMPLES as u64).map(one).collect()
}

/// Draws n of n with replacement and counts each draw.
fn draw(stream: &mut Stream, counts: &mut [u32]) {
    counts.fill(0);
    for _ in 0..counts.len() {
        counts[stream.below(counts.len())] += 1;
    }
}

/// Returns the mean over the drawn runs.
pub(super) fn mean(runs: &[WeightedMetric], weights: &[u32], drawn: &[u32]) -> f64 {
    let scores = runs.iter().zip(drawn).filter(|(_, times)| **times > 0);
    let sum: f64 = scores.map(|(run, &times)| f64::from(times) * run.value(weights)).sum();
    sum / runs.len() as f64
}

/// Returns the bounds that contain the central [`LEVEL`] of the sorted values.
pub(super) fn percentiles(sorted: &[f64]) -> (f64, f64) {
    let outside = (sorted.len() as f64 * (1.0 - LEVEL) / 2.0).round() as usize;
    let at = outside.max(1) - 1;
    (sorted[at], sorted[sorted.len() - 1 - at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(right: usize, all: usize) -> (Vec<Label>, Vec<Label>) {
        let labels = vec![Label::Class(1); all];
        ((0..all).map(|at| Label::Class(usize::from(at < right))).collect(), labels)
    }

    /// The resampled accuracy of one run is binomial: for 100 examples with 60 correct, its 2.5 % and 97.5 % quantiles
    /// are 50 and 69 (Python: the smallest k with `sum(comb(100, i) * .6**i * .4**(100-i) for i in range(k+1))` at
    /// least .025 and .975), and its standard deviation is `sqrt(.6 * .4 / 100)` = .0490.
    #[test]
    fn accuracy_interval_has_binomial_quantiles() {
        let (answers, labels) = classes(60, 100);
        let interval = confidence_interval(Metric::Accuracy, &labels, &[&answers]).unwrap();
        assert!(
            (interval.low - 0.50).abs() < 0.0101 && (interval.high - 0.69).abs() < 0.0101,
            "{interval:?}"
        );
        // 5 sigma of a standard deviation of 10,000 values: a fraction 5 / sqrt(20,000) of it.
        assert!((interval.standard_error - 0.04899).abs() < 0.0018, "{interval:?}");
        assert_eq!(Some(interval), confidence_interval(Metric::Accuracy, &labels, &[&answers]));
        // An accuracy is a ratio with denominator 1 for every example.
        let ratio =
            |answer: &Label| Ratio { numerator: f64::from(*answer == Label::Class(1)), denominator: 1.0 };
        let ratios = answers.iter().map(ratio).collect();
        assert_eq!(ratio_interval(Metric::Accuracy, vec![ratios]), interval);
        let (answers, labels) = classes(10, 10);
        let sure = confidence_interval(Metric::Accuracy, &labels, &[&answers]).unwrap();
        assert_eq!((sure.low, sure.high, sure.standard_error), (1.0, 1.0, 0.0));
    }

    /// The law school data of Efron and Tibshirani (1993), table 3.1: r = .776, and in table 6.1 a bootstrap standard
    /// error of .132 from 3,200 resamples.
    #[test]
    fn correlation_interval_of_the_law_school_data() {
        let lsat = [576, 635, 558, 578, 666, 580, 555, 661, 651, 605, 653, 575, 545, 572, 594];
        let gpa = [3.39, 3.30, 2.81, 3.03, 3.44, 3.07, 3.00, 3.43, 3.36, 3.13, 3.12, 2.74, 2.76, 2.88, 2.96];
        let lsat: Vec<Label> = lsat.map(|x| Label::Score(x as f32)).to_vec();
        let gpa: Vec<Label> = gpa.map(Label::Score).to_vec();
        let interval = confidence_interval(Metric::Pearson, &gpa, &[&lsat]).unwrap();
        assert!((interval.standard_error - 0.132).abs() < 0.006, "{interval:?}");
        assert!(interval.low < 0.776 && 0.776 < interval.high && interval.high < 1.0, "{interval:?}");
        let spearman = confidence_interval(Metric::Spearman, &gpa, &[&lsat]).unwrap();
        assert!(spearman.low < interval.high && spearman.high > interval.low);
    }

    /// The answers of one run are all right, of the other all wrong. Examples do not matter, and the mean of two drawn
    /// runs is 0, 1/2 and 1 with probability 1/4, 1/2 and 1/4; its standard deviation is `sqrt(1/8)`.
    #[test]
    fn seeds_are_resampled() {
        let labels = [Label::Class(1); 30];
        let right = vec![Label::Class(1); 30];
        let wrong = vec![Label::Class(0); 30];
        let interval = confidence_interval(Metric::Accuracy, &labels, &[&right, &wrong]).unwrap();
        assert_eq!((interval.low, interval.high), (0.0, 1.0));
        assert!((interval.standard_error - 0.125f64.sqrt()).abs() < 0.013, "{interval:?}");
    }
}
