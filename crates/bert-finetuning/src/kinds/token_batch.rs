//! A batch of sequences with targets at tokens.

use bert_inference::PaddedBatch;
use bert_inference::host_tensors::int_vector;
use burn::tensor::{Device, Int, Tensor};

/// A batch of sequences with targets at tokens, two numbers for each target.
pub(crate) struct TokenBatch {
    pub(crate) padded: PaddedBatch,
    pub(crate) targets: [Vec<i32>; 2],
}

impl TokenBatch {
    /// Returns both numbers of all targets.
    pub(crate) fn targets(&self, device: &Device) -> [Tensor<1, Int>; 2] {
        self.targets.each_ref().map(|numbers| int_vector(numbers, device))
    }
}
