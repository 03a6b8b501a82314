//! Losses, in nats.
//!
//! Every loss is a sum over rows, divided once by the number of real targets of the whole global batch, so that the
//! losses and gradients of micro-batches or devices simply add up. Ports `get_masked_lm_output` and
//! `get_next_sentence_output` of the reference's `run_pretraining.py`, which divides per device instead.

use bert_kernels::masked_lm_loss::log_sum_exp;
use bert_kernels::ordered_sum::sum;
use burn::tensor::{Int, Tensor, assert_shape};

/// Targets of the pre-training heads for one micro-batch.
#[derive(Debug, Clone)]
pub struct PretrainingTargets {
    /// `[n]`: the words that were at the masked positions.
    pub masked_lm_ids: Tensor<1, Int>,
    /// `[n]`: 1 for a real prediction, 0 for padding.
    pub masked_lm_weights: Tensor<1>,
    /// `[batch]`: 0 if the second text follows the first, 1 if it is random.
    pub next_sentence_labels: Tensor<1, Int>,
}

/// Divisors of the sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossNormalizer {
    /// Real masked positions in the global batch: the sum of `masked_lm_weights`.
    pub masked_lm: f64,
    /// Rows in the global batch; `None` for data without next-sentence labels, which sets that loss to 0.
    pub next_sentence: Option<f64>,
}

impl LossNormalizer {
    /// The reference's guard against a batch without predictions.
    const GUARD: f64 = 1e-5;

    pub(crate) fn masked_lm_scale(&self) -> f64 {
        1.0 / (self.masked_lm + Self::GUARD)
    }
}

/// The losses of one micro-batch, already divided: they add up over the global batch.
#[derive(Debug, Clone)]
pub struct PretrainingLoss {
    /// `[1]`: the sum of the two.
    pub total: Tensor<1>,
    /// `[1]`
    pub masked_lm: Tensor<1>,
    /// `[1]`
    pub next_sentence: Tensor<1>,
}

impl PretrainingLoss {
    pub(crate) fn new(masked_lm: Tensor<1>, next_sentence: Tensor<1>) -> Self {
        Self { total: masked_lm.clone() + next_sentence.clone(), masked_lm, next_sentence }
    }
}

/// Returns `-log p(label)` of each row.
///
/// # Shapes
/// - logits: `[rows, classes]`
/// - labels and output: `[rows]`
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    let [rows, _] = logits.dims();
    assert_shape!(labels, [rows]);
    let picked = logits
        .clone()
        .gather(1, labels.reshape([rows, 1])) // [rows, 1]
        .reshape([rows]); // [rows]
    log_sum_exp(logits) - picked
}

/// Returns the sum of `-log p(label)` over the rows.
///
/// # Shapes
/// - logits: `[rows, classes]`; labels: `[rows]`
/// - output: `[1]`
pub fn cross_entropy_sum(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    sum(cross_entropy(logits, labels))
}

/// Returns the summed cross-entropy of a classifier, divided by `rows`, the number of rows of the global batch.
///
/// # Shapes
/// - logits: `[batch, labels]`; labels: `[batch]`
/// - output: `[1]`
pub fn classification_loss(logits: Tensor<2>, labels: Tensor<1, Int>, rows: f64) -> Tensor<1> {
    cross_entropy_sum(logits, labels).div_scalar(rows)
}

/// Returns the summed squared error of a regression, divided by `rows`, the number of rows of the global batch.
///
/// # Shapes
/// - predictions: `[batch, 1]`; targets: `[batch]`
/// - output: `[1]`
pub fn regression_loss(predictions: Tensor<2>, targets: Tensor<1>, rows: f64) -> Tensor<1> {
    let [batch] = targets.dims();
    assert_shape!(predictions, [batch, 1]);
    let error = predictions.reshape([batch]) - targets; // [batch]
    sum(error.square()).div_scalar(rows)
}
