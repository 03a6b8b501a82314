//! Bias and GELU on a GPU: `y = z P(X <= z)`, `z = x + b`, and `dx = dy gelu'(z)` with the exact derivative;
//! or the tanh form and the derivative of that form.
//!
//! A unit computes a few adjacent elements of a flat x. The arithmetic is in f32; x and y are in f32 or bf16.
//! The backward pass also sums dx over a block of rows, for `db`.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::column_sums::{Blocks, column_of_unit, column_sums, write_sum};
use super::{apply, element, elementwise, empty_like, into_contiguous, len, vector_size};
use crate::arguments::{Gelu, Kernels};
use crate::fused_op::Fused;

/// Returns `gelu(x + bias)` of a flat x; `None` if x is not on a GPU.
pub(crate) fn bias_gelu(kernels: Kernels, x: Tensor<1>, bias: Tensor<1>, form: Gelu) -> Option<Tensor<1>> {
    apply(kernels, BiasGelu(form), [x, bias])
}

#[derive(Clone, Copy, Debug)]
struct BiasGelu(Gelu);

impl Fused<2, Cube> for BiasGelu {
    type Saved = [CubeTensor; 2];

    fn forward(&self, inputs: [CubeTensor; 2]) -> (CubeTensor, Self::Saved) {
        let [x, bias] = inputs.map(into_contiguous);
        (forward(self.0, &x, &bias), [x, bias])
    }

    fn backward(
        self,
        [x, bias]: Self::Saved,
        gradient: CubeTensor,
        [_, bias_wanted]: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        let (d_x, d_bias) = backward(self.0, &x, &bias, into_contiguous(gradient));
        [Some(d_x), bias_wanted.then_some(d_bias)]
    }
}

/// Returns `gelu(x + bias)` in the dtype of x. Both inputs must be contiguous.
pub(super) fn forward(form: Gelu, x: &CubeTensor, bias: &CubeTensor) -> CubeTensor {
    let y = empty_like(x, len(x));
    let vector = vector_size(len(bias), x);
    launch!(forward_kernel, &y.client, elementwise(len(x) / vector), vector;
        x.clone(), bias.clone(), y.clone(); form == Gelu::Tanh, element(x));
    y
}

/// Returns the gradient of x, in the dtype of x, and the gradient of the bias. `gradient` must be contiguous
/// and have the same dtype.
pub(super) fn backward(
    form: Gelu,
    x: &CubeTensor,
    bias: &CubeTensor,
    gradient: CubeTensor,
) -> (CubeTensor, CubeTensor) {
    let d_x = empty_like(x, len(x));
    let width = len(bias);
    let blocks = Blocks::new(len(x) / width);
    let sums = empty_like(bias, blocks.count * width);
    let vector = vector_size(width, x);
    launch!(backward_kernel, &d_x.client, blocks.launch_size(width / vector), vector;
        x.clone(), bias.clone(), gradient, d_x.clone(), sums.clone();
        blocks.rows, form == Gelu::Tanh, element(x));
    (d_x, column_sums(sums, blocks.count, width))
}

#[cube(launch)]
fn forward_kernel<E: Float, N: Size>(
    x: &[Vector<E, N>],
    bias: &[Vector<f32, N>],
    y: &mut [Vector<E, N>],
    #[comptime] tanh: bool,
    #[define(E)] _element: ElemType,
) {
    if ABSOLUTE_POS < y.len() {
        let z = Vector::<f32, N>::cast_from(x[ABSOLUTE_POS]) + bias[ABSOLUTE_POS % bias.len()];
        y[ABSOLUTE_POS] = Vector::cast_from(z * distribution(z, tanh));
    }
}

#[cube(launch)]
fn backward_kernel<E: Float, N: Size>(
    x: &[Vector<E, N>],
    bias: &[Vector<f32, N>],
    gradient: &[Vector<E, N>],
    d_x: &mut [Vector<E, N>],
    sums: &mut [Vector<f32, N>],
    block: usize,
    #[comptime] tanh: bool,
    #[define(E)] _element: ElemType,
) {
    let width = bias.len();
    let column = column_of_unit(x.len(), width, block);
    let mut shift = Vector::<f32, N>::new(0.0);
    if column.end > 0 {
        shift = bias[column.column];
    }
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut i = column.first;
    while i < column.end {
        let z = Vector::<f32, N>::cast_from(x[i]) + shift;
        let p = distribution(z, tanh);
        let one = Vector::<f32, N>::new(1.0);
        let slope = if comptime!(tanh) {
            // p is the logistic function of 2u, where 2u = sqrt(8 / pi) (z + 0.044715 z^3).
            let inner = one + z * z * Vector::new(0.134_145);
            p + z * p * (one - p) * Vector::new(1.595_769_2) * inner
        } else {
            p + z * (z * z * Vector::new(-0.5)).exp() * Vector::new(0.398_942_3)
        };
        let value = Vector::<f32, N>::cast_from(gradient[i]) * slope;
        d_x[i] = Vector::cast_from(value);
        sum += value;
        i += column.step;
    }
    write_sum(sum, &column, sums, width);
}

/// Returns `P(X <= z)`, or the logistic function that replaces it in the tanh form.
#[cube]
fn distribution<N: Size>(z: Vector<f32, N>, #[comptime] tanh: bool) -> Vector<f32, N> {
    let one = Vector::<f32, N>::new(1.0);
    if comptime!(tanh) {
        let exponent = (z + z * z * z * Vector::new(0.044_715)) * Vector::new(-1.595_769_2);
        one / (one + exponent.exp())
    } else {
        (one + (z * Vector::new(0.707_106_77)).erf()) * Vector::new(0.5)
    }
}
