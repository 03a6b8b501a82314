//! The softmax of attention on a GPU: `y = dropout(p)`, `p = softmax(scale s + bias)`; backward, with `dp = m dy`,
//! `ds = scale p (dp - sum(p dp))`.
//!
//! s holds the products of queries and keys, `[batch, heads, seq, seq]`, flat. The bias has one number for each key
//! of each row of the batch and is a constant. One cube computes one row of scores; only p is kept. The matrix
//! products before and after it are burn's.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::dropout::{arguments, factor};
use super::{UNITS, apply, cube_max, cube_sum, empty_like, in_order, len, one_cube_each};
use crate::compute::Kernels;
use crate::dropout::Dropout;
use crate::extension::Fused;

/// Probabilities after dropout of flat scores, if they are on a GPU.
///
/// # Shapes
///
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
struct Softmax {
    heads: usize,
    seq: usize,
    scale: f32,
    dropout: Option<Dropout>,
}

impl Fused<2, Cube> for Softmax {
    /// The probabilities before dropout.
    type Saved = CubeTensor;

    fn forward(&self, inputs: [CubeTensor; 2]) -> (CubeTensor, CubeTensor) {
        let [scores, bias] = inputs.map(in_order);
        let (p, y) = (empty_like(&scores, len(&scores)), empty_like(&scores, len(&scores)));
        let (count, dim) = one_cube_each(len(&scores) / self.seq);
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
        let gradient = in_order(gradient);
        let d_scores = empty_like(&p, len(&p));
        let (count, dim) = one_cube_each(len(&p) / self.seq);
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
    // Below every score that f32 can hold.
    let mut greatest = f32::new(-3.4e38);
    let mut i = UNIT_POS as usize;
    while i < seq {
        greatest = max(greatest, scores[start + i] * scale + bias[keys + i]);
        i += UNITS as usize;
    }
    let greatest = cube_max(greatest);
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < seq {
        let e = (scores[start + i] * scale + bias[keys + i] - greatest).exp();
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
