//! Matrix products on a GPU with results in f32, forward and backward: `y = x W`, `dx = dy W'`, `dW = x' dy`.
//!
//! In bf16 only the factors are rounded. burn's own product of bf16 tensors rounds the result as well.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::kernel::cast;
use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
use burn_cubecl::tensor::CubeTensor;

use super::column_sums::column_sums;
use super::{apply_inputs, input, into_contiguous};
use crate::arguments::{Compute, Kernels, Precision};
use crate::fused_op::Fused;

/// Returns `x W`, if both are on a GPU.
///
/// # Shapes
/// - x: `[rows, d_input]`; weight: `[d_input, d_output]`
/// - output: `[rows, d_output]`
pub(crate) fn product(compute: Compute, x: Tensor<2>, weight: Tensor<2>) -> Option<Tensor<2>> {
    if compute.kernels == Kernels::Plain {
        return None;
    }
    apply_inputs(Product(compute.precision), [input(x), input(weight)])
}

#[derive(Clone, Copy, Debug)]
struct Product(Precision);

impl Fused<2, Cube> for Product {
    type Saved = [CubeTensor; 2];

    fn forward(&self, [x, weight]: [CubeTensor; 2]) -> (CubeTensor, Self::Saved) {
        (multiply(self.0, x.clone(), weight.clone()), [x, weight])
    }

    fn backward(
        self,
        [x, weight]: Self::Saved,
        gradient: CubeTensor,
        [x_wanted, weight_wanted]: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        [
            x_wanted.then(|| multiply(self.0, gradient.clone(), transposed(weight))),
            weight_wanted.then(|| multiply_transposed(self.0, x, gradient)),
        ]
    }
}

/// Returns `a b` in f32, of factors that are rounded to the precision.
///
/// # Shapes
/// - same as [`Tensor::matmul`]
pub(super) fn multiply(precision: Precision, a: CubeTensor, b: CubeTensor) -> CubeTensor {
    let [a, b] = match precision {
        Precision::F32 => [a, b],
        Precision::Bf16 => [a, b].map(|factor| cast(factor, DType::BF16)),
    };
    matmul(a, b, None, MatmulStrategy::default(), DType::F32).expect("every product has a kernel")
}

/// Returns `a' b` in f32, the sum over many rows: products of parts of the rows, and their sum.
///
/// A product of burn has one cube for a part of the result, so a small result of many rows leaves most of a GPU idle.
///
/// # Shapes
/// - a: `[rows, n]`; b: `[rows, m]`
/// - output: `[n, m]`
pub(super) fn multiply_transposed(precision: Precision, a: CubeTensor, b: CubeTensor) -> CubeTensor {
    let ([rows, n], m) = ([a.meta.shape()[0], a.meta.shape()[1]], b.meta.shape()[1]);
    let parts = row_parts(rows, n, m);
    if parts == 1 {
        return multiply(precision, transposed(a), b);
    }
    let divided = |x: CubeTensor, width: usize| {
        Cube::float_reshape(into_contiguous(x), Shape::new([parts, rows / parts, width]))
    };
    let products = multiply(precision, transposed(divided(a, n)), divided(b, m)); // [parts, n, m]
    Cube::float_reshape(column_sums(products, parts, n * m), Shape::new([n, m]))
}

/// Returns the number of equal parts of the rows: the largest power of two with at least 256 rows in each part and at most 256
/// cubes in all, if a cube computes 256 x 64 cells.
fn row_parts(rows: usize, n: usize, m: usize) -> usize {
    let cubes = n.div_ceil(256) * m.div_ceil(64);
    let mut parts = 1;
    while parts * 2 * cubes <= 256 && rows.is_multiple_of(parts * 2) && rows / (parts * 2) >= 256 {
        parts *= 2;
    }
    parts
}

/// Returns a view with the last two axes exchanged.
pub(super) fn transposed(x: CubeTensor) -> CubeTensor {
    Cube::float_transpose(x)
}
