//! Multi-head attention: `context = dropout(softmax(q k' scale + bias)) v` for every head.
//!
//! This is section 3.2 of "Attention is all you need", with the reference's dropout on the probabilities. Queries,
//! keys, values and the context store their heads side by side in the last axis; the fused kernel does not split, merge
//! or transpose them in memory. The bias has one number per key (0, or -10000 for padding) and is a constant to
//! autodiff. Causal masks and cross attention are not supported.
//!
//! One thread computes one row of the batch, one head at a time, with scores that stay in its cache. If there are more
//! threads than rows, it computes one head of one row. The forward pass saves the maximum of each row of scores and the
//! inverse of its sum of exponentials. The backward pass recomputes the scores, the probabilities p and the mask m:
//! `dv = (p m)' dc`, `dp = (dc v') m`, `ds = p (dp - sum(p dp))`, `dq = scale ds k`, `dk = scale ds' q`.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, activation::softmax, assert_shape};
use rayon::prelude::*;

use crate::compute::{Compute, Kernels, Precision};
use crate::cpu::buffer_pool;
use crate::cpu::buffer_pool::scratch;
use crate::cpu::dropout_mask::Dropout;
use crate::cpu::flex_slices::{buffer, contiguous, slice, tensor};
use crate::cpu::math::{dot, exp_to_88, map_sum, vectorized, zip_max};
use crate::fused_op::{Fused, Input, apply, fused_path, tensor_backend};
use crate::matmul::matrix_view::{Matrix, Threads};
use crate::matmul::{MatmulContext, multiply};
use crate::ops::plain::matmul;

/// Returns the multi-head attention. `scale` multiplies the scores before the bias is added.
///
/// # Shapes
///
/// - query, key, value and output: `[batch, seq, hidden]`, `hidden` a multiple of `heads`
/// - bias: `[batch, 1, 1, seq]`
pub fn attention(
    compute: Compute,
    [query, key, value]: [Tensor<3>; 3],
    bias: Tensor<4>,
    heads: usize,
    scale: f64,
    dropout: Option<Dropout>,
) -> Tensor<3> {
    let [batch, seq, hidden] = query.dims();
    assert_shape!(key, [batch, seq, hidden]);
    assert_shape!(value, [batch, seq, hidden]);
    assert_shape!(bias, [batch, 1, 1, seq]);
    assert_eq!(hidden % heads, 0, "{hidden} is not a multiple of {heads} heads");
    match fused_path(
        compute,
        &[tensor_backend(&query), tensor_backend(&key), tensor_backend(&value), tensor_backend(&bias)],
    ) {
        Some(path) => {
            let bias = contiguous(Input::from(bias).into_flex());
            let operation =
                Attention { bias, heads, scale: scale as f32, dropout, precision: compute.precision };
            apply(operation, path, [query.into(), key.into(), value.into()])
        }
        None => plain(compute, [query, key, value], bias, heads, scale, dropout),
    }
}

/// Computes [`attention()`] with burn's own operations.
///
/// # Shapes
///
/// - same as [`attention()`]
pub fn plain(
    compute: Compute,
    [query, key, value]: [Tensor<3>; 3],
    bias: Tensor<4>,
    heads: usize,
    scale: f64,
    dropout: Option<Dropout>,
) -> Tensor<3> {
    let [batch, seq, hidden] = query.dims();
    let split = |x: Tensor<3>| {
        x.reshape([batch, seq, heads, hidden / heads]) // [batch, seq, heads, head_dim]
            .swap_dims(1, 2) // [batch, heads, seq, head_dim]
    };
    let (query, key, value) = (split(query), split(key), split(value));
    let scores = matmul(compute.precision, query, key.transpose()); // [batch, heads, seq, seq]
    let probabilities = probabilities(compute.kernels, scores, bias, scale, dropout);
    matmul(compute.precision, probabilities, value) // [batch, heads, seq, head_dim]
        .swap_dims(1, 2) // [batch, seq, heads, head_dim]
        .reshape([batch, seq, hidden]) // [batch, seq, hidden]
}

/// Returns `dropout(softmax(scores scale + bias))`, by burn's operations or by the GPU kernels.
fn probabilities(
    kernels: Kernels,
    scores: Tensor<4>,
    bias: Tensor<4>,
    scale: f64,
    dropout: Option<Dropout>,
) -> Tensor<4> {
    #[cfg(feature = "cubecl")]
    {
        let [_, heads, seq, _] = scores.dims();
        let flat = (scores.clone().flatten(0, 3), bias.clone().flatten(0, 3));
        if let Some(y) = crate::gpu::softmax::softmax(kernels, flat.0, flat.1, (heads, seq), scale, dropout) {
            return y.reshape(scores.shape());
        }
    }
    #[cfg(not(feature = "cubecl"))]
    let _ = kernels;
    crate::ops::dropout::plain(softmax(scores.mul_scalar(scale) + bias, 3), dropout)
}

#[derive(Clone, Debug)]
pub(crate) struct Attention {
    /// `[batch, 1, 1, seq]`
    pub(crate) bias: FlexTensor,
    pub(crate) heads: usize,
    pub(crate) scale: f32,
    pub(crate) dropout: Option<Dropout>,
    pub(crate) precision: Precision,
}

/// Sizes of one call.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) seq: usize,
    pub(crate) hidden: usize,
    head: usize,
}

impl Attention {
    pub(crate) fn sizes(&self, seq: usize, hidden: usize) -> Sizes {
        Sizes { seq, hidden, head: hidden / self.heads }
    }

    /// Computes `q k'` of one head.
    fn scores(&self, sizes: Sizes, query: &[f32], key: &[f32], scores: &mut [f32]) {
        let Sizes { seq, hidden, head } = sizes;
        let ctx = MatmulContext::new(self.precision, Threads::One);
        let (query, key) = (Matrix::rows(query, hidden), Matrix::rows(key, hidden).transposed());
        multiply(ctx, (seq, seq, head), (scores, seq), false, query, key);
    }

    /// Returns whether there are more threads than rows of the batch.
    pub(crate) fn threads_to_spare(&self, seq: usize) -> bool {
        rayon::current_num_threads() > slice(&self.bias).len() / seq
    }

    /// Returns the index of the first element of a head's probabilities, for the dropout mask.
    fn first(&self, seq: usize, batch: usize, head: usize) -> usize {
        (batch * self.heads + head) * seq * seq
    }
}

impl Fused<3> for Attention {
    /// Queries, keys, values, and the maximum and the inverse sum of each row of scores.
    type Saved = ([FlexTensor; 3], Vec<[f32; 2]>);

    fn forward(&self, inputs: [FlexTensor; 3]) -> (FlexTensor, Self::Saved) {
        let inputs = inputs.map(contiguous);
        let shape = inputs[0].layout().shape().clone();
        let sizes @ Sizes { seq, hidden, .. } = self.sizes(shape[1], shape[2]);
        let mut context = buffer(shape.num_elements());
        let mut rows = vec![[0.0; 2]; shape[0] * self.heads * seq];
        let chunk = seq * hidden;
        context.par_chunks_mut(chunk).zip(rows.par_chunks_mut(self.heads * seq)).enumerate().for_each_init(
            || RowScratch::new(seq),
            |scratch, (batch, (context, rows))| {
                let inputs = inputs.each_ref().map(|x| &slice(x)[batch * chunk..(batch + 1) * chunk]);
                self.row_forward(sizes, batch, inputs, rows, context, scratch);
            },
        );
        (tensor(context, shape), (inputs, rows))
    }

    fn backward(
        self,
        (inputs, rows): Self::Saved,
        gradient: FlexTensor,
        _: [bool; 3],
    ) -> [Option<FlexTensor>; 3] {
        let gradient = contiguous(gradient);
        let shape = inputs[0].layout().shape().clone();
        let sizes @ Sizes { seq, hidden, .. } = self.sizes(shape[1], shape[2]);
        let mut outputs: [Vec<f32>; 3] = std::array::from_fn(|_| buffer(shape.num_elements()));
        let [query, key, value] = &mut outputs;
        let chunk = seq * hidden;
        query
            .par_chunks_mut(chunk)
            .zip(key.par_chunks_mut(chunk))
            .zip(value.par_chunks_mut(chunk))
            .zip(rows.par_chunks(self.heads * seq))
            .enumerate()
            .for_each_init(
                || RowScratch::new(seq),
                |scratch, (batch, (((query, key), value), rows))| {
                    let part = batch * chunk..(batch + 1) * chunk;
                    let inputs = inputs.each_ref().map(|x| &slice(x)[part.clone()]);
                    let gradient = &slice(&gradient)[part];
                    self.row_backward(sizes, batch, inputs, rows, gradient, [query, key, value], scratch);
                },
            );
        outputs.map(|values| Some(tensor(values, shape.clone())))
    }
}

/// Copies heads stored one after the other, `[heads, seq, head]`, side by side into `[seq, hidden]`.
fn concatenate_heads(Sizes { seq, hidden, head }: Sizes, heads: &[f32], all: &mut [f32]) {
    for (index, part) in heads.chunks_exact(seq * head).enumerate() {
        for (row, all) in part.chunks_exact(head).zip(all.chunks_exact_mut(hidden)) {
            all[index * head..(index + 1) * head].copy_from_slice(row);
        }
    }
}

/// Scratch buffers: three score matrices of one head, and words of its mask.
pub(crate) struct RowScratch {
    probabilities: buffer_pool::Scratch,
    dropped: buffer_pool::Scratch,
    gradient: buffer_pool::Scratch,
    words: Vec<u64>,
}

impl RowScratch {
    pub(crate) fn new(seq: usize) -> Self {
        let square = || scratch(seq * seq);
        Self { probabilities: square(), dropped: square(), gradient: square(), words: Vec::new() }
    }
}

impl Attention {
    /// Computes one row of the batch; all slices belong to that row. Writes the maximum and the inverse sum for each
    /// head and query to `rows`.
    pub(crate) fn row_forward(
        &self,
        sizes: Sizes,
        batch: usize,
        inputs: [&[f32]; 3],
        rows: &mut [[f32; 2]],
        context: &mut [f32],
        scratch: &mut RowScratch,
    ) {
        let Sizes { seq, head, .. } = sizes;
        if self.threads_to_spare(seq) {
            let mut parts = buffer_pool::scratch(context.len());
            rows.par_chunks_exact_mut(seq)
                .zip(parts.par_chunks_exact_mut(seq * head))
                .enumerate()
                .for_each_init(
                    || RowScratch::new(seq),
                    |scratch, (index, (rows, part))| {
                        self.head_forward(sizes, (batch, index), inputs, rows, (part, head), scratch);
                    },
                );
            concatenate_heads(sizes, &parts, context);
            return;
        }
        for (index, rows) in rows.chunks_exact_mut(seq).enumerate() {
            let context = (&mut context[index * head..], sizes.hidden);
            self.head_forward(sizes, (batch, index), inputs, rows, context, scratch);
        }
    }

    /// Computes one head of [`Self::row_forward`]. `context` begins with the head's first element, and is strided.
    fn head_forward(
        &self,
        sizes: Sizes,
        (batch, index): (usize, usize),
        [query, key, value]: [&[f32]; 3],
        rows: &mut [[f32; 2]],
        context: (&mut [f32], usize),
        scratch: &mut RowScratch,
    ) {
        let Sizes { seq, hidden, head } = sizes;
        let at = index * head;
        let RowScratch { probabilities: scores, words, .. } = scratch;
        let bias = &slice(&self.bias)[batch * seq..(batch + 1) * seq];
        self.scores(sizes, &query[at..], &key[at..], scores);
        softmax_rows(scores, self.scale, bias, rows);
        if let Some(dropout) = self.dropout {
            dropout.apply(scores, self.first(seq, batch, index), words);
        }
        let ctx = MatmulContext::new(self.precision, Threads::One);
        let (scores, value) = (Matrix::rows(scores, seq), Matrix::rows(&value[at..], hidden));
        multiply(ctx, (seq, head, seq), context, false, scores, value);
    }

    /// Computes the gradients of [`Self::row_forward`].
    #[expect(clippy::too_many_arguments, reason = "three inputs, their gradients and the saved values")]
    pub(crate) fn row_backward(
        &self,
        sizes: Sizes,
        batch: usize,
        inputs: [&[f32]; 3],
        rows: &[[f32; 2]],
        gradient: &[f32],
        [d_query, d_key, d_value]: [&mut [f32]; 3],
        scratch: &mut RowScratch,
    ) {
        let Sizes { seq, hidden, head } = sizes;
        if self.threads_to_spare(seq) {
            let mut parts: [_; 3] = std::array::from_fn(|_| buffer_pool::scratch(seq * hidden));
            let [query, key, value] = parts.each_mut().map(|part| part.par_chunks_exact_mut(seq * head));
            rows.par_chunks_exact(seq).zip(query.zip(key).zip(value)).enumerate().for_each_init(
                || RowScratch::new(seq),
                |scratch, (index, (rows, ((query, key), value)))| {
                    let outputs = ([query, key, value], head);
                    self.head_backward(sizes, (batch, index), inputs, rows, gradient, outputs, scratch);
                },
            );
            for (parts, whole) in parts.iter().zip([d_query, d_key, d_value]) {
                concatenate_heads(sizes, parts, whole);
            }
            return;
        }
        for (index, rows) in rows.chunks_exact(seq).enumerate() {
            let outputs = [&mut *d_query, &mut *d_key, &mut *d_value].map(|d| &mut d[index * head..]);
            self.head_backward(sizes, (batch, index), inputs, rows, gradient, (outputs, hidden), scratch);
        }
    }

    /// Computes one head of [`Self::row_backward`]. The outputs begin with the head's first element, and are strided.
    #[expect(clippy::too_many_arguments, reason = "three inputs, their gradients and the saved values")]
    fn head_backward(
        &self,
        sizes: Sizes,
        (batch, index): (usize, usize),
        [query, key, value]: [&[f32]; 3],
        rows: &[[f32; 2]],
        gradient: &[f32],
        ([d_query, d_key, d_value], stride): ([&mut [f32]; 3], usize),
        scratch: &mut RowScratch,
    ) {
        let Sizes { seq, hidden, head } = sizes;
        let at = index * head;
        let (ctx, part) = (MatmulContext::new(self.precision, Threads::One), |x| Matrix::rows(x, hidden));
        let RowScratch { probabilities, dropped, gradient: d_scores, words } = scratch;
        self.scores(sizes, &query[at..], &key[at..], probabilities);
        let bias = &slice(&self.bias)[batch * seq..(batch + 1) * seq];
        probabilities_rows(probabilities, self.scale, bias, rows);

        let first = self.first(seq, batch, index);
        let used: &[f32] = match self.dropout {
            Some(dropout) => {
                dropped.copy_from_slice(probabilities);
                dropout.apply(dropped, first, words);
                dropped
            }
            None => probabilities,
        };
        let used = Matrix::rows(used, seq);
        let context = part(&gradient[at..]);
        multiply(ctx, (seq, head, seq), (d_value, stride), false, used.transposed(), context);

        let value = part(&value[at..]).transposed();
        multiply(ctx, (seq, seq, head), (&mut *d_scores, seq), false, context, value);
        if let Some(dropout) = self.dropout {
            // The mask words of the probabilities apply here too.
            dropout.apply_words(d_scores, first, words);
        }
        softmax_backward_rows(probabilities, d_scores, self.scale, seq);

        let d_scores = Matrix::rows(d_scores, seq);
        let (query, key) = (part(&query[at..]), part(&key[at..]));
        multiply(ctx, (seq, head, seq), (d_query, stride), false, d_scores, key);
        multiply(ctx, (seq, head, seq), (d_key, stride), false, d_scores.transposed(), query);
    }
}

vectorized! {
    /// Computes the softmax of each row of `scores scale + bias`; writes the maximum and the inverse sum to `rows`.
    fn softmax_rows(scores: &mut [f32], scale: f32, bias: &[f32], rows: &mut [[f32; 2]]) {
        for (scores, row) in scores.chunks_exact_mut(bias.len()).zip(rows) {
            let max = zip_max(scores, bias, |score, bias| score.mul_add(scale, bias));
            let inverse = 1.0 / map_sum(scores, |score| exp_to_88(score - max));
            for score in scores.iter_mut() {
                *score *= inverse;
            }
            *row = [max, inverse];
        }
    }
}

vectorized! {
    /// Recomputes the result of [`softmax_rows`] from the saved maximum and inverse sum.
    fn probabilities_rows(scores: &mut [f32], scale: f32, bias: &[f32], rows: &[[f32; 2]]) {
        for (scores, [max, inverse]) in scores.chunks_exact_mut(bias.len()).zip(rows) {
            for (score, bias) in scores.iter_mut().zip(bias) {
                *score = exp_to_88(score.mul_add(scale, *bias) - max) * inverse;
            }
        }
    }
}

vectorized! {
    /// Computes `scale ds = scale p (dp - sum(p dp))` of each row, in place of dp: the gradient of `q k'`.
    fn softmax_backward_rows(probabilities: &[f32], gradient: &mut [f32], scale: f32, seq: usize) {
        for (p, gradient) in probabilities.chunks_exact(seq).zip(gradient.chunks_exact_mut(seq)) {
            let mean = dot(p, gradient);
            gradient.iter_mut().for_each(|gradient| *gradient -= mean);
            // Rounding errors of the mean would add up over the rows in the gradient of the keys' bias, which is zero.
            let rest = dot(p, gradient);
            for (p, gradient) in p.iter().zip(gradient) {
                *gradient = p * (*gradient - rest) * scale;
            }
        }
    }
}
