//! Matrix products on a GPU with sums in f32, forward and backward: `y = x W`, `dx = dy W'`, `dW = x' dy`.
//!
//! With bf16 precision, the operands are rounded to bf16. y and dx have the dtype of x, because values
//! between two operations may be in bf16. On NVIDIA GPUs, cuBLASLt computes the products; on other GPUs, a
//! kernel of CubeCL computes them.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::kernel::cast;
use burn_cubecl::tensor::CubeTensor;
use burn_std::{Metadata, strides};

use super::column_sums::column_sums;
use super::{apply_inputs, empty_shaped, input, into_contiguous};
use crate::arguments::{Compute, Precision};
use crate::fused_op::Fused;

/// Returns `x W`; `None` if a tensor is not on a GPU.
///
/// # Shapes
/// - x: `[rows, d_input]`; weight: `[d_input, d_output]`
/// - output: `[rows, d_output]`
pub(crate) fn product(compute: Compute, x: Tensor<2>, weight: Tensor<2>) -> Option<Tensor<2>> {
    apply_inputs(compute.kernels, Product(compute.precision), [input(x), input(weight)])
}

#[derive(Clone, Copy, Debug)]
struct Product(Precision);

impl Fused<2, Cube> for Product {
    /// The rounded operands, and the dtype of x before rounding.
    type Saved = ([CubeTensor; 2], DType);

    fn forward(&self, inputs: [CubeTensor; 2]) -> (CubeTensor, Self::Saved) {
        let dtype = inputs[0].dtype;
        let [x, weight] = inputs.map(|factor| rounded(self.0, factor));
        (multiply(x.clone(), weight.clone(), dtype), ([x, weight], dtype))
    }

    fn backward(
        self,
        ([x, weight], dtype): Self::Saved,
        gradient: CubeTensor,
        [x_wanted, weight_wanted]: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        let gradient = rounded(self.0, gradient);
        [
            x_wanted.then(|| multiply(gradient.clone(), transposed(weight), dtype)),
            weight_wanted.then(|| multiply_transposed(x, gradient)),
        ]
    }
}

/// Returns the dtype of a product's operands, and of the values between two products of one operation.
pub(super) fn factor_type(precision: Precision) -> DType {
    match precision {
        Precision::F32 => DType::F32,
        Precision::Bf16 => DType::BF16,
    }
}

/// Returns an operand rounded to the precision.
pub(super) fn rounded(precision: Precision, factor: CubeTensor) -> CubeTensor {
    cast(factor, factor_type(precision))
}

/// Returns `a b` in the dtype `result`, with sums in f32. Both operands have the same dtype.
///
/// # Shapes
/// - same as [`Tensor::matmul`]
pub(super) fn multiply(a: CubeTensor, b: CubeTensor, result: DType) -> CubeTensor {
    #[cfg(feature = "cuda")]
    if let Some(product) = super::cublas::multiply(&a, &b, result) {
        return product;
    }
    super::strategy::multiply(a, b, result)
}

/// Returns `a b` in f32, added to `existing` if it is given.
///
/// # Shapes
/// - a: `[m, k]`; b: `[k, n]`
/// - existing: `m * n` elements; output: `[m, n]`
pub(super) fn multiply_add(a: CubeTensor, b: CubeTensor, existing: Option<CubeTensor>) -> CubeTensor {
    let Some(existing) = existing else { return multiply(a, b, DType::F32) };
    let shape = Shape::new([a.meta.shape()[0], b.meta.shape()[1]]);
    let existing = Cube::float_reshape(into_contiguous(existing), shape);
    #[cfg(feature = "cuda")]
    if let Some(sum) = super::cublas::multiply_add(&a, &b, &existing) {
        return sum;
    }
    Cube::float_add(super::strategy::multiply(a, b, DType::F32), existing)
}

/// Returns `a b` in f32, in rows of `width` elements; the elements after the product's last column are
/// undefined.
///
/// # Shapes
/// - a: `[m, k]`; b: `[k, n]`
/// - output: `[m, n]`, with strides `[width, 1]`
pub(super) fn multiply_into_rows(a: CubeTensor, b: CubeTensor, width: usize) -> CubeTensor {
    #[cfg(feature = "cuda")]
    if let Some(product) = super::cublas::multiply_into_rows(&a, &b, DType::F32, width) {
        return product;
    }
    let [m, n] = [a.meta.shape()[0], b.meta.shape()[1]];
    let product = super::strategy::multiply(a, b, DType::F32);
    if width == n {
        return product;
    }
    let rows = empty_shaped(&product, Shape::new([m, width]), DType::F32);
    let mut rows = Cube::float_slice_assign(rows, &[(0..m).into(), (0..n).into()], product);
    *rows.meta = Metadata::new(Shape::new([m, n]), strides![width, 1]);
    rows
}

/// Returns `a' b` in f32. The sum over many rows may be split into parts.
///
/// # Shapes
/// - a: `[rows, n]`; b: `[rows, m]`
/// - output: `[n, m]`
pub(super) fn multiply_transposed(a: CubeTensor, b: CubeTensor) -> CubeTensor {
    #[cfg(feature = "cuda")]
    if let Some(product) = super::cublas::multiply(&transposed(a.clone()), &b, DType::F32) {
        return product;
    }
    let [rows, n] = [a.meta.shape()[0], a.meta.shape()[1]];
    let m = b.meta.shape()[1];
    let parts = row_parts(rows, n, m);
    if parts == 1 {
        return super::strategy::multiply(transposed(a), b, DType::F32);
    }
    let divided = |x: CubeTensor, width: usize| {
        Cube::float_reshape(into_contiguous(x), Shape::new([parts, rows / parts, width]))
    };
    let products = super::strategy::multiply(transposed(divided(a, n)), divided(b, m), DType::F32); // [parts, n, m]
    Cube::float_reshape(column_sums(products, parts, n * m), Shape::new([n, m]))
}

/// Returns the number of equal parts into which the rows are split: the largest power of two with at least
/// 256 rows per part and at most 256 cubes in all, assuming that a cube computes 256 x 64 elements.
///
/// In CubeCL's products, a cube computes a part of the result, so a product with many rows but a small result
/// leaves most of a GPU idle.
fn row_parts(rows: usize, n: usize, m: usize) -> usize {
    let cubes = n.div_ceil(256) * m.div_ceil(64);
    let mut parts = 1;
    while parts * 2 * cubes <= 256 && rows.is_multiple_of(parts * 2) && rows / (parts * 2) >= 256 {
        parts *= 2;
    }
    parts
}

/// Returns a view of x with the last two axes exchanged.
pub(super) fn transposed(x: CubeTensor) -> CubeTensor {
    Cube::float_transpose(x)
}
