//! Bottleneck adapters: a down-projection and an up-projection, inserted at the end of the attention or feed-forward
//! block.
//!
//! Ports `Adapter` and `ParallelAdapter` of the `adapters` library (`methods/modeling.py`) in three of their
//! configurations, without gates, PHM layers or extra LayerNorms. The inputs of an adapter are the output of the
//! block's last projection, after dropout, and the block's input. The block's residual and LayerNorm follow.
//!
//! LoRA adds the product of two narrow matrices to the query and value projections, `W + alpha / rank * A B`.
//!
//! The product is computed once per forward pass and added to the weight instead of being applied to each token. LoRA
//! has no dropout here, so the result is the same, and attention stays one fused operation. B is initialized to zero,
//! so the model's outputs are initially unchanged, to the bit. Ports `lora/layer.py` of PEFT.

use bert_kernels::Compute;
use bert_kernels::layer_norm::{LayerNormParameters, layer_norm};
use burn::module::{Module, Param};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::activation::{relu, silu};
use burn::tensor::{Device, Tensor};

use crate::config::adapter::BottleneckForm;
use crate::layers::linear::{affine, linear};

/// One bottleneck adapter at one position.
#[derive(Module, Debug)]
pub struct Bottleneck {
    /// `hidden -> narrow`; published as `adapter_down.0`.
    pub down: Linear,
    /// `narrow -> hidden`; published as `adapter_up`.
    pub up: Linear,
    #[module(skip)]
    form: BottleneckForm,
}

impl Bottleneck {
    pub(crate) fn zeroed(
        form: BottleneckForm,
        hidden: usize,
        reduction_factor: f64,
        device: &Device,
    ) -> Self {
        let narrow = ((hidden as f64 / reduction_factor).floor() as usize).max(1);
        Self { down: linear(hidden, narrow, device), up: linear(narrow, hidden, device), form }
    }

    /// Returns the adapter's contribution to the sum.
    ///
    /// # Shapes
    /// - x and output: `[batch, seq, hidden]`
    pub fn forward(&self, compute: Compute, x: Tensor<3>) -> Tensor<3> {
        let narrow = affine(compute, &self.down, x); // [batch, seq, narrow]
        let narrow = match self.form {
            BottleneckForm::Houlsby => silu(narrow),
            BottleneckForm::Pfeiffer | BottleneckForm::Parallel => relu(narrow),
        };
        let wide = affine(compute, &self.up, narrow); // [batch, seq, hidden]
        match self.form {
            BottleneckForm::Parallel => wide.mul_scalar(self.form.scaling()),
            BottleneckForm::Pfeiffer | BottleneckForm::Houlsby => wide,
        }
    }

    /// Computes the end of the block with the adapter: `LayerNorm(adapter + h + input)`.
    ///
    /// # Shapes
    /// - h, input and output: `[batch, seq, hidden]`
    pub(crate) fn finish_block(
        &self,
        compute: Compute,
        h: Tensor<3>,
        input: Tensor<3>,
        norm: LayerNormParameters,
    ) -> Tensor<3> {
        assert_eq!(h.dims(), input.dims(), "the residual has another shape");
        let sum = h.clone() + input.clone(); // [batch, seq, hidden]
        let x = match self.form {
            BottleneckForm::Pfeiffer => layer_norm(compute, sum.clone(), norm.clone()),
            BottleneckForm::Houlsby => h,
            BottleneckForm::Parallel => input,
        };
        layer_norm(compute, self.forward(compute, x) + sum, norm)
    }
}

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
