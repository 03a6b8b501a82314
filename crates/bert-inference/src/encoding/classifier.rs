//! Logits and predictions of a classifier.

use bert_model::{
    Architecture, BertForMultipleChoice, BertForSequenceClassification, BertInput, BertWithFeatureHead, Mode,
};
use bert_tasks::{Kind, Label};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, activation};

use crate::compute::host_tensors::read;
use crate::compute::stop_flag::StopFlag;
use crate::encoding::examples::Features;
use crate::error::Error;

/// Number of examples in a batch of inference.
pub const EVAL_BATCH: usize = 64;

/// BERT with a classification head.
pub trait ClassifierModel: Architecture {
    /// Returns the input features of the classifier, `[sequences, features]`; the pooled output by default.
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2>;

    /// Returns whether the features are constant while the encoder is frozen.
    fn features_are_fixed(&self) -> bool {
        true
    }

    /// Returns the logits of each example, `[examples, labels]`, from the features of its sequences.
    fn logits(&self, features: Tensor<2>, per_example: usize, mode: Mode) -> Tensor<2>;

    /// Returns the last layer.
    fn classifier(&mut self) -> &mut Linear;
}

impl ClassifierModel for BertWithFeatureHead {
    /// Evaluation mode: the encoder is frozen.
    fn features(&self, input: BertInput, _mode: Mode) -> Tensor<2> {
        BertWithFeatureHead::features(self, input)
    }

    fn features_are_fixed(&self) -> bool {
        self.has_fixed_features()
    }

    fn logits(&self, features: Tensor<2>, _per_example: usize, mode: Mode) -> Tensor<2> {
        self.classify(features, mode)
    }

    fn classifier(&mut self) -> &mut Linear {
        &mut self.head_classifier
    }
}

impl ClassifierModel for BertForSequenceClassification {
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.bert.pooled_output(input, mode)
    }

    fn logits(&self, features: Tensor<2>, _per_example: usize, mode: Mode) -> Tensor<2> {
        self.classify(features, mode)
    }

    fn classifier(&mut self) -> &mut Linear {
        &mut self.classifier
    }
}

impl ClassifierModel for BertForMultipleChoice {
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.bert.pooled_output(input, mode)
    }

    fn logits(&self, features: Tensor<2>, per_example: usize, mode: Mode) -> Tensor<2> {
        self.choose(features, per_example, mode)
    }

    fn classifier(&mut self) -> &mut Linear {
        &mut self.classifier
    }
}

/// Returns the prediction of each row: the most probable class (ties go to the lowest), or the score.
pub fn decide(rows: &[Vec<f32>], kind: Kind) -> Vec<Label> {
    let class = |row: &Vec<f32>| {
        let better = |best: usize, i: usize| if row[i] > row[best] { i } else { best };
        Label::Class((1..row.len()).fold(0, better))
    };
    match kind {
        Kind::Regression { .. } => rows.iter().map(|row| Label::Score(row[0])).collect(),
        _ => rows.iter().map(class).collect(),
    }
}

/// Returns the class probabilities of every example in order, or the score for a regression.
///
/// # Errors
/// Fails when a stop is requested before the last batch, or when the device fails.
pub fn predict<M: ClassifierModel>(
    model: &M,
    features: &Features,
    kind: Kind,
    device: &Device,
    stop: &StopFlag,
) -> Result<Vec<Vec<f32>>, Error> {
    let device = device.clone().inner();
    let mut rows = vec![Vec::new(); features.count()];
    for examples in features.by_length(EVAL_BATCH) {
        stop.check()?;
        let batch = features.batch(examples);
        let outputs = model.features(batch.input(&device), Mode::Eval);
        let logits = model.logits(outputs, features.per_example(), Mode::Eval);
        let outputs = match kind {
            Kind::Regression { .. } => logits,
            _ => activation::softmax(logits, 1),
        };
        let [_, width] = outputs.dims();
        for (&example, row) in batch.examples.iter().zip(read(outputs)?.chunks(width)) {
            rows[example] = row.to_vec();
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lowest_class() {
        let kind = Kind::Classification;
        let rows = [vec![0.4, 0.4, 0.2], vec![0.1, 0.2, 0.7]];
        assert_eq!(decide(&rows, kind), [Label::Class(0), Label::Class(2)]);
    }
}
