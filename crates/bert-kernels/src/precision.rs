//! What a matrix product rounds its factors to.
//!
//! In: a choice for the whole process ([`set_precision`]). Out: products of that precision, in the fused
//! kernels and in the compositions of burn's operations alike. Parameters, moments, softmax, LayerNorm and
//! losses are in f32 always: with [`Precision::Bf16`] only the factors of matrix products are rounded to
//! bf16, forward and backward; the sums are in f32. In the compositions the product itself is rounded to
//! bf16 as well, as in autocast of other frameworks. The pooler and the heads on it, products of a few
//! rows, are burn's layers and stay in f32.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{DType, Tensor};

/// Of the factors of matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 24 bits of significand.
    F32,
    /// 8 bits of significand, the exponents of f32.
    Bf16,
}

static BF16: AtomicBool = AtomicBool::new(false);

/// Selects the precision for the whole process, before its first operation: a backward pass uses what is
/// selected when it runs.
pub fn set_precision(precision: Precision) {
    BF16.store(precision == Precision::Bf16, Ordering::Relaxed);
}

/// The precision that is selected; [`Precision::F32`] unless [`set_precision`] said otherwise.
pub fn precision() -> Precision {
    if BF16.load(Ordering::Relaxed) { Precision::Bf16 } else { Precision::F32 }
}

/// Whether this processor has the instructions that the fused kernels' bf16 products are written in
/// (AVX-512 BF16). Elsewhere, [`Precision::Bf16`] runs burn's own operations, which are slow on a CPU.
pub fn has_bf16_instructions() -> bool {
    crate::product::has_bf16()
}

/// `a b` of burn's operations, in the precision selected. Not for f64, which is never rounded.
///
/// # Shapes
///
/// - those of [`Tensor::matmul`]
pub fn matmul<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    if precision() == Precision::F32 || a.dtype() != DType::F32 {
        return a.matmul(b);
    }
    a.cast(DType::BF16).matmul(b.cast(DType::BF16)).cast(DType::F32)
}

/// A dense layer of burn's operations, its product in the precision selected, its bias added in f32.
pub(crate) fn linear<const D: usize>(x: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    if precision() == Precision::F32 || x.dtype() != DType::F32 {
        return burn::tensor::module::linear(x, weight, bias);
    }
    let product = burn::tensor::module::linear(x.cast(DType::BF16), weight.cast(DType::BF16), None);
    let product = product.cast(DType::F32);
    match bias {
        Some(bias) => product + bias.unsqueeze(),
        None => product,
    }
}
