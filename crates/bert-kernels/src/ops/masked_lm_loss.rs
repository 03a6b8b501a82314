//! The masked-LM loss: `nll_i = log(sum_v exp(z_iv)) - z_i,label_i`, `z = h E' + b`.
//!
//! h holds the transformed hidden states at the masked positions, E is the word embedding table and b the output bias;
//! the result is `-log p(label)` of each position. Ports `get_masked_lm_output` of the reference's
//! `run_pretraining.py`.
//!
//! The kernel processes the vocabulary in blocks of columns, whose logits stay in a core's L2 cache. The forward pass
//! replaces the logits of a block by `exp(z - max)`, where max is the row's maximum logit in that block, and computes
//! the log-sum-exp from the maxima and sums of the blocks. The backward pass turns each block into `dz = (softmax(z) -
//! onehot(label)) g`; it computes `dh = dz E`, `dE = dz' h` and `db = sum(dz)` from `dz`.
//!
//! The exponentials, the only `[n, vocab]` buffer, are saved for the backward pass. With bf16 tiles the logits are
//! recomputed instead, which takes less time than writing and reading the exponentials.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Int, Tensor, assert_shape};
use rayon::prelude::*;

use crate::arguments::{Compute, Precision};
use crate::cpu::buffer_pool::scratch;
use crate::cpu::flex_slices::{buffer, contiguous, indices, slice, tensor, width};
use crate::cpu::math::{exp_to_88, map_sum, max, vectorized};
use crate::cpu::row_blocks::{add, add_bias, add_rows};
use crate::fused_op::{Fused, apply, fused_path};
use crate::matmul::bf16::Operand;
use crate::matmul::matrix_view::{Gemm, Matrix, MatrixMut, Side, Threads};
use crate::matmul::processor::recomputes_logits;
use crate::matmul::{MatmulContext, SharedOperand, multiply};
use crate::ops::dense::transposed_product;
use crate::ops::embeddings::gather;
use crate::ops::plain::matrix_product;

/// Number of columns of one block: the logits of 640 masked positions (32 rows of 20) fill a core's L2 cache
/// of 1 MiB. BERT's vocabulary of 30,522 makes 80 blocks, two for each of the groups below.
pub(crate) const COLUMNS: usize = 384;
/// Maximum number of parts of the sum for `dh`, and maximum number of groups of each part, so that up to 64 threads
/// have work. With at most this many threads, each thread keeps the sum of only one group in addition to the sum of the
/// part.
const GROUPS: usize = 8;
/// Number of elements of such a sum that one task adds up.
const ADDED: usize = 1 << 12;

/// Returns `-log p(label)` of each row.
///
/// # Shapes
/// - transformed: `[n, hidden]`
/// - table: `[vocab, hidden]`; bias: `[vocab]`
/// - labels and output: `[n]`; `n` may be 0
pub fn masked_lm_nll(
    compute: Compute,
    transformed: Tensor<2>,
    table: Tensor<2>,
    bias: Tensor<1>,
    labels: Tensor<1, Int>,
) -> Tensor<1> {
    let [n, hidden] = transformed.dims();
    let [vocab] = bias.dims();
    assert_shape!(table, [vocab, hidden]);
    assert_shape!(labels, [n]);
    if n == 0 {
        return Tensor::zeros([0], &transformed.device());
    }
    match fused_path(compute, &[&transformed, &table, &bias]) {
        Some(path) => {
            let operation = MaskedLm { labels: indices(labels), precision: compute.precision };
            apply(operation, path, [transformed.into(), table.into(), bias.into()])
        }
        None => {
            #[cfg(feature = "cubecl")]
            if let Some(nll) =
                crate::gpu::masked_lm::masked_lm_nll(compute, &transformed, &table, &bias, &labels)
            {
                return nll;
            }
            plain(compute, transformed, table, bias, labels)
        }
    }
}

/// Computes [`masked_lm_nll`] with burn's own operations. The label's logit is computed as one dot product and is not
/// gathered from the `[n, vocab]` logits.
///
/// # Shapes
/// - same as [`masked_lm_nll`]
pub fn plain(
    compute: Compute,
    transformed: Tensor<2>,
    table: Tensor<2>,
    bias: Tensor<1>,
    labels: Tensor<1, Int>,
) -> Tensor<1> {
    let [n, _] = transformed.dims();
    let label_rows = gather(compute, table.clone(), labels.clone()); // [n, hidden]
    let label_bias = gather(compute, bias.clone().unsqueeze_dim(1), labels).reshape([n]); // [n]
    let label_logits = (transformed.clone() * label_rows).sum_dim(1).reshape([n]) + label_bias; // [n]
    let logits = matrix_product(compute, transformed, table.transpose()) + bias.unsqueeze::<2>(); // [n, vocab]
    log_sum_exp(logits) - label_logits
}

/// Returns `log(sum(exp(logits)))` of each row, computed with burn's operations.
///
/// # Shapes
/// - logits: `[rows, classes]`
/// - output: `[rows]`
pub fn log_sum_exp(logits: Tensor<2>) -> Tensor<1> {
    let [rows, _] = logits.dims();
    // The maximum cancels out in the value and in the gradient; it prevents an overflow of `exp`.
    let max = logits.clone().detach().max_dim(1); // [rows, 1]
    let sum = (logits - max.clone()).exp().sum_dim(1); // [rows, 1]
    (sum.log() + max).reshape([rows]) // [rows]
}

#[derive(Clone, Debug)]
struct MaskedLm {
    labels: Vec<usize>,
    precision: Precision,
}

/// The inputs; unless the backward pass recomputes the logits, `exp(z - max)` of every block, where max is the row's
/// maximum logit in that block; max and the sum of exponentials of each block and row; the log-sum-exp of each row.
type Saved = ([FlexTensor; 3], Option<FlexTensor>, Vec<[f32; 2]>, Vec<f32>);

/// Computes the logits of all rows for the words of `table` and `bias`.
fn logits(
    precision: Precision,
    transformed: Operand,
    [table, bias]: [&[f32]; 2],
    hidden: usize,
    block: &mut [f32],
) {
    let rows = block.len() / bias.len();
    let columns = bias.len();
    let table = Matrix::rows(table, hidden).transposed();
    let ctx = MatmulContext::new(precision, Threads::One);
    let sizes = Gemm { m: rows, n: columns, k: hidden };
    multiply(ctx, sizes, MatrixMut::new(block, columns), transformed, table);
    add_bias(block, bias);
}

/// Computes the logits z of all rows block by block. Returns the maximum of z and the sum of `exp(z - max)` for each
/// block and row, and for each row the result of `label_value`, called with the row's logits in the block of its label
/// and the label's column in that block. Writes the exponentials of each block to `kept`, if given.
pub(crate) fn logits_by_blocks<T: Copy + Default + Send>(
    precision: Precision,
    [transformed, table, bias]: [&[f32]; 3],
    labels: &[usize],
    kept: Option<&mut [f32]>,
    label_value: impl Fn(&[f32], usize) -> T + Sync,
) -> (Vec<[f32; 2]>, Vec<T>) {
    let n = labels.len();
    let vocab = bias.len();
    let hidden = table.len() / vocab;
    let blocks = vocab.div_ceil(COLUMNS);
    let all = MatmulContext::new(precision, Threads::All);
    let shared = SharedOperand::new(all, Side::Left, Matrix::rows(transformed, hidden), n, hidden);
    let mut parts = vec![[0f32; 2]; blocks * n];
    let mut label_values = vec![T::default(); blocks * n];
    let kept_blocks: Vec<Option<&mut [f32]>> = match kept {
        Some(kept) => kept.chunks_mut(n * COLUMNS).map(Some).collect(),
        None => (0..blocks).map(|_| None).collect(),
    };
    parts
        .par_chunks_mut(n)
        .zip(kept_blocks)
        .zip(label_values.par_chunks_mut(n))
        .zip(table.par_chunks(COLUMNS * hidden))
        .zip(bias.par_chunks(COLUMNS))
        .enumerate()
        .for_each(|(index, ((((parts, kept_block), label_values), table), bias))| {
            let mut discarded = kept_block.is_none().then(|| scratch(n * bias.len()));
            let block = kept_block.or(discarded.as_deref_mut()).expect("a kept or a scratch block");
            logits(precision, shared.operand(), [table, bias], hidden, block);
            let labels = labels.iter().zip(label_values);
            for ((label, value), row) in labels.zip(block.chunks_exact(bias.len())) {
                if let Some(column) = label.checked_sub(index * COLUMNS)
                    && column < row.len()
                {
                    *value = label_value(row, column);
                }
            }
            sums_of_exponentials(block, bias.len(), parts);
        });
    let label_logit = |(row, label): (usize, &usize)| {
        assert!(*label < vocab, "label {label} in a vocabulary of {vocab}");
        label_values[label / COLUMNS * n + row]
    };
    let label_values = labels.iter().enumerate().map(label_logit).collect();
    (parts, label_values)
}

/// Returns `log(sum(exp(z)))` of a row. `parts`, `[blocks, n]`, holds the maximum of z and the sum of `exp(z - max)`.
pub(crate) fn log_sum(parts: &[[f32; 2]], n: usize, row: usize) -> f32 {
    let blocks = || parts[row..].iter().step_by(n);
    let max_logit = blocks()
        .fold(f32::NEG_INFINITY, |max_logit, [part, _]| if *part > max_logit { *part } else { max_logit });
    let total: f64 = blocks().map(|[part, sum]| f64::from(*sum) * f64::from(part - max_logit).exp()).sum();
    (f64::from(max_logit) + total.ln()) as f32
}

impl Fused<3> for MaskedLm {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 3]) -> (FlexTensor, Saved) {
        let inputs = inputs.map(contiguous);
        let values = inputs.each_ref().map(slice);
        let n = self.labels.len();
        let vocab = values[2].len();
        let mut exponentials = (!recomputes_logits(self.precision)).then(|| buffer(n * vocab));
        let kept = exponentials.as_deref_mut();
        let (parts, label_logits) =
            logits_by_blocks(self.precision, values, &self.labels, kept, |row, column| row[column]);
        let exponentials = exponentials.map(|values| tensor(values, [n * vocab]));
        let log_sums: Vec<f32> = (0..n).into_par_iter().map(|row| log_sum(&parts, n, row)).collect();
        let nll = log_sums.iter().zip(label_logits).map(|(log_sum, logit)| log_sum - logit).collect();
        (tensor(nll, [n]), (inputs, exponentials, parts, log_sums))
    }

    fn backward(
        self,
        (inputs, exponentials, parts, log_sums): Saved,
        gradient: FlexTensor,
        wanted: [bool; 3],
    ) -> [Option<FlexTensor>; 3] {
        let gradient = contiguous(gradient);
        let [transformed, table, bias] = inputs.each_ref().map(slice);
        let n = self.labels.len();
        let hidden = width(&inputs[0]);
        let vocab = bias.len();
        let all = MatmulContext::new(self.precision, Threads::All);
        let transformed = Matrix::rows(transformed, hidden);
        let pass = BackwardPass {
            precision: self.precision,
            labels: &self.labels,
            hidden,
            table,
            bias,
            exponentials: exponentials.as_ref().map(slice),
            parts: &parts,
            log_sums: &log_sums,
            gradient: slice(&gradient),
            left: SharedOperand::new(all, Side::Left, transformed, n, hidden),
            right: SharedOperand::new(all, Side::Right, transformed, hidden, n),
        };
        let mut d_table = buffer(table.len());
        let mut d_bias = buffer(vocab);
        // A group consists of whole blocks, and a part of whole groups; both sizes depend on the vocabulary only.
        let group = vocab.div_ceil(COLUMNS).div_ceil(GROUPS * GROUPS) * COLUMNS;
        let groups = vocab.div_ceil(group).div_ceil(GROUPS) * group;
        let mut sums = scratch(vocab.div_ceil(groups) * n * hidden);
        sums.par_chunks_mut(n * hidden)
            .zip(d_table.par_chunks_mut(groups * hidden))
            .zip(d_bias.par_chunks_mut(groups))
            .enumerate()
            .for_each(|(index, ((sum, d_table), d_bias))| {
                pass.groups(group, Words { first: index * groups, d_table, d_bias }, sum);
            });
        let mut d_transformed = buffer(n * hidden);
        add_up(&sums, &mut d_transformed);
        [
            wanted[0].then(|| tensor(d_transformed, [n, hidden])),
            wanted[1].then(|| tensor(d_table, [vocab, hidden])),
            wanted[2].then(|| tensor(d_bias, [vocab])),
        ]
    }
}

/// The inputs of the backward pass.
struct BackwardPass<'a> {
    precision: Precision,
    labels: &'a [usize],
    hidden: usize,
    table: &'a [f32],
    bias: &'a [f32],
    /// The exponentials in [`Saved`]; without them, the logits are recomputed.
    exponentials: Option<&'a [f32]>,
    parts: &'a [[f32; 2]],
    log_sums: &'a [f32],
    gradient: &'a [f32],
    /// h as the left operand of the logits.
    left: SharedOperand<'a>,
    /// h as the right operand of the table's gradient.
    right: SharedOperand<'a>,
}

/// Gradients of consecutive table rows and biases, to be written.
struct Words<'a> {
    /// The index of the first word.
    first: usize,
    d_table: &'a mut [f32],
    d_bias: &'a mut [f32],
}

impl<'a> Words<'a> {
    /// Splits the words into chunks of `len` words.
    fn chunks(self, len: usize, hidden: usize) -> impl Iterator<Item = Words<'a>> {
        let chunks = self.d_table.chunks_mut(len * hidden).zip(self.d_bias.chunks_mut(len));
        let firsts = (self.first..).step_by(len);
        chunks.zip(firsts).map(|((d_table, d_bias), first)| Words { first, d_table, d_bias })
    }
}

impl BackwardPass<'_> {
    /// Computes the gradients of several groups of `group` words each, and their share of dh, `sum`.
    fn groups(&self, group: usize, words: Words, sum: &mut [f32]) {
        let groups = words.chunks(group, self.hidden);
        if rayon::current_num_threads() <= GROUPS {
            let mut part = scratch(sum.len());
            for (i, words) in groups.enumerate() {
                if i == 0 {
                    self.group(words, sum);
                } else {
                    self.group(words, &mut part);
                    add(sum, &part);
                }
            }
        } else {
            let groups: Vec<_> = groups.collect();
            let mut parts = scratch(groups.len() * sum.len());
            let each = groups.into_par_iter().zip(parts.par_chunks_mut(sum.len()));
            each.for_each(|(words, part)| self.group(words, part));
            add_up(&parts, sum);
        }
    }

    /// Computes the gradients of a group of blocks, and its share of dh.
    fn group(&self, words: Words, d_transformed: &mut [f32]) {
        let n = self.labels.len();
        let hidden = self.hidden;
        let mut scratch = scratch(n * COLUMNS);
        for (i, Words { first, d_table, d_bias }) in words.chunks(COLUMNS, hidden).enumerate() {
            let columns = d_bias.len();
            let block = &mut scratch[..n * columns];
            self.d_logits(first, columns, block);
            d_bias.fill(0.0);
            add_rows(block, d_bias);
            let block = Matrix::rows(block, columns);
            let ctx = MatmulContext::new(self.precision, Threads::One);
            let sizes = Gemm { m: columns, n: hidden, k: n };
            transposed_product(ctx, sizes, d_table, block, &self.right);
            let sizes = Gemm { m: n, n: hidden, k: columns };
            let sum = MatrixMut::new(d_transformed, hidden);
            multiply(ctx.adding(i > 0), sizes, sum, block, Matrix::rows(self.table(first, columns), hidden));
        }
    }

    /// Computes dz of the block of words that begins at `first`.
    fn d_logits(&self, first: usize, columns: usize, block: &mut [f32]) {
        let n = self.labels.len();
        match self.exponentials {
            Some(all) => {
                let stored = &all[first * n..first * n + n * columns];
                let parts = &self.parts[first / COLUMNS * n..];
                from_exponentials(stored, columns, parts, [self.log_sums, self.gradient], block);
            }
            None => {
                let table = self.table(first, columns);
                let bias = &self.bias[first..first + columns];
                logits(self.precision, self.left.operand(), [table, bias], self.hidden, block);
                from_logits(columns, self.log_sums, self.gradient, block);
            }
        }
        let labels = self.labels.iter().zip(self.gradient);
        for ((label, gradient), row) in labels.zip(block.chunks_exact_mut(columns)) {
            if let Some(column) = label.checked_sub(first)
                && column < columns
            {
                row[column] -= gradient;
            }
        }
    }

    /// Returns `rows` rows of the table, beginning with row `first`.
    fn table(&self, first: usize, rows: usize) -> &[f32] {
        &self.table[first * self.hidden..(first + rows) * self.hidden]
    }
}

/// Writes the sum of `parts`, each as long as `sum`, to `sum`. Parts are added in their order.
fn add_up(parts: &[f32], sum: &mut [f32]) {
    let length = sum.len();
    sum.par_chunks_mut(ADDED).enumerate().for_each(|(i, sum)| {
        let range = i * ADDED..i * ADDED + sum.len();
        let mut parts = parts.chunks_exact(length).map(|part| &part[range.clone()]);
        sum.copy_from_slice(parts.next().expect("the vocabulary is not empty"));
        parts.for_each(|part| add(sum, part));
    });
}

vectorized! {
    /// Replaces z by `exp(z - max)`, and writes the maximum of z and the sum of exponentials of each row.
    fn sums_of_exponentials(block: &mut [f32], columns: usize, parts: &mut [[f32; 2]]) {
        for (row, part) in block.chunks_exact_mut(columns).zip(parts) {
            let max_logit = max(row);
            *part = [max_logit, map_sum(row, |z| exp_to_88(z - max_logit))];
        }
    }
}

vectorized! {
    /// Computes `exp(z - log_sum) g` from the result of [`sums_of_exponentials`].
    fn from_exponentials(
        stored: &[f32],
        columns: usize,
        parts: &[[f32; 2]],
        sums_and_gradient: [&[f32]; 2],
        block: &mut [f32],
    ) {
        let [log_sums, gradient] = sums_and_gradient;
        let rows = stored.chunks_exact(columns).zip(block.chunks_exact_mut(columns));
        let factors = parts.iter().zip(log_sums).zip(gradient);
        for ((stored, block), (([max_logit, _], log_sum), gradient)) in rows.zip(factors) {
            let factor = exp_to_88(max_logit - log_sum) * gradient;
            for (stored, z) in stored.iter().zip(block) {
                *z = stored * factor;
            }
        }
    }
}

vectorized! {
    /// Replaces z by `exp(z - log_sum) g`.
    fn from_logits(columns: usize, log_sums: &[f32], gradient: &[f32], block: &mut [f32]) {
        for ((row, log_sum), gradient) in block.chunks_exact_mut(columns).zip(log_sums).zip(gradient) {
            for z in row {
                *z = exp_to_88(*z - log_sum) * gradient;
            }
        }
    }
}
