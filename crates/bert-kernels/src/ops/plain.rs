//! Matrix products composed of burn operations.

use burn::tensor::{DType, Tensor};

use crate::arguments::{Compute, Precision};

/// Computes `a b` with burn's operations in this precision. Tensors in f64 are never rounded.
///
/// # Shapes
/// - same as [`Tensor::matmul`]
pub(crate) fn matmul<const D: usize>(precision: Precision, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    let product = if precision == Precision::F32 || a.dtype() != DType::F32 {
        a.matmul(b)
    } else {
        a.cast(DType::BF16).matmul(b.cast(DType::BF16)).cast(DType::F32)
    };
    #[cfg(feature = "hook")]
    let product = crate::hook::product(product);
    product
}

/// Computes `a b` of two matrices: on a GPU with a result in f32, elsewhere as [`matmul`].
pub(crate) fn matrix_product(compute: Compute, a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    #[cfg(feature = "cubecl")]
    if let Some(product) = crate::gpu::product::product(compute, a.clone(), b.clone()) {
        return product;
    }
    matmul(compute.precision, a, b)
}

/// Computes a dense layer with burn's operations: the product in this precision, the bias added in f32.
pub(crate) fn linear<const D: usize>(
    precision: Precision,
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    let y = if precision == Precision::F32 || x.dtype() != DType::F32 {
        burn::tensor::module::linear(x, weight, bias)
    } else {
        let product = burn::tensor::module::linear(x.cast(DType::BF16), weight.cast(DType::BF16), None);
        let product = product.cast(DType::F32);
        match bias {
            Some(bias) => product + bias.unsqueeze(),
            None => product,
        }
    };
    #[cfg(feature = "hook")]
    let y = crate::hook::product(y);
    y
}
