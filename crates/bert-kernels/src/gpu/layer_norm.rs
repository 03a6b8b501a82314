//! LayerNorm on a GPU: `y = gamma n + beta`, `n = (h - mean) r`, `r = 1 / sqrt(var + eps)`; backward, with
//! `g = gamma dy`, `dh = r (g - mean(g) - n mean(g n))`.
//!
//! At the end of an attention or a feed-forward block, `h = residual + dropout(x + bias)`; backward,
//! `dresidual = dh`, `dx = m dh` and `dbias = sum(dx)`. x is in f32 or bf16, and dx has the dtype of x.
//!
//! The lanes of a row keep its elements in registers. The forward pass saves h, gamma, and the mean and r of
//! each row. The backward pass computes `dgamma = sum(dy n)`, `dbeta = sum(dy)` and dbias in the same pass
//! over the rows.

use burn::backend::Cube;
use burn::tensor::{DType, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::column_sums::{column_sums, parts};
use super::dropout::{Mask, factors, mask};
use super::lanes::{Lanes, over_lanes, vector_sum};
use super::{apply, apply_inputs, element, empty_like, empty_with, input, into_contiguous, len, vector_size};
use crate::arguments::Kernels;
use crate::cpu::dropout_mask::Dropout;
use crate::fused_op::Fused;

/// Number of rows that the same lanes compute, one after another, in the backward pass.
const TIMES: usize = 8;

/// Returns the LayerNorm of rows of gamma's width, stored flat; `None` if a tensor is not on a GPU.
///
/// # Shapes
/// - inputs: h `[rows * width]`, gamma and beta `[width]`
/// - output: `[rows * width]`
pub(crate) fn layer_norm(kernels: Kernels, inputs: [Tensor<1>; 3], epsilon: f64) -> Option<Tensor<1>> {
    apply(kernels, LayerNorm(Norm { epsilon: epsilon as f32, dropout: None }), inputs)
}

/// Returns `LayerNorm(residual + dropout(x + bias))` of rows of gamma's width, stored flat; `None` if a
/// tensor is not on a GPU.
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
    apply_inputs(kernels, ResidualLayerNorm(Norm { epsilon: epsilon as f32, dropout }), inputs.map(input))
}

#[derive(Clone, Copy, Debug)]
struct Norm {
    epsilon: f32,
    dropout: Option<Dropout>,
}

#[derive(Clone, Copy, Debug)]
struct LayerNorm(Norm);

#[derive(Clone, Copy, Debug)]
struct ResidualLayerNorm(Norm);

/// Values that the backward pass needs.
#[derive(Clone, Debug)]
struct Saved {
    /// `[rows * width]`
    h: CubeTensor,
    /// `[width]`
    gamma: CubeTensor,
    /// The mean and r of each row, `[rows * 2]`
    statistics: CubeTensor,
    /// The dtype of x; `None` if the operation has no x.
    x: Option<DType>,
}

impl Fused<3, Cube> for LayerNorm {
    type Saved = Saved;

    fn forward(&self, inputs: [CubeTensor; 3]) -> (CubeTensor, Saved) {
        let [h, gamma, beta] = inputs.map(into_contiguous);
        self.0.forward(None, h, gamma, beta)
    }

    fn backward(
        self,
        saved: Saved,
        gradient: CubeTensor,
        [_, gamma_wanted, beta_wanted]: [bool; 3],
    ) -> [Option<CubeTensor>; 3] {
        let (d_h, _, sums) = self.0.backward(saved, gradient);
        let [d_gamma, d_beta] = parts(sums);
        [Some(d_h), gamma_wanted.then_some(d_gamma), beta_wanted.then_some(d_beta)]
    }
}

impl Fused<5, Cube> for ResidualLayerNorm {
    type Saved = Saved;

    fn forward(&self, inputs: [CubeTensor; 5]) -> (CubeTensor, Saved) {
        let [x, bias, residual, gamma, beta] = inputs.map(into_contiguous);
        self.0.forward(Some([x, bias]), residual, gamma, beta)
    }

    fn backward(
        self,
        saved: Saved,
        gradient: CubeTensor,
        [x_wanted, bias_wanted, residual_wanted, gamma_wanted, beta_wanted]: [bool; 5],
    ) -> [Option<CubeTensor>; 5] {
        let (d_h, d_x, sums) = self.0.backward(saved, gradient);
        let [d_gamma, d_beta, d_bias] = parts(sums);
        [
            x_wanted.then_some(d_x),
            bias_wanted.then_some(d_bias),
            residual_wanted.then_some(d_h),
            gamma_wanted.then_some(d_gamma),
            beta_wanted.then_some(d_beta),
        ]
    }
}

impl Norm {
    /// Returns y and the saved values. `terms` are x and its bias; `None` for LayerNorm alone.
    fn forward(
        self,
        terms: Option<[CubeTensor; 2]>,
        residual: CubeTensor,
        gamma: CubeTensor,
        beta: CubeTensor,
    ) -> (CubeTensor, Saved) {
        let width = len(&gamma);
        let rows = len(&residual) / width;
        let y = empty_like(&residual, len(&residual));
        let statistics = empty_like(&residual, 2 * rows);
        let vector = vector_size(width, &residual);
        let lanes = Lanes::new(&y.client, width / vector);
        let has_terms = terms.is_some();
        let h = if has_terms { empty_like(&residual, len(&residual)) } else { empty_like(&residual, vector) };
        // Without x, the kernel reads neither x nor the bias, and does not write h.
        let [x, bias] = terms.unwrap_or_else(|| [residual.clone(), gamma.clone()]);
        let kind = element(&x);
        let x_type = has_terms.then_some(x.dtype);
        launch!(forward_kernel, &y.client, lanes.launch_size(rows, 1), vector;
            x, bias, residual.clone(), gamma.clone(), beta, h.clone(), y.clone(), statistics.clone();
            self.epsilon, mask(self.dropout), has_terms, lanes, kind);
        (y, Saved { h: if has_terms { h } else { residual }, gamma, statistics, x: x_type })
    }

    /// Returns the gradient of h, the gradient of x, and one flat tensor with the gradients of gamma, beta
    /// and, if there is an x, the bias. The gradient of x is undefined if there is no x.
    fn backward(self, saved: Saved, gradient: CubeTensor) -> (CubeTensor, CubeTensor, CubeTensor) {
        let Saved { h, gamma, statistics, x } = saved;
        let width = len(&gamma);
        let rows = len(&h) / width;
        let vector = vector_size(width, &h);
        let lanes = Lanes::new(&h.client, width / vector);
        let blocks = rows.div_ceil(lanes.rows() as usize * TIMES);
        let d_h = empty_like(&h, len(&h));
        let d_x = empty_with(&h, if x.is_some() { len(&h) } else { vector }, x.unwrap_or(DType::F32));
        let parameters = if x.is_some() { 3 } else { 2 };
        let sums = empty_like(&h, blocks * parameters * width);
        let kind = element(&d_x);
        launch!(backward_kernel, &h.client, lanes.launch_size(rows, TIMES), vector;
            h.clone(), gamma, statistics, into_contiguous(gradient), d_h.clone(), d_x.clone(), sums.clone();
            mask(self.dropout), x.is_some(), lanes, kind);
        (d_h, d_x, column_sums(sums, blocks, parameters * width))
    }
}

#[expect(clippy::too_many_arguments, reason = "five tensors in, three out, and the mask")]
#[cube(launch)]
fn forward_kernel<E: Float, N: Size>(
    x: &[Vector<E, N>],
    bias: &[Vector<f32, N>],
    residual: &[Vector<f32, N>],
    gamma: &[Vector<f32, N>],
    beta: &[Vector<f32, N>],
    h: &mut [Vector<f32, N>],
    y: &mut [Vector<f32, N>],
    statistics: &mut [f32],
    epsilon: f32,
    mask: Mask,
    #[comptime] has_terms: bool,
    #[comptime] lanes: Lanes,
    #[define(E)] _element: ElemType,
) {
    let width = gamma.len();
    let row = CUBE_POS * lanes.rows() as usize + UNIT_POS_Y as usize;
    let start = row * width;
    // Units after the last row have no elements, but they take part in the sums, which synchronize all units
    // of the cube.
    let end = if start < residual.len() { width } else { 0usize.runtime() };
    // All loads are issued before the first value is used, so that they overlap.
    let mut values = Array::<Vector<f32, N>>::new(lanes.vectors);
    let mut terms = Array::<Vector<E, N>>::new(lanes.vectors);
    let mut biases = Array::<Vector<f32, N>>::new(lanes.vectors);
    #[unroll]
    for number in 0..lanes.vectors {
        let i = UNIT_POS_X as usize + number * lanes.count as usize;
        if i < end {
            values[number] = residual[start + i];
            if comptime!(has_terms) {
                terms[number] = x[start + i];
                biases[number] = bias[i];
            }
        }
    }
    let mut sum = 0.0f32;
    #[unroll]
    for number in 0..lanes.vectors {
        let i = UNIT_POS_X as usize + number * lanes.count as usize;
        if i < end {
            if comptime!(has_terms) {
                let term = Vector::<f32, N>::cast_from(terms[number]) + biases[number];
                values[number] += term * factors::<N>(&mask, (start + i) * N::value());
                h[start + i] = values[number];
            }
            sum += vector_sum(values[number]);
        }
    }
    let elements = (width * N::value()) as f32;
    let mean = over_lanes(sum, false, lanes) / elements;
    let means = Vector::<f32, N>::new(mean);
    let mut squares = 0.0f32;
    #[unroll]
    for number in 0..lanes.vectors {
        if UNIT_POS_X as usize + number * (lanes.count as usize) < end {
            let centred = values[number] - means;
            squares += vector_sum(centred * centred);
        }
    }
    let r = 1.0 / (over_lanes(squares, false, lanes) / elements + epsilon).sqrt();
    #[unroll]
    for number in 0..lanes.vectors {
        let i = UNIT_POS_X as usize + number * lanes.count as usize;
        if i < end {
            y[start + i] = (values[number] - means) * Vector::new(r) * gamma[i] + beta[i];
        }
    }
    if UNIT_POS_X == 0 && end > 0 {
        statistics[2 * row] = mean;
        statistics[2 * row + 1] = r;
    }
}

#[expect(clippy::too_many_arguments, reason = "four tensors in, three out, and the mask")]
#[cube(launch)]
fn backward_kernel<E: Float, N: Size>(
    h: &[Vector<f32, N>],
    gamma: &[Vector<f32, N>],
    statistics: &[f32],
    gradient: &[Vector<f32, N>],
    d_h: &mut [Vector<f32, N>],
    d_x: &mut [Vector<E, N>],
    sums: &mut [Vector<f32, N>],
    mask: Mask,
    #[comptime] has_terms: bool,
    #[comptime] lanes: Lanes,
    #[define(E)] _element: ElemType,
) {
    let width = gamma.len();
    let elements = (width * N::value()) as f32;
    let zero = Vector::<f32, N>::new(0.0);
    // Partial sums of the gradients of gamma, beta and the bias, in the columns of this unit.
    let parameters = comptime!(if has_terms { 3 } else { 2 });
    let mut terms = Array::<Vector<f32, N>>::new(comptime!(parameters * lanes.vectors));
    #[unroll]
    for number in 0..comptime!(parameters * lanes.vectors) {
        terms[number] = zero;
    }
    let mut scales = Array::<Vector<f32, N>>::new(lanes.vectors);
    #[unroll]
    for number in 0..lanes.vectors {
        let i = UNIT_POS_X as usize + number * lanes.count as usize;
        if i < width {
            scales[number] = gamma[i];
        }
    }
    for time in 0..TIMES {
        let row = (CUBE_POS * TIMES + time) * lanes.rows() as usize + UNIT_POS_Y as usize;
        let start = row * width;
        // Units after the last row have no elements, but they take part in the sums, which synchronize all
        // units of the cube.
        let mut end = 0usize.runtime();
        let mut mean = 0.0f32;
        let mut r = 0.0f32;
        if start < h.len() {
            end = width;
            mean = statistics[2 * row];
            r = statistics[2 * row + 1];
        }
        // All loads are issued before the first value is used, so that they overlap.
        let mut normalized = Array::<Vector<f32, N>>::new(lanes.vectors);
        let mut scaled = Array::<Vector<f32, N>>::new(lanes.vectors);
        #[unroll]
        for number in 0..lanes.vectors {
            let i = UNIT_POS_X as usize + number * lanes.count as usize;
            if i < end {
                normalized[number] = h[start + i];
                scaled[number] = gradient[start + i];
            }
        }
        let mut sum = 0.0f32;
        let mut dot = 0.0f32;
        #[unroll]
        for number in 0..lanes.vectors {
            if UNIT_POS_X as usize + number * (lanes.count as usize) < end {
                let n = (normalized[number] - Vector::new(mean)) * Vector::new(r);
                let dy = scaled[number];
                let g = dy * scales[number];
                terms[number] += dy * n;
                terms[lanes.vectors + number] += dy;
                sum += vector_sum(g);
                dot += vector_sum(g * n);
                normalized[number] = n;
                scaled[number] = g;
            }
        }
        let sum = Vector::<f32, N>::new(over_lanes(sum, false, lanes) / elements);
        let dot = Vector::<f32, N>::new(over_lanes(dot, false, lanes) / elements);
        #[unroll]
        for number in 0..lanes.vectors {
            let i = UNIT_POS_X as usize + number * lanes.count as usize;
            if i < end {
                let value = (scaled[number] - sum - normalized[number] * dot) * Vector::new(r);
                d_h[start + i] = value;
                if comptime!(has_terms) {
                    let d_term = value * factors::<N>(&mask, (start + i) * N::value());
                    d_x[start + i] = Vector::cast_from(d_term);
                    terms[2 * lanes.vectors + number] += d_term;
                }
            }
        }
    }
    // The cube's rows of lanes add their terms to shared memory one after another, so the order is fixed.
    let columns = comptime!(lanes.vectors * lanes.count as usize);
    let mut shared = Shared::<[Vector<f32, N>]>::new_slice(comptime!(parameters * columns));
    let rows_of_cube = lanes.rows();
    for turn in 0..rows_of_cube {
        if UNIT_POS_Y == turn {
            #[unroll]
            for parameter in 0..parameters {
                #[unroll]
                for number in 0..lanes.vectors {
                    let i = UNIT_POS_X as usize + number * lanes.count as usize;
                    let mut sum = terms[parameter * lanes.vectors + number];
                    if turn > 0 {
                        sum += shared[parameter * columns + i];
                    }
                    if turn + 1 == rows_of_cube {
                        if i < width && CUBE_POS * (TIMES * rows_of_cube as usize) * width < h.len() {
                            sums[(CUBE_POS * parameters + parameter) * width + i] = sum;
                        }
                    } else {
                        shared[parameter * columns + i] = sum;
                    }
                }
            }
        }
        sync_cube();
    }
}
