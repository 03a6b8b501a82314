//! The loss of models that predict from the output of every token.

use bert_model::{Architecture, BertInput, Mode};
use burn::tensor::{Device, Int, Tensor};

use crate::compute::host_tensors::int_vector;
use crate::encoding::padded_batch::PaddedBatch;
use crate::finetune::setup::Setup;

/// A batch of sequences, with two numbers for each target.
pub(crate) struct TokenBatch {
    pub(super) padded: PaddedBatch,
    pub(super) targets: [Vec<i32>; 2],
}

impl TokenBatch {
    fn targets(&self, device: &Device) -> [Tensor<1, Int>; 2] {
        self.targets.each_ref().map(|numbers| int_vector(numbers, device))
    }
}

/// A model with a head on the output of every token.
pub(crate) trait TokenModel: Architecture {
    /// The outputs of the head.
    type Logits;

    /// Returns the outputs of the head; all layers are trained.
    fn logits(&self, input: BertInput, mode: Mode) -> Self::Logits;

    /// Returns the outputs of the head on a frozen encoder.
    fn logits_of_frozen_encoder(&self, input: BertInput, mode: Mode) -> Self::Logits;

    /// Returns the cross entropy of the targets divided by `count`, `[1]`.
    fn cross_entropy(logits: Self::Logits, targets: [Tensor<1, Int>; 2], count: f64) -> Tensor<1>;

    /// Returns the contribution of a batch to the loss of a step with `count` targets, `[1]`.
    fn batch_loss(&self, setup: Setup<'_>, batch: &TokenBatch, count: usize, mode: Mode) -> Tensor<1> {
        let device = &setup.checkpoint.device;
        let input = batch.padded.input(device);
        let logits = if setup.config.freeze_encoder {
            self.logits_of_frozen_encoder(input, mode)
        } else {
            self.logits(input, mode)
        };
        Self::cross_entropy(logits, batch.targets(device), count as f64)
    }
}
