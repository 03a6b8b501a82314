//! What matrix products round their factors to: the [`Precision`] of a [`Compute`](crate::Compute).
//!
//! It holds in the fused kernels and in the compositions of burn's operations alike. Parameters, moments, softmax,
//! LayerNorm and losses are always in f32: with [`Precision::Bf16`] only the factors of matrix products are rounded
//! to bf16, forward and backward, and the sums are in f32. The compositions round the product itself to bf16 as well,
//! as autocast does in other frameworks. The pooler and the classifiers of `bert-model` are burn's own layers with
//! small products; they stay in f32.

use burn::tensor::{DType, Tensor};

use crate::compute::Precision;

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
pub fn matmul<const D: usize>(precision: Precision, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
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
