//! The product of a dense layer: `y = x W`, backward `dx = dy W'` and `dW = x' dy`.
//!
//! All rows are one product, for any shape of x; burn's own `linear` multiplies batch by batch and packs the weight
//! again for each batch. The operation that follows adds the bias.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, assert_shape};

use crate::arguments::{Compute, Precision};
use crate::cpu::flex_slices::{buffer, contiguous, slice, tensor, width};
use crate::fused_op::{Fused, apply_or, fused_path};
use crate::matmul::matrix_view::{Gemm, Matrix, MatrixMut, Side, Threads};
use crate::matmul::packed_weights::{KernelContext, PackedWeights};
use crate::matmul::{MatmulContext, SharedOperand, multiply, run_both};
use crate::ops::plain::linear;

/// Returns `x W`, in the dtype of x.
///
/// # Shapes
/// - x: `[.., d_input]`
/// - weight: `[d_input, d_output]`
/// - output: `[.., d_output]`
pub fn product<'a, const D: usize>(
    ctx: impl Into<KernelContext<'a>>,
    x: Tensor<D>,
    weight: Tensor<2>,
) -> Tensor<D> {
    let KernelContext { compute, packed } = ctx.into();
    assert_shape!(weight, [x.dims()[D - 1], _]);
    match fused_path(compute, &[&x, &weight]) {
        Some(path) => apply_or(Dense(compute.precision), path, [x.into(), weight.into()], |dense, inputs| {
            dense.product(inputs.map(contiguous).each_ref(), packed)
        }),
        None => other_backends(compute, x, weight),
    }
}

/// Computes [`product`] on a GPU, or with burn's operations.
fn other_backends<const D: usize>(compute: Compute, x: Tensor<D>, weight: Tensor<2>) -> Tensor<D> {
    #[cfg(feature = "cubecl")]
    {
        let mut shape = x.dims();
        let [input, output] = weight.dims();
        let rows = x.clone().reshape([shape.iter().product::<usize>() / input, input]);
        if let Some(y) = crate::gpu::product::product(compute, rows, weight.clone()) {
            shape[D - 1] = output;
            return y.reshape(shape);
        }
    }
    linear(compute.precision, x, weight, None)
}

#[derive(Clone, Copy, Debug)]
struct Dense(Precision);

impl Dense {
    fn product(self, [x, weight]: [&FlexTensor; 2], cache: Option<&PackedWeights>) -> FlexTensor {
        let mut shape = x.layout().shape().clone();
        let last = shape.num_dims() - 1;
        shape[last] = width(weight);
        let mut y = buffer(shape.num_elements());
        forward(MatmulContext::new(self.0, Threads::All), slice(x), weight, cache, &mut y);
        tensor(y, shape)
    }
}

impl Fused<2> for Dense {
    type Saved = [FlexTensor; 2];

    fn forward(&self, inputs: [FlexTensor; 2]) -> (FlexTensor, Self::Saved) {
        let inputs = inputs.map(contiguous);
        (self.product(inputs.each_ref(), None), inputs)
    }

    fn backward(
        self,
        [x, weight]: Self::Saved,
        gradient: FlexTensor,
        [x_wanted, weight_wanted]: [bool; 2],
    ) -> [Option<FlexTensor>; 2] {
        let gradient = contiguous(gradient);
        let output = width(&weight);
        let mut d_x = x_wanted.then(|| buffer(slice(&x).len()));
        let mut d_weight = weight_wanted.then(|| buffer(slice(&weight).len()));
        run_both(
            |threads| {
                if let Some(d_x) = &mut d_x {
                    let ctx = MatmulContext::new(self.0, threads);
                    backward_x(ctx, slice(&weight), output, slice(&gradient), d_x);
                }
            },
            |threads| {
                if let Some(d_weight) = &mut d_weight {
                    let ctx = MatmulContext::new(self.0, threads);
                    backward_weight(ctx, slice(&x), output, slice(&gradient), d_weight);
                }
            },
        );
        let shape_of = |x: &FlexTensor| x.layout().shape().clone();
        [
            d_x.map(|d_x| tensor(d_x, shape_of(&x))),
            d_weight.map(|d_weight| tensor(d_weight, shape_of(&weight))),
        ]
    }
}

/// Computes `y = x W`.
pub(crate) fn forward(
    ctx: MatmulContext,
    x: &[f32],
    weight: &FlexTensor,
    cache: Option<&PackedWeights>,
    y: &mut [f32],
) {
    let output = width(weight);
    let input = slice(weight).len() / output;
    let rows = y.len() / output;
    let weight = SharedOperand::weight(ctx, cache, weight);
    let sizes = Gemm { m: rows, n: output, k: input };
    multiply(ctx, sizes, MatrixMut::new(y, output), Matrix::rows(x, input), weight.operand());
}

/// Computes `dx = dy W'`, or adds it to the given buffer.
pub(crate) fn backward_x(
    ctx: MatmulContext,
    weight: &[f32],
    output: usize,
    gradient: &[f32],
    d_x: &mut [f32],
) {
    let input = weight.len() / output;
    let rows = gradient.len() / output;
    let gradient = Matrix::rows(gradient, output);
    let weight = Matrix::rows(weight, output).transposed();
    let sizes = Gemm { m: rows, n: input, k: output };
    multiply(ctx, sizes, MatrixMut::new(d_x, input), gradient, weight);
}

/// Computes `dW = x' dy`.
pub(crate) fn backward_weight(
    ctx: MatmulContext,
    x: &[f32],
    output: usize,
    gradient: &[f32],
    d_weight: &mut [f32],
) {
    let input = d_weight.len() / output;
    let rows = gradient.len() / output;
    let gradient = SharedOperand::new(ctx, Side::Right, Matrix::rows(gradient, output), output, rows);
    let sizes = Gemm { m: input, n: output, k: rows };
    transposed_product(ctx, sizes, d_weight, Matrix::rows(x, input), &gradient);
}

/// Maximum number of columns of an f32 product for which gemm reads a transposed left operand without
/// packing. For more columns, gemm packs the operand first, which takes a tenth of the product's time.
/// Products in bf16 pack every operand.
const STRIP: usize = 128;
/// Maximum number of strips for which reading the operand once per strip is faster than packing it.
const STRIPS: usize = 4;

/// Computes `c = a' b`, where a is `[k, m]` and b is `[k, n]`; rows of c are adjacent.
pub(crate) fn transposed_product(
    ctx: MatmulContext,
    sizes: Gemm,
    c: &mut [f32],
    a: Matrix,
    b: &SharedOperand,
) {
    let n = sizes.n;
    let mut c = MatrixMut::new(c, n);
    if ctx.precision == Precision::Bf16 || n > STRIPS * STRIP {
        return multiply(ctx, sizes, c, a.transposed(), b.operand());
    }
    for first in (0..n).step_by(STRIP) {
        let strip = Gemm { n: STRIP.min(n - first), ..sizes };
        multiply(ctx, strip, c.starting_at(first), a.transposed(), b.columns_from(first));
    }
}
