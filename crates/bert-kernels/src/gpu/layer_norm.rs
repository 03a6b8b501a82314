//! LayerNorm on a GPU: `y = gamma n + beta`, `n = (h - mean) r`, `r = 1 / sqrt(var + eps)`; backward, with
//! `g = gamma dy`, `dh = r (g - mean(g) - n mean(g n))`.
//!
//! One cube normalizes one row of a flat tensor and keeps its mean and r for the backward pass. `dgamma = sum(dy n)`
//! and `dbeta = sum(dy)` are sums over the rows.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::column_sums::{BLOCK, column_sums, parts};
use super::{UNITS, apply, cube_sum, elementwise, empty_like, into_contiguous, len, one_cube_per_row};
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
        let y = empty_like(&h, len(&h));
        let statistics = empty_like(&h, 2 * rows);
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
        let width = len(&gamma);
        let d_h = empty_like(&h, len(&h));
        let (count, dim) = one_cube_per_row(len(&h) / width);
        backward_kernel::launch(
            &d_h.client,
            count,
            dim,
            h.clone().into_buffer_arg(),
            gamma.into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            gradient.clone().into_buffer_arg(),
            d_h.clone().into_buffer_arg(),
        );
        if !(gamma_wanted || beta_wanted) {
            return [Some(d_h), None, None];
        }
        let [d_gamma, d_beta] = parameter_gradients(&h, &statistics, gradient, None, width);
        [Some(d_h), gamma_wanted.then_some(d_gamma), beta_wanted.then_some(d_beta)]
    }
}

/// Returns the gradients of gamma and beta, and the column sums of `d_x` if it is given, in two passes for all of them.
pub(super) fn parameter_gradients<const N: usize>(
    h: &CubeTensor,
    statistics: &CubeTensor,
    gradient: CubeTensor,
    d_x: Option<CubeTensor>,
    width: usize,
) -> [CubeTensor; N] {
    let rows = len(h) / width;
    let blocks = rows.div_ceil(BLOCK);
    let sums = empty_like(h, blocks * N * width);
    let (count, dim) = elementwise(blocks * width);
    let with_bias = d_x.is_some();
    parameter_kernel::launch(
        &sums.client,
        count,
        dim,
        h.clone().into_buffer_arg(),
        statistics.clone().into_buffer_arg(),
        gradient.clone().into_buffer_arg(),
        d_x.unwrap_or(gradient).into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        width,
        with_bias,
    );
    parts(column_sums(sums, blocks, N * width))
}

/// Adds the terms of one column in [`BLOCK`] rows: of gamma, of beta, and of x if its gradient is given.
#[cube(launch)]
fn parameter_kernel(
    h: &[f32],
    statistics: &[f32],
    gradient: &[f32],
    d_x: &[f32],
    sums: &mut [f32],
    width: usize,
    #[comptime] with_bias: bool,
) {
    let block = ABSOLUTE_POS / width;
    let column = ABSOLUTE_POS % width;
    let rows = h.len() / width;
    let mut row = block * BLOCK;
    if row >= rows {
        terminate!();
    }
    let end = min(row + BLOCK, rows);
    let mut gamma = 0.0f32;
    let mut beta = 0.0f32;
    let mut bias = 0.0f32;
    while row < end {
        let place = row * width + column;
        let dy = gradient[place];
        gamma += dy * ((h[place] - statistics[2 * row]) * statistics[2 * row + 1]);
        beta += dy;
        if comptime!(with_bias) {
            bias += d_x[place];
        }
        row += 1;
    }
    if comptime!(with_bias) {
        sums[block * 3 * width + column] = gamma;
        sums[block * 3 * width + width + column] = beta;
        sums[block * 3 * width + 2 * width + column] = bias;
    } else {
        sums[block * 2 * width + column] = gamma;
        sums[block * 2 * width + width + column] = beta;
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
fn backward_kernel(h: &[f32], gamma: &[f32], statistics: &[f32], gradient: &[f32], d_h: &mut [f32]) {
    let start = CUBE_POS * gamma.len();
    if start >= h.len() {
        terminate!();
    }
    row_gradients(h, gamma, statistics, gradient, d_h, start);
}

/// Writes dh of the row that begins at `start`.
#[cube]
pub(super) fn row_gradients(
    h: &[f32],
    gamma: &[f32],
    statistics: &[f32],
    gradient: &[f32],
    d_h: &mut [f32],
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
