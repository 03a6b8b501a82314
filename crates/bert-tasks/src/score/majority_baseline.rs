//! Computes reference values for a score: the majority-class baseline, the sampling error, and whether a run always
//! gives the same answer.

use super::metrics::score;
use crate::task::Task;
use crate::task::example::Label;
use crate::task::metric::Scores;

/// Returns the scores of the best constant answer: the most frequent class of the scored set (ties go to the lower
/// number), or the mean of its scores.
///
/// # Panics
/// When the set is empty.
pub fn majority_baseline(task: &Task, labels: &[Label]) -> Scores {
    assert!(!labels.is_empty(), "no labels");
    let mut counts = vec![0usize; task.num_labels()];
    let mut sum = 0.0;
    for label in labels {
        match label {
            Label::Class(class) => counts[*class] += 1,
            Label::Score(score) => sum += f64::from(*score),
        }
    }
    let answer = match labels[0] {
        Label::Class(_) => {
            let most = (0..counts.len()).rev().max_by_key(|class| counts[*class]);
            Label::Class(most.unwrap_or(0))
        }
        Label::Score(_) => Label::Score((sum / labels.len() as f64) as f32),
    };
    score(task, &vec![answer; labels.len()], labels)
}

/// Returns the standard error of an accuracy measured on `examples` examples, as a fraction: `sqrt(p (1 - p) / n)`. For
/// RTE's 277 examples at .66 it is .028; one example is .0036.
pub fn binomial_standard_error(accuracy: f64, examples: usize) -> f64 {
    (accuracy * (1.0 - accuracy) / examples as f64).sqrt()
}

/// Returns whether all predictions are the same. A run that failed to train predicts the majority class (or one score)
/// for everything, and an average over seeds hides it.
pub fn is_degenerate(predictions: &[Label]) -> bool {
    predictions.windows(2).all(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;

    #[test]
    fn majority_class_of_the_scored_set() {
        let [a, b, c] = [0, 1, 2].map(Label::Class);
        let scores = majority_baseline(&Task::Mnli, &[a, a, b, c]);
        assert_eq!(scores.get(Metric::Accuracy), Some(0.5));
        // Ties go to the lower number, so F1 of class 1 is 0.
        let scores = majority_baseline(&Task::Mrpc, &[b, a, a, b]);
        assert_eq!((scores.get(Metric::Accuracy), scores.get(Metric::F1)), (Some(0.5), Some(0.0)));
        let scores = majority_baseline(&Task::Mrpc, &[b, b, a, b]);
        assert_eq!(scores.get(Metric::Accuracy), Some(0.75));
        assert_eq!(scores.get(Metric::F1), Some(6.0 / 7.0));
    }

    #[test]
    fn a_constant_score_has_correlation_zero() {
        let labels = [1.0, 2.5, 4.3].map(Label::Score);
        let scores = majority_baseline(&Task::Stsb, &labels);
        assert_eq!(scores.get(Metric::Pearson), Some(0.0));
        assert_eq!(scores.get(Metric::Spearman), Some(0.0));
    }

    #[test]
    fn standard_errors_of_known_sets() {
        // RTE dev at 66.4 %: 2.84 points; SST-2 dev at 92.5 %: 0.89.
        assert!((binomial_standard_error(0.664, 277) - 0.0284).abs() < 5e-5);
        assert!((binomial_standard_error(0.925, 872) - 0.0089).abs() < 5e-5);
        assert_eq!(binomial_standard_error(1.0, 10), 0.0);
    }

    #[test]
    fn constant_predictions_are_degenerate() {
        let [a, b] = [0, 1].map(Label::Class);
        assert!(is_degenerate(&[a, a, a]));
        assert!(!is_degenerate(&[a, a, b]));
        assert!(is_degenerate(&[0.5, 0.5].map(Label::Score)));
        assert!(!is_degenerate(&[0.5, 0.25].map(Label::Score)));
    }
}
