//! The masked-LM scores of an evaluation: `nll_i = log(sum_v exp(z_iv)) - z_i,label_i` and
//! `correct_i = [argmax_v z_iv = label_i]`, `z = h E' + b`; among equal logits, the first counts as the
//! maximum.
//!
//! The inputs and the blocks of vocabulary columns are the same as in [`mod@super::masked_lm_loss`]. The kernel
//! discards a block's logits after computing their maximum and their sum of exponentials, so it stores nothing of size
//! `[n, vocab]`. It runs without autodiff and has no backward pass. [`crate::ops::masked_lm_loss::masked_lm_nll`] is
//! the function for training.

use burn::backend::Flex;
use burn::tensor::{Int, Tensor, assert_shape};
use rayon::prelude::*;

use crate::arguments::{Compute, Precision};
use crate::cpu::flex_slices::{contiguous, indices, slice, tensor};
use crate::fused_op::{Input, TensorBackend, fused_path};
use crate::ops::masked_lm_loss;
use crate::ops::masked_lm_loss::{COLUMNS, log_sum, logits_by_blocks};
use crate::ops::plain::matrix_product;

/// Returns `-log p(label)` of each row, and 1 if the label has the maximum logit, otherwise 0. Among equal
/// logits, the first counts as the maximum.
///
/// # Shapes
/// - transformed: `[n, hidden]`; `n` may be 0
/// - table: `[vocab, hidden]`; bias: `[vocab]`
/// - labels and both outputs: `[n]`
pub fn masked_lm_scores(
    compute: Compute,
    transformed: Tensor<2>,
    table: Tensor<2>,
    bias: Tensor<1>,
    labels: Tensor<1, Int>,
) -> [Tensor<1>; 2] {
    let [n, hidden] = transformed.dims();
    let [vocab] = bias.dims();
    assert_shape!(table, [vocab, hidden]);
    assert_shape!(labels, [n]);
    if n == 0 {
        return [(); 2].map(|()| Tensor::zeros([0], &transformed.device()));
    }
    match fused_path(compute, &[&transformed, &table, &bias]) {
        Some(TensorBackend::Flex) => {
            let own = |x: Input| contiguous(x.into_primitive());
            let inputs = [own(transformed.into()), own(table.into()), own(bias.into())];
            fused(compute.precision, inputs.each_ref().map(slice), &indices(labels))
                .map(|values| Tensor::from_primitive::<Flex>(tensor(values, [n])))
        }
        _ => plain(compute, transformed, table, bias, labels),
    }
}

/// Computes [`masked_lm_scores`] with burn's own operations.
///
/// # Shapes
/// - same as [`masked_lm_scores`]
pub fn plain(
    compute: Compute,
    transformed: Tensor<2>,
    table: Tensor<2>,
    bias: Tensor<1>,
    labels: Tensor<1, Int>,
) -> [Tensor<1>; 2] {
    let [n, _] = transformed.dims();
    let logits = matrix_product(compute, transformed.clone(), table.clone().transpose())
        + bias.clone().unsqueeze::<2>(); // [n, vocab]
    let correct = logits.argmax(1).reshape([n]).equal(labels.clone()).float(); // [n]
    [masked_lm_loss::plain(compute, transformed, table, bias, labels), correct]
}

/// A label's logit, and whether it is the first maximum in its block of columns.
#[derive(Clone, Copy, Default)]
struct Candidate {
    logit: f32,
    first: bool,
}

fn fused(precision: Precision, inputs: [&[f32]; 3], labels: &[usize]) -> [Vec<f32>; 2] {
    let n = labels.len();
    let (parts, candidates) = logits_by_blocks(precision, inputs, labels, None, candidate);
    let blocks = parts.len() / n;
    let scored: Vec<(f32, f32)> = labels
        .par_iter()
        .zip(candidates)
        .enumerate()
        .map(|(row, (label, Candidate { logit, first }))| {
            let label_block = label / COLUMNS;
            let block_max = |block: usize| parts[block * n + row][0];
            let correct = first
                && (0..label_block).all(|b| block_max(b) < logit)
                && (label_block + 1..blocks).all(|b| block_max(b) <= logit);
            (log_sum(&parts, n, row) - logit, f32::from(u8::from(correct)))
        })
        .collect();
    let (nll, correct) = scored.into_iter().unzip();
    [nll, correct]
}

fn candidate(row: &[f32], column: usize) -> Candidate {
    let logit = row[column];
    let first = row[..column].iter().all(|z| *z < logit) && row[column..].iter().all(|z| *z <= logit);
    Candidate { logit, first }
}
