//! Computes GLUE's metrics as pure functions of predictions and labels.
//!
//! The values equal those of scikit-learn and scipy, except that an undefined value (a correlation with a constant,
//! F1 without a positive) is 0, never NaN.

use std::collections::BTreeSet;

use super::scores::{Metric, Scores};
use super::spec::Kind;
use super::task::Task;
use crate::tasks::example::Label;

/// The task's metrics of `predictions` against `labels`, in the order of its specification.
///
/// # Panics
/// When the two differ in number or kind, or there are none: a programmer's error.
pub fn score(task: Task, predictions: &[Label], labels: &[Label]) -> Scores {
    let spec = task.spec();
    match spec.kind {
        Kind::Classification { .. } => {
            let (predictions, labels) = (classes(predictions), classes(labels));
            let value = |metric| match metric {
                Metric::Accuracy => accuracy(&predictions, &labels),
                Metric::F1 => f1(&predictions, &labels),
                Metric::MacroF1 => macro_f1(&predictions, &labels),
                Metric::Matthews => matthews(&predictions, &labels),
                _ => unreachable!("not of classes"),
            };
            spec.metrics.iter().map(|m| (*m, value(*m))).collect()
        }
        Kind::Regression { .. } => {
            let (predictions, labels) = (values(predictions), values(labels));
            let value = |metric| match metric {
                Metric::Pearson => pearson(&predictions, &labels),
                Metric::Spearman => spearman(&predictions, &labels),
                _ => unreachable!("not of scores"),
            };
            spec.metrics.iter().map(|m| (*m, value(*m))).collect()
        }
        Kind::Spans { .. } | Kind::Tags => panic!("task {task} has no labels"),
    }
}

/// How often each class (row) was predicted as each class (column); `None` for a regression.
///
/// # Panics
/// Like [`score`].
pub fn confusion(task: Task, predictions: &[Label], labels: &[Label]) -> Option<Vec<Vec<u64>>> {
    let Kind::Classification { labels: names } = task.spec().kind else { return None };
    assert_eq!(predictions.len(), labels.len(), "one prediction each");
    let mut counts = vec![vec![0; names.len()]; names.len()];
    for (predicted, label) in classes(predictions).into_iter().zip(classes(labels)) {
        counts[label][predicted] += 1;
    }
    Some(counts)
}

fn classes(labels: &[Label]) -> Vec<usize> {
    let class = |label: &Label| match label {
        Label::Class(class) => *class,
        Label::Score(_) => panic!("a score where the task has classes"),
    };
    labels.iter().map(class).collect()
}

fn values(labels: &[Label]) -> Vec<f64> {
    let value = |label: &Label| match label {
        Label::Score(score) => f64::from(*score),
        Label::Class(_) => panic!("a class where the task has scores"),
    };
    labels.iter().map(value).collect()
}

fn check_lengths(predictions: usize, labels: usize) {
    assert_eq!(predictions, labels, "one prediction for each label");
    assert!(labels > 0, "no examples to score");
}

/// Share of predictions that equal their label.
///
/// # Panics
/// When the two differ in number or there are none (so do all functions here).
pub fn accuracy(predictions: &[usize], labels: &[usize]) -> f64 {
    check_lengths(predictions.len(), labels.len());
    let right = predictions.iter().zip(labels).filter(|(p, l)| p == l);
    right.count() as f64 / labels.len() as f64
}

/// Counts of the four cases, one class being the positive one.
pub(crate) struct Confusion {
    pub(crate) true_positive: f64,
    pub(crate) false_positive: f64,
    pub(crate) false_negative: f64,
    pub(crate) true_negative: f64,
}

impl Confusion {
    fn new(predictions: &[usize], labels: &[usize], positive: usize) -> Self {
        check_lengths(predictions.len(), labels.len());
        let count = |prediction, label| {
            let pairs = predictions.iter().zip(labels);
            let case =
                |(p, l): &(&usize, &usize)| (**p == positive) == prediction && (**l == positive) == label;
            pairs.filter(case).count() as f64
        };
        Confusion {
            true_positive: count(true, true),
            false_positive: count(true, false),
            false_negative: count(false, true),
            true_negative: count(false, false),
        }
    }

    pub(crate) fn f1(&self) -> f64 {
        let right = 2.0 * self.true_positive;
        ratio(right, right + self.false_positive + self.false_negative)
    }

    pub(crate) fn matthews(&self) -> f64 {
        let c = self;
        let predicted = (c.true_positive + c.false_positive) * (c.true_negative + c.false_negative);
        let actual = (c.true_positive + c.false_negative) * (c.true_negative + c.false_positive);
        ratio(
            c.true_positive * c.true_negative - c.false_positive * c.false_negative,
            predicted.sqrt() * actual.sqrt(),
        )
    }
}

/// Harmonic mean of precision and recall of class 1; 0 when class 1 is nowhere right.
pub fn f1(predictions: &[usize], labels: &[usize]) -> f64 {
    Confusion::new(predictions, labels, 1).f1()
}

/// Mean over the classes of their F1; a class that is neither predicted nor a label does not count.
pub fn macro_f1(predictions: &[usize], labels: &[usize]) -> f64 {
    check_lengths(predictions.len(), labels.len());
    let classes: BTreeSet<usize> = predictions.iter().chain(labels).copied().collect();
    let sum: f64 = classes.iter().map(|&class| Confusion::new(predictions, labels, class).f1()).sum();
    sum / classes.len() as f64
}

/// Matthews correlation of class 1 with the rest; 0 when either side is all one class.
pub fn matthews(predictions: &[usize], labels: &[usize]) -> f64 {
    Confusion::new(predictions, labels, 1).matthews()
}

/// Pearson correlation; 0 when either side is constant or not finite.
pub fn pearson(predictions: &[f64], labels: &[f64]) -> f64 {
    check_lengths(predictions.len(), labels.len());
    pearson_of(predictions, labels, None)
}

/// [`pearson`] where each pair counts as often as `weights` says, or once.
pub(crate) fn pearson_of(predictions: &[f64], labels: &[f64], weights: Option<&[u32]>) -> f64 {
    let weight = |at: usize| weights.map_or(1.0, |weights| f64::from(weights[at]));
    // Of equal values the mean can be off by a rounding, which would leave noise to correlate with.
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
    let (mean_p, mean_l) = (mean(predictions), mean(labels));
    let (mut covariance, mut variance_p, mut variance_l) = (0.0, 0.0, 0.0);
    for (at, (p, l)) in predictions.iter().zip(labels).enumerate() {
        let (p, l) = (p - mean_p, l - mean_l);
        covariance += weight(at) * p * l;
        variance_p += weight(at) * p * p;
        variance_l += weight(at) * l * l;
    }
    ratio(covariance, variance_p.sqrt() * variance_l.sqrt()).clamp(-1.0, 1.0)
}

/// Spearman correlation: Pearson's of the ranks, equal values sharing their mean rank.
pub fn spearman(predictions: &[f64], labels: &[f64]) -> f64 {
    check_lengths(predictions.len(), labels.len());
    spearman_of(&Ranked::new(predictions), &Ranked::new(labels), &vec![1; labels.len()])
}

/// [`spearman`] where each pair counts as often as `weights` says.
pub(crate) fn spearman_of(predictions: &Ranked, labels: &Ranked, weights: &[u32]) -> f64 {
    match predictions.finite && labels.finite {
        true => pearson_of(&predictions.ranks(weights), &labels.ranks(weights), Some(weights)),
        false => 0.0,
    }
}

/// Values in their order, so that the ranks of a resample need no sorting.
pub(crate) struct Ranked {
    /// Examples by value, equal ones together.
    ties: Vec<Vec<usize>>,
    examples: usize,
    finite: bool,
}

impl Ranked {
    pub(crate) fn new(values: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
        Self {
            ties: order.chunk_by(|a, b| values[*a] == values[*b]).map(<[usize]>::to_vec).collect(),
            examples: values.len(),
            finite: values.iter().all(|value| value.is_finite()),
        }
    }

    /// Ranks from 1, ties at their mean; those of examples that were not drawn mean nothing.
    fn ranks(&self, weights: &[u32]) -> Vec<f64> {
        let mut ranks = vec![0.0; self.examples];
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

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-12, "{value} != {expected}");
    }

    #[test]
    fn confusion_has_labels_in_rows() {
        let [a, b] = [0, 1].map(Label::Class);
        assert_eq!(confusion(Task::Rte, &[b, b, a, b], &[a, b, a, a]), Some(vec![vec![1, 2], vec![0, 1]]));
        assert_eq!(confusion(Task::Stsb, &[Label::Score(1.0)], &[Label::Score(2.0)]), None);
    }

    #[test]
    fn classes_by_hand() {
        // 2 true positives, 1 false positive, 1 false negative, 1 true negative.
        let (p, l) = ([1, 1, 0, 0, 1], [1, 1, 1, 0, 0]);
        close(accuracy(&p, &l), 3.0 / 5.0);
        close(f1(&p, &l), 4.0 / 6.0);
        close(matthews(&p, &l), (2.0 - 1.0) / 36f64.sqrt());
        close(matthews(&l, &l), 1.0);
        close(matthews(&[0, 1], &[1, 0]), -1.0);
        // Class 0: 1 right, 1 wrong, 1 missed; class 4 is nowhere and does not count.
        close(macro_f1(&p, &l), (4.0 / 6.0 + 2.0 / 4.0) / 2.0);
        close(macro_f1(&[0, 2, 2], &[0, 2, 3]), (1.0 + 2.0 / 3.0 + 0.0) / 3.0);
    }

    #[test]
    fn the_majority_of_mrpc_dev() {
        // 279 of 408 are paraphrases: accuracy .684, F1 2*279/(279+408) = .812.
        let labels: Vec<usize> = (0..408).map(|i| usize::from(i < 279)).collect();
        let ones = [1; 408];
        close(accuracy(&ones, &labels), 279.0 / 408.0);
        close(f1(&ones, &labels), 558.0 / 687.0);
        close(matthews(&ones, &labels), 0.0);
    }

    #[test]
    fn undefined_is_zero() {
        close(f1(&[0, 0], &[0, 0]), 0.0);
        close(f1(&[0, 0], &[1, 1]), 0.0);
        close(matthews(&[1, 1], &[1, 1]), 0.0);
        close(pearson(&[0.1, 0.1, 0.1], &[1.0, 2.0, 3.0]), 0.0);
        close(spearman(&[1.0, 2.0, 3.0], &[4.2, 4.2, 4.2]), 0.0);
        close(pearson(&[f64::NAN, 1.0], &[1.0, 2.0]), 0.0);
        close(spearman(&[f64::INFINITY, 1.0], &[1.0, 2.0]), 0.0);
    }

    #[test]
    fn correlations_by_hand() {
        close(pearson(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]), 1.0);
        close(spearman(&[1.0, 2.0, 3.0], &[9.0, 4.0, 1.0]), -1.0);
        assert_eq!(Ranked::new(&[5.0, 1.0, 5.0, 0.0]).ranks(&[1; 4]), [3.5, 2.0, 3.5, 1.0]);
        // scipy.stats 1.17.1: pearsonr and spearmanr of the same lists.
        let (x, y) = ([1.0, 2.0, 2.0, 4.0, 5.0], [2.0, 1.0, 3.0, 3.0, 5.0]);
        close(pearson(&x, &y), 0.8000946913656627);
        close(spearman(&x, &y), 0.7631578947368421);
    }

    /// glibc's old linear congruential generator, upper 15 bits.
    fn numbers() -> Vec<u64> {
        let mut x: u64 = 1;
        let mut next = || {
            x = (x * 1_103_515_245 + 12_345) % (1 << 31);
            x >> 16
        };
        (0..600).map(|_| next()).collect()
    }

    /// Made with scikit-learn 1.9.1 (`accuracy_score`, `f1_score`, `matthews_corrcoef`) and scipy 1.17.1
    /// (`pearsonr`, `spearmanr`) of the same lists: `r = numbers()`; `y = [v%3!=0 for v in r[:200]]`;
    /// `p = [(v%4!=0)==t for v,t in zip(r[200:400], y)]`; `a = float32([(v%26)/5 for v in r[400:500]])`;
    /// `b = float32([(v%11)/2 + x/2 for v,x in zip(r[500:], a)])`, taken to float64 before `pearsonr`.
    #[test]
    fn equal_to_scikit_learn_and_scipy() {
        let r = numbers();
        let y: Vec<usize> = r[..200].iter().map(|v| usize::from(v % 3 != 0)).collect();
        let p: Vec<usize> =
            (r[200..400].iter().zip(&y)).map(|(v, t)| usize::from((v % 4 != 0) == (*t == 1))).collect();
        close(accuracy(&p, &y), 0.765);
        close(f1(&p, &y), 0.8112449799196787);
        close(matthews(&p, &y), 0.5223584642707826);

        let a: Vec<f64> = r[400..500].iter().map(|v| (v % 26) as f64 / 5.0).collect();
        let b = r[500..].iter().zip(&a).map(|(v, x)| (v % 11) as f64 / 2.0 + x / 2.0);
        let label = |v: f64| Label::Score(v as f32);
        let b: Vec<Label> = b.map(label).collect();
        let a: Vec<Label> = a.into_iter().map(label).collect();
        let scores = score(Task::Stsb, &a, &b);
        close(scores.get(Metric::Pearson).unwrap(), 0.5047334346860706);
        close(scores.get(Metric::Spearman).unwrap(), 0.48809408122503223);
    }

    #[test]
    fn each_task_reports_its_metrics_in_order() {
        let (p, l) = ([Label::Class(1), Label::Class(0)], [Label::Class(1); 2]);
        let names = |task| score(task, &p, &l).iter().map(|(m, _)| m).collect::<Vec<_>>();
        assert_eq!(names(Task::Rte), [Metric::Accuracy]);
        assert_eq!(names(Task::Mrpc), [Metric::F1, Metric::Accuracy]);
        assert_eq!(names(Task::Cola), [Metric::Matthews, Metric::Accuracy]);
    }

    #[test]
    #[should_panic(expected = "one prediction for each label")]
    fn unequal_lengths_are_a_programmers_error() {
        accuracy(&[1], &[1, 0]);
    }
}
