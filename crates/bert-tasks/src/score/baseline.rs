//! Computes reference values for a score: the baseline of a constant answer, the sampling error, and whether a run always
//! gives the same answer.

use super::metrics::score;
use crate::task::Task;
use crate::task::example::Label;
use crate::task::metric::Scores;

/// Returns the scores of a constant answer to examples with these labels: their most frequent class (ties go to the lower
/// number), which is the best constant answer, or the mean of the scores of the training set.
///
/// # Panics
/// When one of the sets is empty.
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
    use crate::{Metric, TableDescription};

    #[test]
    fn majority_class_of_the_scored_set() {
        let [a, b, c] = [0, 1, 2].map(Label::Class);
        let majority = |task, labels: &[Label]| constant_baseline(task, &[c], labels);
        let scores = majority(&Task::Mnli, &[a, a, b, c]);
        assert_eq!(scores.get(Metric::Accuracy), Some(0.5));
        // Ties go to the lower number, so F1 of class 1 is 0.
        let scores = majority(&Task::Mrpc, &[b, a, a, b]);
        assert_eq!((scores.get(Metric::Accuracy), scores.get(Metric::F1)), (Some(0.5), Some(0.0)));
        let scores = majority(&Task::Mrpc, &[b, b, a, b]);
        assert_eq!(scores.get(Metric::Accuracy), Some(0.75));
        assert_eq!(scores.get(Metric::F1), Some(6.0 / 7.0));
    }

    #[test]
    fn a_constant_score_has_correlation_zero() {
        let labels = [1.0, 2.5, 4.3].map(Label::Score);
        let scores = constant_baseline(&Task::Stsb, &labels, &labels);
        assert_eq!(scores.get(Metric::Pearson), Some(0.0));
        assert_eq!(scores.get(Metric::Spearman), Some(0.0));
    }

    /// sklearn 1.9: `DummyRegressor().fit(X, [1, 2, 6]).predict(Y)` is 3; `root_mean_squared_error([10, 14], [3, 3])` is
    /// 9.219544 and `mean_absolute_error` 9.
    #[test]
    fn mean_of_training_scores_is_the_baseline() {
        let columns = ["text", "label"].map(String::from).to_vec();
        let range = Some((1.0, 6.0));
        let task = Task::table(TableDescription { columns, range, ..TableDescription::default() }).unwrap();
        let [train, dev] = [&[1.0, 2.0, 6.0][..], &[10.0, 14.0]]
            .map(|scores| scores.iter().copied().map(Label::Score).collect::<Vec<_>>());
        let scores = constant_baseline(&task, &train, &dev);
        assert!((scores.get(Metric::Rmse).unwrap() - 9.219544).abs() < 1e-5);
        assert_eq!((scores.get(Metric::Mae), scores.get(Metric::Pearson)), (Some(9.0), Some(0.0)));
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
