//! LayerNorm on a GPU: `y = gamma n + beta`, `n = (h - mean) r`, `r = 1 / sqrt(var + eps)`; backward, with
//! `g = gamma dy`, `dh = r (g - mean(g) - n mean(g n))`.
//!
//! One cube normalizes one row of a flat tensor and keeps its mean and r for the backward pass. `dgamma = sum(dy n)`
//! and `dbeta = sum(dy)` are sums over the rows.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::column_sums::column_sums;
use super::{UNITS, apply, cube_sum, empty_like, into_contiguous, len, one_cube_per_row};
use crate::arguments::Kernels;
use crate::fused_op::Fused;

/// Returns the LayerNorm of flat rows as wide as gamma, if all tensors are on a GPU.
///
/// # Shapes
/// - h and output: `[rows * width]`
/// - gamma, beta: `[width]`
pub(crate) fn layer_norm(
    kernels: Kernels,
    h: Tensor<1>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
) -> Option<Tensor<1>> {
    apply(kernels, LayerNorm { epsilon: epsilon as f32 }, [h, gamma, beta])
}

#[derive(Clone, Copy, Debug)]
struct LayerNorm {
    epsilon: f32,
}

impl Fused<3, Cube> for LayerNorm {
    /// h, gamma, and the mean and r of each row.
    type Saved = [CubeTensor; 3];

    fn forward(&self, inputs: [CubeTensor; 3]) -> (CubeTensor, Self::Saved) {
        let [h, gamma, beta] = inputs.map(into_contiguous);
        let rows = len(&h) / len(&gamma);
        let (y, statistics) = (empty_like(&h, len(&h)), empty_like(&h, 2 * rows));
        let (count, dim) = one_cube_per_row(rows);
        forward_kernel::launch(
            &y.client,
            count,
            dim,
            h.clone().into_buffer_arg(),
            gamma.clone().into_buffer_arg(),
            beta.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            self.epsilon,
        );
        (y, [h, gamma, statistics])
    }

    fn backward(
        self,
        [h, gamma, statistics]: Self::Saved,
        gradient: CubeTensor,
        [_, gamma_wanted, beta_wanted]: [bool; 3],
    ) -> [Option<CubeTensor>; 3] {
        let gradient = into_contiguous(gradient);
        let (width, rows) = (len(&gamma), len(&h) / len(&gamma));
        let (d_h, d_gamma) = (empty_like(&h, len(&h)), empty_like(&h, len(&h)));
        let (count, dim) = one_cube_per_row(rows);
        backward_kernel::launch(
            &d_h.client,
            count,
            dim,
            h.into_buffer_arg(),
            gamma.into_buffer_arg(),
            statistics.into_buffer_arg(),
            gradient.clone().into_buffer_arg(),
            d_h.clone().into_buffer_arg(),
            d_gamma.clone().into_buffer_arg(),
        );
        [
            Some(d_h),
            gamma_wanted.then(|| column_sums(d_gamma, rows, width)),
            beta_wanted.then(|| column_sums(gradient, rows, width)),
        ]
    }
}

#[cube(launch)]
fn forward_kernel(
    h: &mut [f32],
    gamma: &[f32],
    beta: &[f32],
    y: &mut [f32],
    statistics: &mut [f32],
    epsilon: f32,
) {
    let width = gamma.len();
    let start = CUBE_POS * width;
    if start >= h.len() {
        terminate!();
    }
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < width {
        sum += h[start + i];
        i += UNITS as usize;
    }
    normalize_row(h, gamma, beta, y, statistics, start, sum, epsilon);
}

/// Writes LayerNorm of the row of h that begins at `start`, its mean and its r. `sum` is the sum of this unit's elements. h is
/// only read; it is mutable because another kernel has just written it.
#[expect(clippy::too_many_arguments, reason = "five tensors and three numbers")]
#[cube]
pub(super) fn normalize_row(
    h: &mut [f32],
    gamma: &[f32],
    beta: &[f32],
    y: &mut [f32],
    statistics: &mut [f32],
    start: usize,
    sum: f32,
    epsilon: f32,
) {
    let width = gamma.len();
    let mean = cube_sum(sum) / width as f32;
    let mut squares = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < width {
        let centred = h[start + i] - mean;
        squares += centred * centred;
        i += UNITS as usize;
    }
    let r = 1.0 / (cube_sum(squares) / width as f32 + epsilon).sqrt();
    let mut i = UNIT_POS as usize;
    while i < width {
        y[start + i] = (h[start + i] - mean) * r * gamma[i] + beta[i];
        i += UNITS as usize;
    }
    if UNIT_POS == 0 {
        statistics[2 * CUBE_POS] = mean;
        statistics[2 * CUBE_POS + 1] = r;
    }
}

#[cube(launch)]
fn backward_kernel(
    h: &[f32],
    gamma: &[f32],
    statistics: &[f32],
    gradient: &[f32],
    d_h: &mut [f32],
    d_gamma: &mut [f32],
) {
    let start = CUBE_POS * gamma.len();
    if start >= h.len() {
        terminate!();
    }
    row_gradients(h, gamma, statistics, gradient, d_h, d_gamma, start);
}

/// Writes dh of the row that begins at `start`, and its term of dgamma.
#[cube]
pub(super) fn row_gradients(
    h: &[f32],
    gamma: &[f32],
    statistics: &[f32],
    gradient: &[f32],
    d_h: &mut [f32],
    d_gamma: &mut [f32],
    start: usize,
) {
    let width = gamma.len();
    let mean = statistics[2 * CUBE_POS];
    let r = statistics[2 * CUBE_POS + 1];
    let mut sum = 0.0f32;
    let mut dot = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < width {
        let n = (h[start + i] - mean) * r;
        let g = gradient[start + i] * gamma[i];
        d_gamma[start + i] = gradient[start + i] * n;
        sum += g;
        dot += g * n;
        i += UNITS as usize;
    }
    let sum = cube_sum(sum) / width as f32;
    let dot = cube_sum(dot) / width as f32;
    let mut i = UNIT_POS as usize;
    while i < width {
        let n = (h[start + i] - mean) * r;
        d_h[start + i] = r * (gradient[start + i] * gamma[i] - sum - n * dot);
        i += UNITS as usize;
    }
}
