//! LoRA: adds the product of two narrow matrices to the query and value projections, `W + alpha / rank * A B`.
//!
//! The product is computed once per forward pass and added to the weight instead of being applied to each token. It
//! contains no dropout, so the result is the same, and attention stays one fused operation. B is initialized to
//! zero, so the model's outputs are initially unchanged, to the bit. Ports `lora/layer.py` of PEFT.

use burn::module::{Module, Param};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

/// The low-rank pair of matrices of one projection.
#[derive(Module, Debug)]
pub struct LowRank {
    /// `hidden -> rank`; published as `lora_A`.
    pub lora_a: Linear,
    /// `rank -> hidden`; published as `lora_B`.
    pub lora_b: Linear,
    scale: f64,
}

impl LowRank {
    fn zeroed(hidden: usize, rank: usize, scale: f64, device: &Device) -> Self {
        let dense = |d_input, d_output| {
            let config = LinearConfig::new(d_input, d_output).with_bias(false);
            config.with_initializer(Initializer::Zeros).init(device)
        };
        Self { lora_a: dense(hidden, rank), lora_b: dense(rank, hidden), scale }
    }

    /// Returns the projection's weight plus the low-rank product.
    ///
    /// # Shapes
    /// - weight and output: `[hidden, hidden]`
    pub fn add_to(&self, weight: Tensor<2>) -> Tensor<2> {
        let product = self.lora_a.weight.val().matmul(self.lora_b.weight.val()); // [hidden, hidden]
        weight + product.mul_scalar(self.scale)
    }

    /// Adds the product to the layer's weight permanently; see [`Self::add_to`].
    pub(crate) fn merge_into(&self, dense: &mut Linear) {
        dense.weight = Param::from_tensor(self.add_to(dense.weight.val()).detach());
    }
}

/// LoRA of one layer's self-attention.
#[derive(Module, Debug)]
pub struct SelfAttentionLora {
    /// The pair of the query projection.
    pub query: LowRank,
    /// The pair of the value projection.
    pub value: LowRank,
}

impl SelfAttentionLora {
    pub(crate) fn zeroed(hidden: usize, rank: usize, alpha: f64, device: &Device) -> Self {
        let low_rank = || LowRank::zeroed(hidden, rank, alpha / rank as f64, device);
        Self { query: low_rank(), value: low_rank() }
    }
}
