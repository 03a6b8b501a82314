//! The softmax of attention on a GPU: `y = dropout(p)`, `p = softmax(scale s + bias)`; backward, with `dp = m dy`,
//! `ds = scale p (dp - sum(p dp))`.
//!
//! s holds the products of queries and keys, `[batch, heads, seq, seq]`, flat, in f32 or bf16; sums are in f32. The bias
//! has one number per key and row of the batch and is a constant to autodiff. [`LANES`] units compute one row of scores;
//! only p is saved for the backward pass.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::dropout::{arguments, factor};
use super::{UNITS, apply, element, empty_like, into_contiguous, len, one_cube_per_row, vector_size};
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
        let p = empty_like(&scores, len(&scores));
        let y = empty_like(&scores, len(&scores));
        let (count, dim) = lanes_per_row(len(&scores) / self.seq);
        let [key_low, key_high, threshold, skip] = arguments(self.dropout);
        forward_kernel::launch(
            &y.client,
            count,
            dim,
            vector_size(self.seq),
            scores.clone().into_buffer_arg(),
            bias.into_buffer_arg(),
            p.clone().into_buffer_arg(),
            y.clone().into_buffer_arg(),
            self.heads,
            self.seq,
            self.scale,
            key_low,
            key_high,
            threshold,
            self.dropout_scale(),
            skip,
            element(&scores),
        );
        (y, p)
    }

    fn backward(self, p: CubeTensor, gradient: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let gradient = into_contiguous(gradient);
        let d_scores = empty_like(&p, len(&p));
        let (count, dim) = lanes_per_row(len(&p) / self.seq);
        let [key_low, key_high, threshold, skip] = arguments(self.dropout);
        backward_kernel::launch(
            &d_scores.client,
            count,
            dim,
            vector_size(self.seq),
            p.clone().into_buffer_arg(),
            gradient.into_buffer_arg(),
            d_scores.clone().into_buffer_arg(),
            self.seq,
            self.scale,
            key_low,
            key_high,
            threshold,
            self.dropout_scale(),
            skip,
            element(&p),
        );
        [Some(d_scores), None]
    }
}

impl Softmax {
    fn dropout_scale(&self) -> f32 {
        self.dropout.map_or(1.0, |dropout| dropout.parts().3)
    }
}

/// Units of a row.
const LANES: u32 = 32;

/// Rows of a cube.
const ROWS: u32 = UNITS / LANES;

/// Returns the launch size with [`LANES`] units for each of `count` rows.
fn lanes_per_row(count: usize) -> (CubeCount, CubeDim) {
    let (cubes, _) = one_cube_per_row(count.div_ceil(ROWS as usize));
    (cubes, CubeDim::new_2d(LANES, ROWS))
}

/// Returns the sum or the maximum over the units of a row.
#[cube]
fn over_lanes(value: f32, #[comptime] maximum: bool) -> f32 {
    let mut shared = Shared::<[f32]>::new_slice(UNITS as usize);
    let unit = UNIT_POS as usize;
    shared[unit] = value;
    sync_cube();
    let mut half = (LANES as usize / 2).runtime();
    while half > 0 {
        if (UNIT_POS_X as usize) < half {
            let other = shared[unit + half];
            if maximum {
                shared[unit] = max(shared[unit], other);
            } else {
                shared[unit] += other;
            }
        }
        sync_cube();
        half /= 2;
    }
    shared[unit - UNIT_POS_X as usize]
}

/// Returns the factors of `N` adjacent elements.
#[cube]
fn factors<N: Size>(
    key_low: u32,
    key_high: u32,
    threshold: u32,
    dropout_scale: f32,
    first: usize,
) -> Vector<f32, N> {
    let mut factors = Vector::<f32, N>::empty();
    #[unroll]
    for i in 0..N::value() {
        factors.insert(i, factor(key_low, key_high, threshold, dropout_scale, first + i));
    }
    factors
}

/// Returns the sum of the elements of a vector.
#[cube]
fn vector_sum<N: Size>(x: Vector<f32, N>) -> f32 {
    let mut sum = 0.0f32;
    #[unroll]
    for i in 0..N::value() {
        sum += x.extract(i);
    }
    sum
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
    key_low: u32,
    key_high: u32,
    threshold: u32,
    dropout_scale: f32,
    skip: u32,
    #[define(E)] _element: ElemType,
) {
    let vectors = seq / N::value();
    let row = CUBE_POS * ROWS as usize + UNIT_POS_Y as usize;
    let start = row * vectors;
    // Units after the last row still take part in the sums of their cube.
    let end = if start < scores.len() { vectors } else { 0usize.runtime() };
    let keys = row / (heads * seq) * vectors;
    let scales = Vector::<f32, N>::new(scale);
    // The minimum f32, rounded up: below every score.
    let mut max_score = f32::new(-3.4e38);
    let mut i = UNIT_POS_X as usize;
    while i < end {
        let score = Vector::<f32, N>::cast_from(scores[start + i]) * scales + bias[keys + i];
        #[unroll]
        for j in 0..N::value() {
            max_score = max(max_score, score.extract(j));
        }
        i += LANES as usize;
    }
    let max_score = Vector::<f32, N>::new(over_lanes(max_score, true));
    let mut sum = 0.0f32;
    let mut i = UNIT_POS_X as usize;
    while i < end {
        let score = Vector::<f32, N>::cast_from(scores[start + i]) * scales + bias[keys + i];
        sum += vector_sum((score - max_score).exp());
        i += LANES as usize;
    }
    let inverse = Vector::<f32, N>::new(1.0 / over_lanes(sum, false));
    let mut i = UNIT_POS_X as usize;
    while i < end {
        let score = Vector::<f32, N>::cast_from(scores[start + i]) * scales + bias[keys + i];
        let value = (score - max_score).exp() * inverse;
        let first = (start + i) * N::value() + skip as usize;
        p[start + i] = Vector::cast_from(value);
        y[start + i] =
            Vector::cast_from(value * factors::<N>(key_low, key_high, threshold, dropout_scale, first));
        i += LANES as usize;
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
    key_low: u32,
    key_high: u32,
    threshold: u32,
    dropout_scale: f32,
    skip: u32,
    #[define(E)] _element: ElemType,
) {
    let vectors = seq / N::value();
    let start = (CUBE_POS * ROWS as usize + UNIT_POS_Y as usize) * vectors;
    // Units after the last row still take part in the sums of their cube.
    let end = if start < p.len() { vectors } else { 0usize.runtime() };
    let mut sum = 0.0f32;
    let mut i = UNIT_POS_X as usize;
    while i < end {
        let first = (start + i) * N::value() + skip as usize;
        let d_p = Vector::<f32, N>::cast_from(gradient[start + i])
            * factors::<N>(key_low, key_high, threshold, dropout_scale, first);
        sum += vector_sum(Vector::<f32, N>::cast_from(p[start + i]) * d_p);
        i += LANES as usize;
    }
    let mean = Vector::<f32, N>::new(over_lanes(sum, false));
    let mut i = UNIT_POS_X as usize;
    while i < end {
        let first = (start + i) * N::value() + skip as usize;
        let d_p = Vector::<f32, N>::cast_from(gradient[start + i])
            * factors::<N>(key_low, key_high, threshold, dropout_scale, first);
        let value = Vector::<f32, N>::cast_from(p[start + i]);
        d_scores[start + i] = Vector::cast_from(value * (d_p - mean) * Vector::new(scale));
        i += LANES as usize;
    }
}
