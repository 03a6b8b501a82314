//! Standardizes the scores of a regression to mean 0 and standard deviation 1 for training.
//!
//! The fine-tuned model outputs scores in their original unit: mean and deviation are merged into its last layer, so
//! loading the model needs no extra step.

use bert_tasks::Label;
use burn::nn::Linear;

/// Mean and standard deviation of the training scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LabelScale {
    mean: f64,
    deviation: f64,
}

impl LabelScale {
    /// Returns the scale of labels that are scores; a deviation of 0 is replaced by 1.
    pub(crate) fn new(labels: &[Label]) -> Self {
        let scores = labels.iter().filter_map(|label| match label {
            Label::Score(score) => Some(f64::from(*score)),
            Label::Class(_) => None,
        });
        let scores: Vec<f64> = scores.collect();
        let count = scores.len() as f64;
        let mean = scores.iter().sum::<f64>() / count;
        let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / count;
        Self { mean, deviation: if variance > 0.0 { variance.sqrt() } else { 1.0 } }
    }

    /// Returns the standardized score.
    pub(crate) fn apply(self, score: f32) -> f32 {
        ((f64::from(score) - self.mean) / self.deviation) as f32
    }

    /// Changes the last layer of a model so that it outputs scores in the original unit.
    pub(crate) fn restore(self, last: &mut Linear) {
        let Linear { weight, bias } = last.clone();
        *last = Linear {
            weight: weight.map(|weight| weight.mul_scalar(self.deviation)),
            bias: bias.map(|bias| bias.map(|bias| bias.mul_scalar(self.deviation).add_scalar(self.mean))),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_any_size_become_small() {
        for unit in [1e-6, 1.0, 1e6, 1e30] {
            let labels = [1.0, 2.0, 3.0].map(|score: f32| Label::Score(score * unit));
            let scale = LabelScale::new(&labels);
            let scores = [1.0, 2.0, 3.0].map(|score: f32| scale.apply(score * unit));
            let expected = [-1.224_744_9, 0.0, 1.224_744_9];
            assert!(scores.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{unit}: {scores:?}");
        }
        let constant = LabelScale::new(&[Label::Score(7.0); 3]);
        assert_eq!((constant.apply(7.0), constant.apply(8.0)), (0.0, 1.0));
    }
}
