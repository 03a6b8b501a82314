//! Bias and GELU on a GPU: `y = z P(X <= z)`, `z = x + b`, and `dx = dy gelu'(z)` with the exact derivative; or the
//! tanh form with its own derivative.
//!
//! One unit computes one element of a flat x. `db` is the sum of dx over the rows.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::column_sums::column_sums;
use super::{apply, elementwise, empty_like, into_contiguous, len};
use crate::arguments::Gelu;
use crate::arguments::Kernels;
use crate::fused_op::Fused;

/// Returns `gelu(x + bias)` of a flat x, if x is on a GPU.
pub(crate) fn bias_gelu(kernels: Kernels, x: Tensor<1>, bias: Tensor<1>, form: Gelu) -> Option<Tensor<1>> {
    apply(kernels, BiasGelu(form), [x, bias])
}

#[derive(Clone, Copy, Debug)]
struct BiasGelu(Gelu);

impl Fused<2, Cube> for BiasGelu {
    type Saved = [CubeTensor; 2];

    fn forward(&self, inputs: [CubeTensor; 2]) -> (CubeTensor, Self::Saved) {
        let inputs = inputs.map(into_contiguous);
        let y = empty_like(&inputs[0], len(&inputs[0]));
        let [x, bias] = inputs.clone();
        let (count, dim) = elementwise(len(&x));
        forward_kernel::launch(
            &y.client,
            count,
            dim,
            x.into_buffer_arg(),
            bias.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            self.0 == Gelu::Tanh,
        );
        (y, inputs)
    }

    fn backward(
        self,
        [x, bias]: Self::Saved,
        gradient: CubeTensor,
        [_, bias_wanted]: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        let d_x = empty_like(&x, len(&x));
        let (width, rows) = (len(&bias), len(&x) / len(&bias));
        let (count, dim) = elementwise(len(&x));
        backward_kernel::launch(
            &d_x.client,
            count,
            dim,
            x.into_buffer_arg(),
            bias.into_buffer_arg(),
            into_contiguous(gradient).into_buffer_arg(),
            d_x.clone().into_buffer_arg(),
            self.0 == Gelu::Tanh,
        );
        let d_bias = bias_wanted.then(|| column_sums(d_x.clone(), rows, width));
        [Some(d_x), d_bias]
    }
}

#[cube(launch)]
fn forward_kernel(x: &[f32], bias: &[f32], y: &mut [f32], #[comptime] tanh: bool) {
    if ABSOLUTE_POS < y.len() {
        let z = x[ABSOLUTE_POS] + bias[ABSOLUTE_POS % bias.len()];
        y[ABSOLUTE_POS] = z * distribution(z, tanh);
    }
}

#[cube(launch)]
fn backward_kernel(x: &[f32], bias: &[f32], gradient: &[f32], d_x: &mut [f32], #[comptime] tanh: bool) {
    if ABSOLUTE_POS < d_x.len() {
        let z = x[ABSOLUTE_POS] + bias[ABSOLUTE_POS % bias.len()];
        let p = distribution(z, tanh);
        let slope = if comptime!(tanh) {
            // 2u = sqrt(8 / pi) (z + 0.044715 z^3), and p is the logistic function of it.
            p + z * p * (1.0 - p) * (1.595_769_2 * (1.0 + 0.134_145 * z * z))
        } else {
            p + z * (z * z * f32::new(-0.5)).exp() * 0.398_942_3
        };
        d_x[ABSOLUTE_POS] = gradient[ABSOLUTE_POS] * slope;
    }
}

/// Returns `P(X <= z)`, or the logistic function that replaces it in the tanh form.
#[cube]
fn distribution(z: f32, #[comptime] tanh: bool) -> f32 {
    if comptime!(tanh) {
        1.0 / (1.0 + ((z + 0.044_715 * z * z * z) * f32::new(-1.595_769_2)).exp())
    } else {
        0.5 * (1.0 + Erf::erf(z * 0.707_106_77))
    }
}
