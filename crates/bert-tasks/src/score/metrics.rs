//! Computes the metrics of tasks from predictions and labels. Examples have integer weights, so that
//! [`crate::statistics`] can score subsets without building them.
//!
//! The values equal the results of scikit-learn and scipy, except that an undefined value (a correlation with a
//! constant, F1 without positives) is 0, never NaN.
//!
//! Computes reference values for a score: the baseline of a constant answer, the sampling error, and whether a run always
//! gives the same answer.

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;

use std::collections::BTreeSet;

use crate::task::Task;
use crate::task::example::Label;
use crate::task::metric::{Metric, Scores};
use crate::task::spec::Kind;

/// Returns the task's metrics of `predictions` against `labels`, in the order of its specification.
///
/// # Panics
/// Panics if the predictions and labels differ in number or kind, or are empty.
pub fn score(task: &Task, predictions: &[Label], labels: &[Label]) -> Scores {
    let value = |&metric: &Metric| match metric {
        Metric::MacroF1 => (metric, macro_f1(predictions, labels)),
        _ => {
            let answers = WeightedMetric::new(metric, predictions, labels);
            let answers = answers.unwrap_or_else(|| panic!("task {task} has no {metric} of such labels"));
            (metric, answers.value(&vec![1; labels.len()]))
        }
    };
    task.spec().metrics.iter().map(value).collect()
}

/// Returns the confusion matrix: rows are true classes, columns are predictions; `None` for a regression.
///
/// # Panics
/// Panics if [`score`] does.
pub fn confusion(task: &Task, predictions: &[Label], labels: &[Label]) -> Option<Vec<Vec<u64>>> {
    if task.spec().kind != Kind::Classification {
        return None;
    }
    assert_eq!(predictions.len(), labels.len(), "one prediction each");
    let mut counts = vec![vec![0; task.num_labels()]; task.num_labels()];
    for (predicted, label) in predictions.iter().zip(labels) {
        counts[class_of(label)][class_of(predicted)] += 1;
    }
    Some(counts)
}

fn class_of(label: &Label) -> usize {
    match label {
        Label::Class(class) => *class,
        Label::Score(_) => panic!("a score where the task has classes"),
    }
}

/// Returns the mean F1 over the classes; classes that occur in neither predictions nor labels are ignored.
fn macro_f1(predictions: &[Label], labels: &[Label]) -> f64 {
    check_lengths(predictions, labels);
    let once = vec![1; labels.len()];
    let classes: BTreeSet<usize> = predictions.iter().chain(labels).map(class_of).collect();
    let sum: f64 =
        classes.iter().map(|&class| ClassIndicators::new(class, predictions, labels).f1(&once)).sum();
    sum / classes.len() as f64
}

fn check_lengths(predictions: &[Label], labels: &[Label]) {
    assert_eq!(predictions.len(), labels.len(), "one prediction for each label");
    assert!(!labels.is_empty(), "no examples to score");
}

/// One example's contribution to a ratio of sums, such as the F1 of entities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Value that is added to the numerator.
    pub numerator: f64,
    /// Value that is added to the denominator.
    pub denominator: f64,
}

/// One run's predictions and labels, prepared for a metric in which example `i` has weight `weights[i]`.
pub(crate) enum WeightedMetric {
    /// 1 for a correct prediction, else 0.
    Accuracy(Vec<u32>),
    /// F1 of class 1: harmonic mean of precision and recall; 0 without true positives.
    F1(ClassIndicators),
    /// Matthews correlation of class 1 with the rest; 0 if predictions or labels are constant.
    Matthews(ClassIndicators),
    /// Ratio of the sum of the numerators to the sum of the denominators; 0 if the latter is 0.
    Ratio(Vec<Ratio>),
    /// Pearson correlation; 0 if either side is constant or not finite.
    Pearson { predictions: Vec<f64>, labels: Vec<f64> },
    /// Spearman correlation: Pearson correlation of the ranks, with mean ranks for ties.
    Spearman { predictions: TiedRanks, labels: TiedRanks },
    /// Root of the mean of these squared errors.
    RootMean(Vec<f64>),
    /// Mean of these values.
    Mean(Vec<f64>),
}

impl WeightedMetric {
    /// Prepares a metric; returns `None` if it does not apply to single predictions of this kind.
    ///
    /// # Panics
    /// Panics if the numbers of predictions and labels differ, or are 0.
    pub(crate) fn new(metric: Metric, predictions: &[Label], labels: &[Label]) -> Option<Self> {
        check_lengths(predictions, labels);
        let score = |label: &Label| match label {
            Label::Score(score) => Some(f64::from(*score)),
            Label::Class(_) => None,
        };
        let scores = |of: &[Label]| of.iter().map(score).collect::<Option<Vec<f64>>>();
        match (metric, scores(predictions), scores(labels)) {
            (Metric::Accuracy, None, None) => {
                let right = predictions.iter().zip(labels).map(|(p, l)| u32::from(p == l));
                Some(Self::Accuracy(right.collect()))
            }
            (Metric::F1, None, None) => Some(Self::F1(ClassIndicators::new(1, predictions, labels))),
            (Metric::Matthews, None, None) => {
                Some(Self::Matthews(ClassIndicators::new(1, predictions, labels)))
            }
            (Metric::Pearson, Some(predictions), Some(labels)) => Some(Self::Pearson { predictions, labels }),
            (Metric::Spearman, Some(predictions), Some(labels)) => {
                let predictions = TiedRanks::new(&predictions);
                let labels = TiedRanks::new(&labels);
                Some(Self::Spearman { predictions, labels })
            }
            (Metric::Rmse | Metric::Mae, Some(predictions), Some(labels)) => {
                let errors = predictions.iter().zip(&labels).map(|(p, l)| (p - l).abs());
                Some(match metric {
                    Metric::Mae => Self::Mean(errors.collect()),
                    _ => Self::RootMean(errors.map(|error| error * error).collect()),
                })
            }
            _ => None,
        }
    }

    /// Returns the metric with weight `weights[i]` for example `i`.
    pub(crate) fn value(&self, weights: &[u32]) -> f64 {
        match self {
            Self::Accuracy(right) => count(right, weights) / f64::from(weights.iter().sum::<u32>()),
            Self::F1(class) => class.f1(weights),
            Self::Matthews(class) => class.matthews(weights),
            Self::Ratio(examples) => {
                let sum = |part: fn(&Ratio) -> f64| -> f64 {
                    examples.iter().zip(weights).map(|(ratio, &n)| part(ratio) * f64::from(n)).sum()
                };
                sum(|ratio| ratio.numerator) / sum(|ratio| ratio.denominator).max(1.0)
            }
            Self::Pearson { predictions, labels } => weighted_pearson(predictions, labels, weights),
            Self::Spearman { predictions, labels } if predictions.finite && labels.finite => {
                weighted_pearson(&predictions.ranks(weights), &labels.ranks(weights), weights)
            }
            Self::Spearman { .. } => 0.0,
            Self::RootMean(squares) => weighted_mean(squares, weights).sqrt(),
            Self::Mean(errors) => weighted_mean(errors, weights),
        }
    }

    /// Returns a value for each example if the metric is their mean.
    pub(crate) fn example_values(&self) -> Option<Vec<f64>> {
        match self {
            Self::Accuracy(right) => Some(right.iter().map(|&right| f64::from(right)).collect()),
            Self::Mean(errors) => Some(errors.clone()),
            _ => None,
        }
    }
}

/// Returns the weighted mean of values.
fn weighted_mean(values: &[f64], weights: &[u32]) -> f64 {
    let sum: f64 = values.iter().zip(weights).map(|(value, &n)| value * f64::from(n)).sum();
    sum / f64::from(weights.iter().sum::<u32>())
}

/// Returns the weighted number of set flags.
fn count(flags: &[u32], weights: &[u32]) -> f64 {
    f64::from(flags.iter().zip(weights).map(|(flag, n)| flag * n).sum::<u32>())
}

/// Examples where a class is predicted, where it is the label, and where it is both.
pub(crate) struct ClassIndicators {
    predicted: Vec<u32>,
    labelled: Vec<u32>,
    both: Vec<u32>,
}

impl ClassIndicators {
    fn new(class: usize, predictions: &[Label], labels: &[Label]) -> Self {
        let flags = |of: &[Label]| -> Vec<u32> {
            of.iter().map(|label| u32::from(*label == Label::Class(class))).collect()
        };
        let predicted = flags(predictions);
        let labelled = flags(labels);
        let both = predicted.iter().zip(&labelled).map(|(p, l)| p * l).collect();
        Self { predicted, labelled, both }
    }

    fn f1(&self, weights: &[u32]) -> f64 {
        let either = count(&self.predicted, weights) + count(&self.labelled, weights);
        ratio(2.0 * count(&self.both, weights), either)
    }

    fn matthews(&self, weights: &[u32]) -> f64 {
        let all = f64::from(weights.iter().sum::<u32>());
        let [p, l, both] = [&self.predicted, &self.labelled, &self.both].map(|of| count(of, weights));
        let neither = all + both - p - l;
        let only_p = p - both;
        let only_l = l - both;
        ratio(both * neither - only_p * only_l, (p * (all - p)).sqrt() * (l * (all - l)).sqrt())
    }
}

/// Returns the weighted Pearson correlation of pairs.
fn weighted_pearson(predictions: &[f64], labels: &[f64], weights: &[u32]) -> f64 {
    let weight = |at: usize| f64::from(weights[at]);
    // If all values are equal, rounding errors in the mean would leave deviations other than 0, and the result would be
    // noise.
    let is_constant = |values: &[f64]| {
        let mut drawn = (0..values.len()).filter(|&at| weight(at) > 0.0).map(|at| values[at]);
        let first = drawn.next();
        drawn.all(|value| Some(value) == first)
    };
    if is_constant(predictions) || is_constant(labels) {
        return 0.0;
    }
    let all: f64 = (0..labels.len()).map(weight).sum();
    let mean = |values: &[f64]| values.iter().enumerate().map(|(at, v)| weight(at) * v).sum::<f64>() / all;
    let mean_p = mean(predictions);
    let mean_l = mean(labels);
    let mut covariance = 0.0;
    let mut variance_p = 0.0;
    let mut variance_l = 0.0;
    for (at, (p, l)) in predictions.iter().zip(labels).enumerate() {
        let p = p - mean_p;
        let l = l - mean_l;
        covariance += weight(at) * p * l;
        variance_p += weight(at) * p * p;
        variance_l += weight(at) * l * l;
    }
    ratio(covariance, variance_p.sqrt() * variance_l.sqrt()).clamp(-1.0, 1.0)
}

/// Sorted values, so that the ranks of a resample need no sorting.
pub(crate) struct TiedRanks {
    /// Examples sorted by value, with ties grouped.
    ties: Vec<Vec<usize>>,
    finite: bool,
}

impl TiedRanks {
    fn new(values: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
        Self {
            ties: order.chunk_by(|a, b| values[*a] == values[*b]).map(<[usize]>::to_vec).collect(),
            finite: values.iter().all(|value| value.is_finite()),
        }
    }

    /// Returns ranks from 1, with mean ranks for ties; the ranks of examples with weight 0 are meaningless.
    fn ranks(&self, weights: &[u32]) -> Vec<f64> {
        let mut ranks = vec![0.0; weights.len()];
        let mut before = 0;
        for tie in &self.ties {
            let here: u32 = tie.iter().map(|&at| weights[at]).sum();
            for &at in tie {
                ranks[at] = f64::from(2 * before + here + 1) / 2.0;
            }
            before += here;
        }
        ranks
    }
}

fn ratio(numerator: f64, denominator: f64) -> f64 {
    let ratio = numerator / denominator;
    if ratio.is_finite() { ratio } else { 0.0 }
}

/// Returns the scores of a constant answer to examples with these labels: their most frequent class (ties go to the lower
/// class number), which is the best constant answer, or the mean of the scores of the training set.
///
/// # Panics
/// Panics if one of the sets is empty.
pub fn constant_baseline(task: &Task, train: &[Label], labels: &[Label]) -> Scores {
    assert!(!train.is_empty() && !labels.is_empty(), "no labels");
    let mut counts = vec![0usize; task.num_labels()];
    let mut sum = 0.0;
    for label in labels {
        if let Label::Class(class) = label {
            counts[*class] += 1;
        }
    }
    for label in train {
        if let Label::Score(score) = label {
            sum += f64::from(*score);
        }
    }
    let answer = match labels[0] {
        Label::Class(_) => {
            let most = (0..counts.len()).rev().max_by_key(|class| counts[*class]);
            Label::Class(most.unwrap_or(0))
        }
        Label::Score(_) => Label::Score((sum / train.len() as f64) as f32),
    };
    score(task, &vec![answer; labels.len()], labels)
}

/// Returns the standard error of an accuracy measured on `examples` examples, as a fraction: `sqrt(p (1 - p) / n)`. For
/// RTE's 277 examples and an accuracy of .66 it is .028.
pub fn binomial_standard_error(accuracy: f64, examples: usize) -> f64 {
    (accuracy * (1.0 - accuracy) / examples as f64).sqrt()
}

/// Returns whether all predictions are the same. A run that failed to train predicts the majority class (or one score)
/// for everything, and an average over seeds hides it.
pub fn is_degenerate(predictions: &[Label]) -> bool {
    predictions.windows(2).all(|pair| pair[0] == pair[1])
}
