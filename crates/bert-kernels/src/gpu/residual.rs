//! The end of half a layer on a GPU, in one pass: `y = LayerNorm(h)`, `h = residual + dropout(x + bias)`; backward, with
//! dh of [`super::layer_norm`]: `dresidual = dh`, `dx = m dh` and `dbias = sum(dx)`.
//!
//! One cube computes one row of flat tensors. Saved are h, gamma, and the mean and r of each row.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::dropout::{arguments, factor};
use super::layer_norm::{normalize_row, parameter_gradients, row_gradients};
use super::{UNITS, apply, empty_like, into_contiguous, len, one_cube_per_row};
use crate::arguments::Kernels;
use crate::cpu::dropout_mask::Dropout;
use crate::fused_op::Fused;

/// Returns `LayerNorm(residual + dropout(x + bias))` of flat rows as wide as gamma, if all tensors are on a GPU.
///
/// # Shapes
/// - x, residual and output: `[rows * width]`
/// - bias, gamma, beta: `[width]`
pub(crate) fn residual_layer_norm(
    kernels: Kernels,
    inputs: [Tensor<1>; 5],
    epsilon: f64,
    dropout: Option<Dropout>,
) -> Option<Tensor<1>> {
    apply(kernels, ResidualLayerNorm { epsilon: epsilon as f32, dropout }, inputs)
}

#[derive(Clone, Copy, Debug)]
struct ResidualLayerNorm {
    epsilon: f32,
    dropout: Option<Dropout>,
}

impl ResidualLayerNorm {
    fn dropout_scale(&self) -> f32 {
        self.dropout.map_or(1.0, |dropout| dropout.parts().3)
    }
}

impl Fused<5, Cube> for ResidualLayerNorm {
    type Saved = [CubeTensor; 3];

    fn forward(&self, inputs: [CubeTensor; 5]) -> (CubeTensor, Self::Saved) {
        let [x, bias, residual, gamma, beta] = inputs.map(into_contiguous);
        let rows = len(&x) / len(&gamma);
        let h = empty_like(&x, len(&x));
        let y = empty_like(&x, len(&x));
        let statistics = empty_like(&x, 2 * rows);
        let (count, dim) = one_cube_per_row(rows);
        let [key_low, key_high, threshold, skip] = arguments(self.dropout);
        forward_kernel::launch(
            &y.client,
            count,
            dim,
            x.into_buffer_arg(),
            bias.into_buffer_arg(),
            residual.into_buffer_arg(),
            gamma.clone().into_buffer_arg(),
            beta.into_buffer_arg(),
            h.clone().into_buffer_arg(),
            y.clone().into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            self.epsilon,
            key_low,
            key_high,
            threshold,
            self.dropout_scale(),
            skip,
        );
        (y, [h, gamma, statistics])
    }

    fn backward(
        self,
        [h, gamma, statistics]: Self::Saved,
        gradient: CubeTensor,
        [x_wanted, bias_wanted, residual_wanted, gamma_wanted, beta_wanted]: [bool; 5],
    ) -> [Option<CubeTensor>; 5] {
        let gradient = into_contiguous(gradient);
        let width = len(&gamma);
        let [d_h, d_x] = [(); 2].map(|()| empty_like(&h, len(&h)));
        let (count, dim) = one_cube_per_row(len(&h) / width);
        let [key_low, key_high, threshold, skip] = arguments(self.dropout);
        backward_kernel::launch(
            &d_h.client,
            count,
            dim,
            h.clone().into_buffer_arg(),
            gamma.into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            gradient.clone().into_buffer_arg(),
            d_h.clone().into_buffer_arg(),
            d_x.clone().into_buffer_arg(),
            key_low,
            key_high,
            threshold,
            self.dropout_scale(),
            skip,
        );
        let [mut d_gamma, mut d_beta, mut d_bias] = [(); 3].map(|()| None);
        if bias_wanted || gamma_wanted || beta_wanted {
            let sums = parameter_gradients(&h, &statistics, gradient, Some(d_x.clone()), width);
            [d_gamma, d_beta, d_bias] = sums.map(Some);
        }
        [
            x_wanted.then_some(d_x),
            d_bias.filter(|_| bias_wanted),
            residual_wanted.then_some(d_h),
            d_gamma.filter(|_| gamma_wanted),
            d_beta.filter(|_| beta_wanted),
        ]
    }
}

#[expect(clippy::too_many_arguments, reason = "five tensors in, three out, and the mask")]
#[cube(launch)]
fn forward_kernel(
    x: &[f32],
    bias: &[f32],
    residual: &[f32],
    gamma: &[f32],
    beta: &[f32],
    h: &mut [f32],
    y: &mut [f32],
    statistics: &mut [f32],
    epsilon: f32,
    key_low: u32,
    key_high: u32,
    threshold: u32,
    dropout_scale: f32,
    skip: u32,
) {
    let width = gamma.len();
    let start = CUBE_POS * width;
    if start >= x.len() {
        terminate!();
    }
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < width {
        let mask = factor(key_low, key_high, threshold, dropout_scale, start + i + skip as usize);
        let value = (x[start + i] + bias[i]) * mask + residual[start + i];
        h[start + i] = value;
        sum += value;
        i += UNITS as usize;
    }
    normalize_row(h, gamma, beta, y, statistics, start, sum, epsilon);
}

#[expect(clippy::too_many_arguments, reason = "four tensors in, two out, and the mask")]
#[cube(launch)]
fn backward_kernel(
    h: &[f32],
    gamma: &[f32],
    statistics: &[f32],
    gradient: &[f32],
    d_h: &mut [f32],
    d_x: &mut [f32],
    key_low: u32,
    key_high: u32,
    threshold: u32,
    dropout_scale: f32,
    skip: u32,
) {
    let width = gamma.len();
    let start = CUBE_POS * width;
    if start >= h.len() {
        terminate!();
    }
    row_gradients(h, gamma, statistics, gradient, d_h, start);
    let mut i = UNIT_POS as usize;
    while i < width {
        let mask = factor(key_low, key_high, threshold, dropout_scale, start + i + skip as usize);
        d_x[start + i] = d_h[start + i] * mask;
        i += UNITS as usize;
    }
}
