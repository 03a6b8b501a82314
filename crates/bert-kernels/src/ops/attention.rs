//! Multi-head attention: `context = dropout(softmax(q k' scale + bias)) v` for every head.
//!
//! This is section 3.2 of "Attention is all you need", with the reference's dropout on the probabilities. Queries,
//! keys, values and the context store their heads side by side in the last axis; the fused kernel reads and writes them
//! in this order, without transposed copies. The bias (0, or -10000 for padding) is a constant to autodiff. The fused
//! kernel computes self-attention with one bias per key. burn's own operations compute attention with a causal mask and
//! attention to a different sequence.
//!
//! One thread computes one row of the batch, one head at a time, with scores that stay in its cache. If there are more
//! threads than rows, a thread computes one head of one row. For each row of scores, the forward pass saves the maximum
//! and the inverse of the sum of exponentials. The backward pass recomputes the scores, the probabilities p and the
//! mask m: `dv = (p m)' dc`, `dp = (dc v') m`, `ds = p (dp - sum(p dp))`, `dq = scale ds k`, `dk = scale ds' q`.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, activation::softmax, assert_shape};
use rayon::prelude::*;

pub use crate::arguments::{AttentionOutput, AttentionSettings};
use crate::arguments::{Compute, Kernels, Precision};
use crate::cpu::buffer_pool;
use crate::cpu::buffer_pool::scratch;
use crate::cpu::dropout_mask::Dropout;
use crate::cpu::flex_slices::{buffer, contiguous, slice, tensor};
use crate::cpu::math::{dot, exp_to_88, map_sum, vectorized, zip_max};
use crate::fused_op::{Fused, Input, apply, fused_path};
use crate::matmul::matrix_view::{Gemm, Matrix, MatrixMut, Threads};
use crate::matmul::{MatmulContext, multiply};
use crate::ops::plain::matmul;

/// Returns the multi-head attention.
///
/// # Shapes
/// - query and output: `[batch, queries, hidden]`, `hidden` a multiple of `heads`
/// - key, value: `[batch, keys, hidden]`
/// - bias: `[batch or 1, 1, queries or 1, keys]`
pub fn attention(
    compute: Compute,
    [query, key, value]: [Tensor<3>; 3],
    bias: Tensor<4>,
    settings: AttentionSettings,
) -> Tensor<3> {
    let AttentionSettings { heads, scale, dropout } = settings;
    let [batch, queries, hidden] = query.dims();
    let keys = key.dims()[1];
    assert_shape!(key, [batch, keys, hidden]);
    assert_shape!(value, [batch, keys, hidden]);
    assert_eq!(hidden % heads, 0, "{hidden} is not a multiple of {heads} heads");
    let fused = fused_path(compute, &[&query, &key, &value, &bias]);
    match fused.filter(|_| queries == keys && bias.dims() == [batch, 1, 1, keys]) {
        Some(path) => {
            let bias = contiguous(Input::from(bias).into_primitive());
            let operation =
                Attention { bias, heads, scale: scale as f32, dropout, precision: compute.precision };
            apply(operation, path, [query.into(), key.into(), value.into()])
        }
        None => plain(compute, [query, key, value], bias, settings).context,
    }
}

/// Computes [`attention()`] with burn's own operations. Returns the probabilities as well.
///
/// # Shapes
/// - inputs: same as [`attention()`]
/// - output: see [`AttentionOutput`]
pub fn plain(
    compute: Compute,
    [query, key, value]: [Tensor<3>; 3],
    bias: Tensor<4>,
    settings: AttentionSettings,
) -> AttentionOutput {
    let heads = settings.heads;
    let [batch, queries, hidden] = query.dims();
    let split = |x: Tensor<3>| {
        let seq = x.dims()[1];
        x.reshape([batch, seq, heads, hidden / heads]) // [batch, seq, heads, head_dim]
            .swap_dims(1, 2) // [batch, heads, seq, head_dim]
    };
    let query = split(query);
    let key = split(key);
    let value = split(value);
    let scores = matmul(compute.precision, query, key.transpose()); // [batch, heads, queries, keys]
    let probabilities = probabilities(compute.kernels, scores, bias, settings);
    let context = matmul(compute.precision, probabilities.clone(), value) // [batch, heads, queries, head_dim]
        .swap_dims(1, 2) // [batch, queries, heads, head_dim]
        .reshape([batch, queries, hidden]); // [batch, queries, hidden]
    AttentionOutput { context, probabilities }
}

/// Returns `dropout(softmax(scores scale + bias))`, by burn's operations or by the GPU kernels.
fn probabilities(
    kernels: Kernels,
    scores: Tensor<4>,
    bias: Tensor<4>,
    settings: AttentionSettings,
) -> Tensor<4> {
    #[cfg(feature = "cubecl")]
    if scores.dims()[2] == scores.dims()[3] && bias.dims() == [scores.dims()[0], 1, 1, scores.dims()[3]] {
        let seq = scores.dims()[2];
        let flat = (scores.clone().flatten(0, 3), bias.clone().flatten(0, 3));
        if let Some(y) = crate::gpu::softmax::softmax(kernels, flat.0, flat.1, seq, settings) {
            return y.reshape(scores.shape());
        }
    }
    #[cfg(not(feature = "cubecl"))]
    let _ = kernels;
    crate::ops::dropout::plain(softmax(scores.mul_scalar(settings.scale) + bias, 3), settings.dropout)
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
    head_dim: usize,
}

impl Sizes {
    /// Returns the columns of one head in a matrix `[seq, hidden]`.
    fn head(self, x: &[f32], head: usize) -> Matrix<'_> {
        Matrix::rows(&x[head * self.head_dim..], self.hidden)
    }
}

/// One row of the batch: its index, and its queries, keys and values, `[seq, hidden]` each.
#[derive(Clone, Copy)]
pub(crate) struct BatchRow<'a> {
    pub(crate) batch: usize,
    pub(crate) sizes: Sizes,
    pub(crate) qkv: [&'a [f32]; 3],
}

/// Values of one row of scores that the forward pass saves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SoftmaxStatistics {
    max: f32,
    /// The inverse of the sum of exponentials.
    inverse_sum: f32,
}

impl Attention {
    pub(crate) fn sizes(&self, seq: usize, hidden: usize) -> Sizes {
        Sizes { seq, hidden, head_dim: hidden / self.heads }
    }

    /// Returns empty statistics for every row of scores, which [`Self::row_forward`] fills.
    pub(crate) fn statistics(&self, batch: usize, seq: usize) -> Vec<SoftmaxStatistics> {
        vec![SoftmaxStatistics::default(); batch * self.heads * seq]
    }

    /// Returns the biases of the keys in a row of the batch.
    fn bias(&self, row: BatchRow) -> &[f32] {
        let seq = row.sizes.seq;
        &slice(&self.bias)[row.batch * seq..(row.batch + 1) * seq]
    }

    /// Computes `q k'` of one head.
    fn scores(&self, row: BatchRow, head: usize, scores: &mut [f32]) {
        let Sizes { seq, head_dim, .. } = row.sizes;
        let ctx = MatmulContext::new(self.precision, Threads::One);
        let [query, key, _] = row.qkv.map(|x| row.sizes.head(x, head));
        let sizes = Gemm { m: seq, n: seq, k: head_dim };
        multiply(ctx, sizes, MatrixMut::new(scores, seq), query, key.transposed());
    }

    /// Returns whether there are more threads than rows of the batch.
    pub(crate) fn threads_to_spare(&self, seq: usize) -> bool {
        rayon::current_num_threads() > slice(&self.bias).len() / seq
    }

    /// Returns the index of the first element of a head's probabilities, for the dropout mask.
    fn first(&self, row: BatchRow, head: usize) -> usize {
        (row.batch * self.heads + head) * row.sizes.seq * row.sizes.seq
    }
}

impl Fused<3> for Attention {
    /// Queries, keys, values, and the statistics of each row of scores.
    type Saved = ([FlexTensor; 3], Vec<SoftmaxStatistics>);

    fn forward(&self, inputs: [FlexTensor; 3]) -> (FlexTensor, Self::Saved) {
        let inputs = inputs.map(contiguous);
        let shape = inputs[0].layout().shape().clone();
        let sizes @ Sizes { seq, hidden, .. } = self.sizes(shape[1], shape[2]);
        let mut context = buffer(shape.num_elements());
        let mut statistics = self.statistics(shape[0], seq);
        let chunk = seq * hidden;
        context
            .par_chunks_mut(chunk)
            .zip(statistics.par_chunks_mut(self.heads * seq))
            .enumerate()
            .for_each_init(
                || RowScratch::new(seq),
                |scratch, (batch, (context, statistics))| {
                    let qkv = inputs.each_ref().map(|x| &slice(x)[batch * chunk..(batch + 1) * chunk]);
                    self.row_forward(BatchRow { batch, sizes, qkv }, statistics, context, scratch);
                },
            );
        (tensor(context, shape), (inputs, statistics))
    }

    fn backward(
        self,
        (inputs, statistics): Self::Saved,
        gradient: FlexTensor,
        _: [bool; 3],
    ) -> [Option<FlexTensor>; 3] {
        let gradient = contiguous(gradient);
        let shape = inputs[0].layout().shape().clone();
        let sizes @ Sizes { seq, hidden, .. } = self.sizes(shape[1], shape[2]);
        let mut outputs: [Vec<f32>; 3] = std::array::from_fn(|_| buffer(shape.num_elements()));
        let chunk = seq * hidden;
        let [query, key, value] = outputs.each_mut().map(|output| output.par_chunks_mut(chunk));
        query.zip(key).zip(value).zip(statistics.par_chunks(self.heads * seq)).enumerate().for_each_init(
            || RowScratch::new(seq),
            |scratch, (batch, (((query, key), value), statistics))| {
                let part = batch * chunk..(batch + 1) * chunk;
                let qkv = inputs.each_ref().map(|x| &slice(x)[part.clone()]);
                let gradient = &slice(&gradient)[part];
                let row = BatchRow { batch, sizes, qkv };
                self.row_backward(row, statistics, gradient, [query, key, value], scratch);
            },
        );
        outputs.map(|values| Some(tensor(values, shape.clone())))
    }
}

/// Copies heads stored one after the other, `[heads, seq, head_dim]`, side by side into `[seq, hidden]`.
fn concatenate_heads(Sizes { seq, hidden, head_dim }: Sizes, heads: &[f32], all: &mut [f32]) {
    for (head, part) in heads.chunks_exact(seq * head_dim).enumerate() {
        for (row, all) in part.chunks_exact(head_dim).zip(all.chunks_exact_mut(hidden)) {
            all[head * head_dim..(head + 1) * head_dim].copy_from_slice(row);
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
    /// Computes the context of one row of the batch, and the statistics of each head and query.
    pub(crate) fn row_forward(
        &self,
        row: BatchRow,
        statistics: &mut [SoftmaxStatistics],
        context: &mut [f32],
        scratch: &mut RowScratch,
    ) {
        let Sizes { seq, hidden, head_dim } = row.sizes;
        if self.threads_to_spare(seq) {
            let mut parts = buffer_pool::scratch(context.len());
            statistics
                .par_chunks_exact_mut(seq)
                .zip(parts.par_chunks_exact_mut(seq * head_dim))
                .enumerate()
                .for_each_init(
                    || RowScratch::new(seq),
                    |scratch, (head, (statistics, part))| {
                        self.head_forward(row, head, statistics, MatrixMut::new(part, head_dim), scratch);
                    },
                );
            concatenate_heads(row.sizes, &parts, context);
            return;
        }
        for (head, statistics) in statistics.chunks_exact_mut(seq).enumerate() {
            let context = MatrixMut::new(&mut context[head * head_dim..], hidden);
            self.head_forward(row, head, statistics, context, scratch);
        }
    }

    /// Computes one head of [`Self::row_forward`].
    fn head_forward(
        &self,
        row: BatchRow,
        head: usize,
        statistics: &mut [SoftmaxStatistics],
        context: MatrixMut,
        scratch: &mut RowScratch,
    ) {
        let Sizes { seq, head_dim, .. } = row.sizes;
        let RowScratch { probabilities: scores, words, .. } = scratch;
        self.scores(row, head, scores);
        softmax_rows(scores, self.scale, self.bias(row), statistics);
        if let Some(dropout) = self.dropout {
            dropout.apply(scores, self.first(row, head), words);
        }
        let ctx = MatmulContext::new(self.precision, Threads::One);
        let scores = Matrix::rows(scores, seq);
        let value = row.sizes.head(row.qkv[2], head);
        multiply(ctx, Gemm { m: seq, n: head_dim, k: seq }, context, scores, value);
    }

    /// Computes the gradients of the row's queries, keys and values; `gradient` is the gradient of the row's context.
    pub(crate) fn row_backward(
        &self,
        row: BatchRow,
        statistics: &[SoftmaxStatistics],
        gradient: &[f32],
        outputs: [&mut [f32]; 3],
        scratch: &mut RowScratch,
    ) {
        let Sizes { seq, hidden, head_dim } = row.sizes;
        if self.threads_to_spare(seq) {
            let mut parts: [_; 3] = std::array::from_fn(|_| buffer_pool::scratch(seq * hidden));
            let [query, key, value] = parts.each_mut().map(|part| part.par_chunks_exact_mut(seq * head_dim));
            statistics.par_chunks_exact(seq).zip(query.zip(key).zip(value)).enumerate().for_each_init(
                || RowScratch::new(seq),
                |scratch, (head, (statistics, ((query, key), value)))| {
                    let outputs = [query, key, value].map(|d| MatrixMut::new(d, head_dim));
                    self.head_backward(row, head, statistics, gradient, outputs, scratch);
                },
            );
            for (parts, whole) in parts.iter().zip(outputs) {
                concatenate_heads(row.sizes, parts, whole);
            }
            return;
        }
        let mut outputs = outputs.map(|d| MatrixMut::new(d, hidden));
        for (head, statistics) in statistics.chunks_exact(seq).enumerate() {
            let outputs = outputs.each_mut().map(|d| d.starting_at(head * head_dim));
            self.head_backward(row, head, statistics, gradient, outputs, scratch);
        }
    }

    /// Computes one head of [`Self::row_backward`].
    fn head_backward(
        &self,
        row: BatchRow,
        head: usize,
        statistics: &[SoftmaxStatistics],
        gradient: &[f32],
        [d_query, d_key, d_value]: [MatrixMut; 3],
        scratch: &mut RowScratch,
    ) {
        let Sizes { seq, head_dim, .. } = row.sizes;
        let [query, key, value] = row.qkv.map(|x| row.sizes.head(x, head));
        let context = row.sizes.head(gradient, head);
        let ctx = MatmulContext::new(self.precision, Threads::One);
        let scores_sizes = Gemm { m: seq, n: seq, k: head_dim };
        let sizes = Gemm { m: seq, n: head_dim, k: seq };
        let RowScratch { probabilities, dropped, gradient: d_scores, words } = scratch;
        self.scores(row, head, probabilities);
        probabilities_rows(probabilities, self.scale, self.bias(row), statistics);

        let first = self.first(row, head);
        let used: &[f32] = match self.dropout {
            Some(dropout) => {
                dropped.copy_from_slice(probabilities);
                dropout.apply(dropped, first, words);
                dropped
            }
            None => probabilities,
        };
        multiply(ctx, sizes, d_value, Matrix::rows(used, seq).transposed(), context);

        let scores = MatrixMut::new(d_scores, seq);
        multiply(ctx, scores_sizes, scores, context, value.transposed());
        if let Some(dropout) = self.dropout {
            // `words` still contains the mask of the probabilities, which also applies to their gradient.
            dropout.apply_words(d_scores, first, words);
        }
        softmax_backward_rows(probabilities, d_scores, self.scale, seq);

        let d_scores = Matrix::rows(d_scores, seq);
        multiply(ctx, sizes, d_query, d_scores, key);
        multiply(ctx, sizes, d_key, d_scores.transposed(), query);
    }
}

vectorized! {
    /// Computes the softmax of each row of `scores scale + bias`, and its statistics.
    fn softmax_rows(scores: &mut [f32], scale: f32, bias: &[f32], statistics: &mut [SoftmaxStatistics]) {
        for (scores, row) in scores.chunks_exact_mut(bias.len()).zip(statistics) {
            let max = zip_max(scores, bias, |score, bias| score.mul_add(scale, bias));
            let inverse_sum = 1.0 / map_sum(scores, |score| exp_to_88(score - max));
            for score in scores.iter_mut() {
                *score *= inverse_sum;
            }
            *row = SoftmaxStatistics { max, inverse_sum };
        }
    }
}

vectorized! {
    /// Recomputes the result of [`softmax_rows`] from its statistics.
    fn probabilities_rows(scores: &mut [f32], scale: f32, bias: &[f32], statistics: &[SoftmaxStatistics]) {
        for (scores, row) in scores.chunks_exact_mut(bias.len()).zip(statistics) {
            for (score, bias) in scores.iter_mut().zip(bias) {
                *score = exp_to_88(score.mul_add(scale, *bias) - row.max) * row.inverse_sum;
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
            // Subtract the mean of the remainder too. Its rounding errors would otherwise add up over the rows in the
            // gradient of the keys' bias, which is zero in exact arithmetic.
            let rest = dot(p, gradient);
            for (p, gradient) in p.iter().zip(gradient) {
                *gradient = p * (*gradient - rest) * scale;
            }
        }
    }
}
