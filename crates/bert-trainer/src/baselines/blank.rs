//! Holds a masked token with its two neighbours, which the baselines predict, and the score of a baseline.

use serde::{Deserialize, Serialize};

/// What one predictor reaches on the held-out masked tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Mean negative log-likelihood, in nats.
    pub masked_lm_loss: f64,
    /// Share of the masked tokens that the predictor puts first; of equals the lowest id counts as first.
    pub masked_lm_accuracy: f64,
}

/// A held-out masked token, and what stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Blank {
    /// The token before it; `None` where that is masked too.
    pub(super) left: Option<u32>,
    /// The token after it; `None` where that is masked too.
    pub(super) right: Option<u32>,
    /// What was masked.
    pub(super) target: u32,
}

/// Loss and accuracy from sums over `predictions` masked tokens.
pub(super) fn mean(loss: f64, hits: u64, predictions: usize) -> Baseline {
    let predictions = predictions.max(1) as f64;
    Baseline { masked_lm_loss: loss / predictions, masked_lm_accuracy: hits as f64 / predictions }
}
