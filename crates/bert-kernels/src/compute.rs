//! [`Compute`]: which implementation runs an operation, and what its matrix products round their factors to.
//!
//! Models and optimizers carry this value and pass it to the operations; there is no process-wide switch.

use burn::tensor::{DType, Tensor};

/// Which implementation runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernels {
    /// Hand-written kernels wherever they apply.
    #[default]
    Fused,
    /// burn's own operations everywhere: slower, and short enough to be read beside the paper.
    Plain,
}

/// What the factors of matrix products are rounded to.
///
/// It holds in the fused kernels and in the compositions of burn's operations alike. Parameters, moments, softmax,
/// LayerNorm and losses are always in f32: with [`Precision::Bf16`] only the factors of matrix products are rounded
/// to bf16, forward and backward, and the sums are in f32. The compositions round the product itself to bf16 as well,
/// as autocast does in other frameworks. The pooler and the classifiers of `bert-model` are burn's own layers with
/// small products; they stay in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 24 bits of significand.
    #[default]
    F32,
    /// 8 bits of significand, the exponents of f32.
    Bf16,
}

/// How operations compute. Two models in one process may differ in it; a backward pass follows its forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compute {
    /// Which implementation runs.
    pub kernels: Kernels,
    /// What the factors of matrix products are rounded to.
    pub precision: Precision,
}

/// Whether this processor has the instructions that the fused kernels' bf16 products are written in
/// (AVX-512 BF16; where there are AMX tiles too, they multiply). Elsewhere, [`Precision::Bf16`] runs burn's own operations, which are slow on a CPU.
pub fn has_bf16_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::bf16::supported();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// `a b` of burn's operations, in this precision. Not for f64, which is never rounded.
///
/// # Shapes
///
/// - those of [`Tensor::matmul`]
pub(crate) fn matmul<const D: usize>(precision: Precision, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    if precision == Precision::F32 || a.dtype() != DType::F32 {
        return a.matmul(b);
    }
    a.cast(DType::BF16).matmul(b.cast(DType::BF16)).cast(DType::F32)
}

/// A dense layer of burn's operations, its product in this precision, its bias added in f32.
pub(crate) fn linear<const D: usize>(
    precision: Precision,
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    if precision == Precision::F32 || x.dtype() != DType::F32 {
        return burn::tensor::module::linear(x, weight, bias);
    }
    let product = burn::tensor::module::linear(x.cast(DType::BF16), weight.cast(DType::BF16), None);
    let product = product.cast(DType::F32);
    match bias {
        Some(bias) => product + bias.unsqueeze(),
        None => product,
    }
}
