//! Computes a run's metric on a resample from how often each example was drawn; the resample itself is never made.

use crate::tasks::{Confusion, Label, Metric, Ranked, pearson_of, spearman_of};

/// One run's answers, prepared.
pub(super) enum Weighted {
    /// 1 where the answer is right.
    Accuracy(Vec<u32>),
    /// Where class 1 was the answer, where it is the label, and where it is both.
    Binary { metric: Metric, answered: Vec<u32>, labelled: Vec<u32>, both: Vec<u32> },
    /// The score of each answer.
    Mean(Vec<f64>),
    /// What is right in each answer and what there is, for a share of the sums; 0 of nothing.
    Share(Vec<(u32, u32)>),
    /// Answers and labels.
    Pearson { answers: Vec<f64>, labels: Vec<f64> },
    /// Answers and labels, each in order of value.
    Spearman { answers: Ranked, labels: Ranked },
}

impl Weighted {
    /// `None` for a metric that is not one of single answers of this kind.
    ///
    /// # Panics
    /// When there is not one answer for each label, or there are none.
    pub(super) fn new(metric: Metric, answers: &[Label], labels: &[Label]) -> Option<Self> {
        assert_eq!(answers.len(), labels.len(), "one answer for each label");
        assert!(!labels.is_empty(), "no examples to score");
        let flags = |of: fn(&Label, &Label) -> bool| -> Vec<u32> {
            answers.iter().zip(labels).map(|(answer, label)| u32::from(of(answer, label))).collect()
        };
        let scores = |of: &[Label]| -> Option<Vec<f64>> {
            of.iter()
                .map(|label| if let Label::Score(x) = label { Some(f64::from(*x)) } else { None })
                .collect()
        };
        let one = Label::Class(1);
        match (metric, scores(answers), scores(labels)) {
            (Metric::Accuracy, None, None) => Some(Self::Accuracy(flags(|answer, label| answer == label))),
            (Metric::F1 | Metric::Matthews, None, None) => Some(Self::Binary {
                metric,
                answered: answers.iter().map(|answer| u32::from(*answer == one)).collect(),
                labelled: labels.iter().map(|label| u32::from(*label == one)).collect(),
                both: flags(|answer, label| answer == label && *label == Label::Class(1)),
            }),
            (Metric::Pearson, Some(answers), Some(labels)) => Some(Self::Pearson { answers, labels }),
            (Metric::Spearman, Some(answers), Some(labels)) => {
                Some(Self::Spearman { answers: Ranked::new(&answers), labels: Ranked::new(&labels) })
            }
            _ => None,
        }
    }

    /// The metric where example `i` counts `weights[i]` times.
    pub(super) fn value(&self, weights: &[u32]) -> f64 {
        let sum = |of: &[u32]| of.iter().zip(weights).map(|(a, b)| a * b).sum::<u32>();
        let all: u32 = weights.iter().sum();
        match self {
            Self::Accuracy(right) => f64::from(sum(right)) / f64::from(all),
            Self::Binary { metric, answered, labelled, both } => {
                let (answered, labelled, both) = (sum(answered), sum(labelled), sum(both));
                let confusion = Confusion {
                    true_positive: f64::from(both),
                    false_positive: f64::from(answered - both),
                    false_negative: f64::from(labelled - both),
                    true_negative: f64::from(all + both - answered - labelled),
                };
                if *metric == Metric::F1 { confusion.f1() } else { confusion.matthews() }
            }
            Self::Mean(scores) => {
                let sum: f64 = scores.iter().zip(weights).map(|(score, &n)| score * f64::from(n)).sum();
                sum / f64::from(all)
            }
            Self::Share(answers) => {
                let sum = |part: fn(&(u32, u32)) -> u32| -> u32 {
                    answers.iter().zip(weights).map(|(answer, n)| part(answer) * n).sum()
                };
                f64::from(sum(|answer| answer.0)) / f64::from(sum(|answer| answer.1).max(1))
            }
            Self::Pearson { answers, labels } => pearson_of(answers, labels, Some(weights)),
            Self::Spearman { answers, labels } => spearman_of(answers, labels, weights),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::{Task, score};

    /// A resample scored by its weights and written out.
    fn compare(task: Task, answers: &[Label], labels: &[Label], weights: &[u32]) {
        let repeat = |of: &[Label]| -> Vec<Label> {
            of.iter().zip(weights).flat_map(|(x, &times)| vec![*x; times as usize]).collect()
        };
        for (metric, expected) in score(task, &repeat(answers), &repeat(labels)).iter() {
            let value = Weighted::new(metric, answers, labels).unwrap().value(weights);
            assert!((value - expected).abs() < 1e-12, "{metric} {weights:?}: {value} and {expected}");
        }
    }

    #[test]
    fn weights_are_repetitions() {
        let class = |of: &[usize]| of.iter().map(|&x| Label::Class(x)).collect::<Vec<_>>();
        let score = |of: &[f32]| of.iter().map(|&x| Label::Score(x)).collect::<Vec<_>>();
        let (answers, labels) = (class(&[1, 1, 0, 0, 1, 0]), class(&[1, 0, 0, 1, 1, 0]));
        let (scores, truth) =
            (score(&[1.0, 2.0, 2.0, 4.0, 5.0, 0.1]), score(&[2.0, 1.0, 3.0, 3.0, 5.0, 0.3]));
        for weights in
            [[1; 6], [2, 0, 0, 3, 1, 0], [0, 0, 6, 0, 0, 0], [1, 1, 0, 2, 0, 2], [0, 3, 3, 0, 0, 0]]
        {
            compare(Task::Mrpc, &answers, &labels, &weights);
            compare(Task::Cola, &answers, &labels, &weights);
            compare(Task::Stsb, &scores, &truth, &weights);
        }
        compare(Task::Sst5, &class(&[4, 2, 3, 0, 1, 1]), &class(&[4, 2, 2, 0, 0, 1]), &[2, 1, 1, 0, 2, 0]);
        assert!(Weighted::new(Metric::Pearson, &answers, &labels).is_none());
        assert!(Weighted::new(Metric::Accuracy, &scores, &truth).is_none());
    }
}
