//! Types of arguments: [`Compute`], which selects the implementation and the precision of a call, and the
//! argument types of single operations.
//!
//! Models and optimizers carry a [`Compute`] and pass it to the operations.

use burn::tensor::Tensor;

use crate::cpu::dropout_mask::Dropout;

/// The implementation that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernels {
    /// Hand-written kernels where they apply.
    #[default]
    Fused,
    /// Like [`Self::Fused`], except for attention on a GPU: one kernel computes its forward pass and one its
    /// backward pass, and neither stores the scores. This needs heads of 64 columns, at most 512 positions,
    /// and a device with enough shared memory.
    FusedAttention,
    /// burn's own operations everywhere: slower, but the code is short enough to be compared with the paper.
    Plain,
}

/// The precision to which the operands of matrix products are rounded.
///
/// This precision applies to the fused kernels and to the compositions of burn's operations. Parameters, moments,
/// softmax, LayerNorm and losses are always in f32: with [`Precision::Bf16`] only the operands of matrix products are
/// rounded to bf16, forward and backward, and the sums are in f32. The compositions round the product itself to bf16 as
/// well, as autocast does in other frameworks. The pooler and the classifiers of `bert-model` are burn's own layers
/// with small products; they stay in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// f32: a significand of 24 bits.
    #[default]
    F32,
    /// bf16: a significand of 8 bits and the exponent range of f32.
    Bf16,
}

/// The kernels and the precision with which operations compute. Two models in one process may use different values; a
/// backward pass uses the values of its forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compute {
    /// The implementation that runs.
    pub kernels: Kernels,
    /// The precision to which the operands of matrix products are rounded.
    pub precision: Precision,
}

/// Number of elements per task of an AdamW update, and per partial sum of squares.
pub const CHUNK: usize = 1 << 14;

/// Hyperparameters of one AdamW update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// The constant that is added to the square root of the second moment.
    pub epsilon: f64,
    /// Weight decay of this parameter; 0 for none.
    pub weight_decay: f64,
    /// Bias corrections that divide the moments, `1 - beta^t`; `None` for no bias correction.
    pub corrections: Option<(f64, f64)>,
    /// The factor by which the gradient is multiplied.
    pub gradient_scale: f64,
    /// The factor by which the update is multiplied.
    pub learning_rate: f64,
}

/// The part of an AdamW update that a call computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The moments, then the parameter.
    Whole,
    /// The moments.
    Moments,
    /// The parameter, computed from moments that are already updated.
    Parameter,
}

/// A parameter and its moments: tensors of equal length without autodiff.
#[derive(Clone, Debug)]
pub struct State {
    /// The parameter.
    pub parameter: Tensor<1>,
    /// The moving average of the gradients.
    pub first: Tensor<1>,
    /// The moving average of the squared gradients.
    pub second: Tensor<1>,
}

/// The form of GELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gelu {
    /// `0.5 x (1 + erf(x / sqrt(2)))`
    Erf,
    /// `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`
    Tanh,
}

/// Weight and bias of a dense layer.
#[derive(Clone, Debug)]
pub struct Projection {
    /// `[d_input, d_output]`
    pub weight: Tensor<2>,
    /// `[d_output]`
    pub bias: Tensor<1>,
}

/// The query, key and value projections of all heads, `[hidden, hidden]` and `[hidden]` each.
#[derive(Clone, Debug)]
pub struct QkvProjections {
    /// The projection to queries.
    pub query: Projection,
    /// The projection to keys.
    pub key: Projection,
    /// The projection to values.
    pub value: Projection,
}

/// The result of attention.
#[derive(Clone, Debug)]
pub struct AttentionOutput {
    /// `[batch, queries, hidden]`: the sum of the values, weighted by the probabilities, with the heads side by side.
    pub context: Tensor<3>,
    /// `[batch, heads, queries, keys]`: the probabilities after dropout.
    pub probabilities: Tensor<4>,
}

/// The settings of an attention operation.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSettings {
    /// Number of heads.
    pub heads: usize,
    /// The factor by which the scores are multiplied before the bias is added.
    pub scale: f64,
    /// Dropout of the probabilities.
    pub dropout: Option<Dropout>,
}
