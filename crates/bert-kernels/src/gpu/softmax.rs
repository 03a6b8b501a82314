//! The softmax of attention on a GPU: `y = dropout(p)`, `p = softmax(scale s + bias)`; backward, with `dp = m dy`,
//! `ds = scale p (dp - sum(p dp))`.
//!
//! The scores s are the products of queries and keys, `[batch, heads, seq, seq]`, stored flat in f32 or bf16;
//! sums are in f32. The bias has one number per key of each batch row and is a constant to autodiff. The
//! lanes of a row of scores keep its elements in registers; only p is saved for the backward pass.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::dropout::{Mask, factors, mask};
use super::lanes::{Lanes, over_lanes, vector_sum};
use super::{apply, element, empty_like, into_contiguous, len, vector_size};
use crate::arguments::{AttentionSettings, Kernels};
use crate::cpu::dropout_mask::Dropout;
use crate::fused_op::Fused;

/// Returns the probabilities after dropout, computed from flat scores; `None` if the scores are not on a GPU.
///
/// # Shapes
/// - scores and output: `[batch * heads * seq * seq]`
/// - bias: `[batch * seq]`
pub(crate) fn softmax(
    kernels: Kernels,
    scores: Tensor<1>,
    bias: Tensor<1>,
    seq: usize,
    settings: AttentionSettings,
) -> Option<Tensor<1>> {
    apply(kernels, Softmax::new(seq, settings), [scores, bias])
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Softmax {
    pub(super) heads: usize,
    pub(super) seq: usize,
    pub(super) scale: f32,
    pub(super) dropout: Option<Dropout>,
}

impl Softmax {
    pub(super) fn new(seq: usize, settings: AttentionSettings) -> Self {
        let AttentionSettings { heads, scale, dropout } = settings;
        Self { heads, seq, scale: scale as f32, dropout }
    }
}

impl Fused<2, Cube> for Softmax {
    /// The probabilities before dropout.
    type Saved = CubeTensor;

    fn forward(&self, inputs: [CubeTensor; 2]) -> (CubeTensor, CubeTensor) {
        let [scores, bias] = inputs.map(into_contiguous);
        let p = empty_like(&scores, len(&scores));
        let y = empty_like(&scores, len(&scores));
        let vector = vector_size(self.seq, &scores);
        let lanes = Lanes::new(&y.client, self.seq / vector);
        launch!(forward_kernel, &y.client, lanes.launch_size(len(&scores) / self.seq, 1), vector;
            scores.clone(), bias, p.clone(), y.clone();
            self.heads, self.seq, self.scale, mask(self.dropout), lanes, element(&scores));
        (y, p)
    }

    fn backward(self, p: CubeTensor, gradient: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let gradient = into_contiguous(gradient);
        let d_scores = empty_like(&p, len(&p));
        let vector = vector_size(self.seq, &p);
        let lanes = Lanes::new(&p.client, self.seq / vector);
        launch!(backward_kernel, &d_scores.client, lanes.launch_size(len(&p) / self.seq, 1), vector;
            p.clone(), gradient, d_scores.clone();
            self.seq, self.scale, mask(self.dropout), lanes, element(&p));
        [Some(d_scores), None]
    }
}

#[expect(clippy::too_many_arguments, reason = "four tensors, their sizes, and the mask")]
#[cube(launch)]
fn forward_kernel<E: Float, N: Size>(
    scores: &[Vector<E, N>],
    bias: &[Vector<f32, N>],
    p: &mut [Vector<E, N>],
    y: &mut [Vector<E, N>],
    heads: usize,
    seq: usize,
    scale: f32,
    mask: Mask,
    #[comptime] lanes: Lanes,
    #[define(E)] _element: ElemType,
) {
    let width = seq / N::value();
    let row = CUBE_POS * lanes.rows() as usize + UNIT_POS_Y as usize;
    let start = row * width;
    // Units after the last row have no elements, but they take part in the sums, which synchronize all units of the
    // cube.
    let end = if start < scores.len() { width } else { 0usize.runtime() };
    let keys = row / (heads * seq) * width;
    let mut values = Array::<Vector<f32, N>>::new(lanes.vectors);
    // About the smallest finite f32, which is below every score.
    let mut max_score = f32::new(-3.4e38);
    #[unroll]
    for number in 0..lanes.vectors {
        let i = UNIT_POS_X as usize + number * lanes.count as usize;
        let mut score = Vector::<f32, N>::new(0.0);
        if i < end {
            score = Vector::<f32, N>::cast_from(scores[start + i]) * Vector::new(scale) + bias[keys + i];
            #[unroll]
            for j in 0..N::value() {
                max_score = max(max_score, score.extract(j));
            }
        }
        values[number] = score;
    }
    let max_score = Vector::<f32, N>::new(over_lanes(max_score, true, lanes));
    let mut sum = 0.0f32;
    #[unroll]
    for number in 0..lanes.vectors {
        let value = (values[number] - max_score).exp();
        if UNIT_POS_X as usize + number * (lanes.count as usize) < end {
            sum += vector_sum(value);
        }
        values[number] = value;
    }
    let inverse = Vector::<f32, N>::new(1.0 / over_lanes(sum, false, lanes));
    #[unroll]
    for number in 0..lanes.vectors {
        let i = UNIT_POS_X as usize + number * lanes.count as usize;
        if i < end {
            let value = values[number] * inverse;
            p[start + i] = Vector::cast_from(value);
            y[start + i] = Vector::cast_from(value * factors::<N>(&mask, (start + i) * N::value()));
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "three tensors, their sizes, and the mask")]
#[cube(launch)]
fn backward_kernel<E: Float, N: Size>(
    p: &[Vector<E, N>],
    gradient: &[Vector<E, N>],
    d_scores: &mut [Vector<E, N>],
    seq: usize,
    scale: f32,
    mask: Mask,
    #[comptime] lanes: Lanes,
    #[define(E)] _element: ElemType,
) {
    let width = seq / N::value();
    let start = (CUBE_POS * lanes.rows() as usize + UNIT_POS_Y as usize) * width;
    // Units after the last row have no elements, but they take part in the sums, which synchronize all units of the
    // cube.
    let end = if start < p.len() { width } else { 0usize.runtime() };
    let mut values = Array::<Vector<f32, N>>::new(lanes.vectors);
    let mut gradients = Array::<Vector<f32, N>>::new(lanes.vectors);
    let mut sum = 0.0f32;
    #[unroll]
    for number in 0..lanes.vectors {
        let i = UNIT_POS_X as usize + number * lanes.count as usize;
        let mut value = Vector::<f32, N>::new(0.0);
        let mut d_p = Vector::<f32, N>::new(0.0);
        if i < end {
            value = Vector::cast_from(p[start + i]);
            d_p = Vector::<f32, N>::cast_from(gradient[start + i])
                * factors::<N>(&mask, (start + i) * N::value());
            sum += vector_sum(value * d_p);
        }
        values[number] = value;
        gradients[number] = d_p;
    }
    let mean = Vector::<f32, N>::new(over_lanes(sum, false, lanes));
    #[unroll]
    for number in 0..lanes.vectors {
        let i = UNIT_POS_X as usize + number * lanes.count as usize;
        if i < end {
            let d_score = values[number] * (gradients[number] - mean) * Vector::new(scale);
            d_scores[start + i] = Vector::cast_from(d_score);
        }
    }
}
