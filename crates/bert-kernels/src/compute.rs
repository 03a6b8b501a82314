//! [`Compute`]: the implementation that runs an operation, and the precision of the factors of its matrix products.
//!
//! Models and optimizers carry this value and pass it to the operations; there is no process-wide switch.

/// The implementation that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernels {
    /// Hand-written kernels where they apply.
    #[default]
    Fused,
    /// burn's own operations everywhere: slower, and short enough to be compared with the paper.
    Plain,
}

/// The precision that the factors of matrix products are rounded to.
///
/// It applies to the fused kernels and to the compositions of burn's operations. Parameters, moments, softmax,
/// LayerNorm and losses are always in f32: with [`Precision::Bf16`] only the factors of matrix products are rounded to
/// bf16, forward and backward, and the sums are in f32. The compositions round the product itself to bf16 as well, as
/// autocast does in other frameworks. The pooler and the classifiers of `bert-model` are burn's own layers with small
/// products; they stay in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 24 bits of significand.
    #[default]
    F32,
    /// 8 bits of significand, the exponents of f32.
    Bf16,
}

/// How operations compute. Two models in one process may use different values; a backward pass uses its forward pass's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compute {
    /// The implementation that runs.
    pub kernels: Kernels,
    /// The precision that the factors of matrix products are rounded to.
    pub precision: Precision,
}
