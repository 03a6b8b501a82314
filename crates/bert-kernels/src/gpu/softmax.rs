//! The softmax of attention on a GPU: `y = dropout(p)`, `p = softmax(scale s + bias)`; backward, with `dp = m dy`,
//! `ds = scale p (dp - sum(p dp))`.
//!
//! s holds the products of queries and keys, `[batch, heads, seq, seq]`, flat. The bias has one number per key and row
//! of the batch and is a constant to autodiff. One cube computes one row of scores; only p is saved for the backward
//! pass.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::dropout::{arguments, factor};
use super::{UNITS, apply, cube_max, cube_sum, empty_like, into_contiguous, len, one_cube_per_row};
use crate::arguments::Kernels;
use crate::cpu::dropout_mask::Dropout;
use crate::fused_op::Fused;

/// Returns the probabilities after dropout of flat scores, if the scores are on a GPU.
///
/// # Shapes
/// - scores and output: `[batch * heads * seq * seq]`
/// - bias: `[batch * seq]`
pub(crate) fn softmax(
    kernels: Kernels,
    scores: Tensor<1>,
    bias: Tensor<1>,
    (heads, seq): (usize, usize),
    scale: f64,
    dropout: Option<Dropout>,
) -> Option<Tensor<1>> {
    apply(kernels, Softmax { heads, seq, scale: scale as f32, dropout }, [scores, bias])
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Softmax {
    pub(super) heads: usize,
    pub(super) seq: usize,
    pub(super) scale: f32,
    pub(super) dropout: Option<Dropout>,
}

impl Fused<2, Cube> for Softmax {
    /// The probabilities before dropout.
    type Saved = CubeTensor;

    fn forward(&self, inputs: [CubeTensor; 2]) -> (CubeTensor, CubeTensor) {
        let [scores, bias] = inputs.map(into_contiguous);
        let (p, y) = (empty_like(&scores, len(&scores)), empty_like(&scores, len(&scores)));
        let (count, dim) = one_cube_per_row(len(&scores) / self.seq);
        let [key_low, key_high, threshold, skip] = arguments(self.dropout);
        forward_kernel::launch(
            &y.client,
            count,
            dim,
            scores.into_buffer_arg(),
            bias.into_buffer_arg(),
            p.clone().into_buffer_arg(),
            y.clone().into_buffer_arg(),
            self.heads,
            self.seq,
            self.scale,
            key_low,
            key_high,
            threshold,
            self.dropout.map_or(1.0, |dropout| dropout.parts().3),
            skip,
        );
        (y, p)
    }

    fn backward(self, p: CubeTensor, gradient: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let gradient = into_contiguous(gradient);
        let d_scores = empty_like(&p, len(&p));
        let (count, dim) = one_cube_per_row(len(&p) / self.seq);
        let [key_low, key_high, threshold, skip] = arguments(self.dropout);
        backward_kernel::launch(
            &d_scores.client,
            count,
            dim,
            p.into_buffer_arg(),
            gradient.into_buffer_arg(),
            d_scores.clone().into_buffer_arg(),
            self.seq,
            self.scale,
            key_low,
            key_high,
            threshold,
            self.dropout.map_or(1.0, |dropout| dropout.parts().3),
            skip,
        );
        [Some(d_scores), None]
    }
}

#[cube(launch)]
fn forward_kernel(
    scores: &[f32],
    bias: &[f32],
    p: &mut [f32],
    y: &mut [f32],
    heads: usize,
    seq: usize,
    scale: f32,
    key_low: u32,
    key_high: u32,
    threshold: u32,
    dropout_scale: f32,
    skip: u32,
) {
    let start = CUBE_POS * seq;
    if start >= scores.len() {
        terminate!();
    }
    let keys = CUBE_POS / (heads * seq) * seq;
    // The minimum f32, rounded up: below every score.
    let mut max_score = f32::new(-3.4e38);
    let mut i = UNIT_POS as usize;
    while i < seq {
        max_score = max(max_score, scores[start + i] * scale + bias[keys + i]);
        i += UNITS as usize;
    }
    let max_score = cube_max(max_score);
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < seq {
        let e = (scores[start + i] * scale + bias[keys + i] - max_score).exp();
        p[start + i] = e;
        sum += e;
        i += UNITS as usize;
    }
    let inverse = 1.0 / cube_sum(sum);
    let mut i = UNIT_POS as usize;
    while i < seq {
        let value = p[start + i] * inverse;
        p[start + i] = value;
        y[start + i] = value * factor(key_low, key_high, threshold, dropout_scale, start + i + skip as usize);
        i += UNITS as usize;
    }
}

#[cube(launch)]
fn backward_kernel(
    p: &[f32],
    gradient: &[f32],
    d_scores: &mut [f32],
    seq: usize,
    scale: f32,
    key_low: u32,
    key_high: u32,
    threshold: u32,
    dropout_scale: f32,
    skip: u32,
) {
    let start = CUBE_POS * seq;
    if start >= p.len() {
        terminate!();
    }
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < seq {
        let d_p = gradient[start + i]
            * factor(key_low, key_high, threshold, dropout_scale, start + i + skip as usize);
        d_scores[start + i] = d_p;
        sum += p[start + i] * d_p;
        i += UNITS as usize;
    }
    let mean = cube_sum(sum);
    let mut i = UNIT_POS as usize;
    while i < seq {
        d_scores[start + i] = scale * p[start + i] * (d_scores[start + i] - mean);
        i += UNITS as usize;
    }
}
