//! [`Compute`]: the implementation that runs an operation, and the precision of the factors of its matrix products.
//!
//! Models and optimizers carry this value and pass it to the operations; there is no process-wide switch.

use burn::tensor::{DType, Tensor};

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

/// Returns whether this processor has the instructions of the fused kernels' bf16 products (AVX-512 BF16; AMX tiles are
/// used as well if there are any). On other processors, [`Precision::Bf16`] runs burn's own operations, which are slow
/// on a CPU.
pub fn has_bf16_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::bf16::supported();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Computes `a b` with burn's operations in this precision. Not for f64, which is never rounded.
///
/// # Shapes
///
/// - same as [`Tensor::matmul`]
pub(crate) fn matmul<const D: usize>(precision: Precision, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    if precision == Precision::F32 || a.dtype() != DType::F32 {
        return a.matmul(b);
    }
    a.cast(DType::BF16).matmul(b.cast(DType::BF16)).cast(DType::F32)
}

/// Computes a dense layer with burn's operations: the product in this precision, the bias added in f32.
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
