//! What counting reaches on the masked LM: two levels that say where a run stands.
//!
//! In: the text that a run learns from and its held-out instances. Out: loss and accuracy on the held-out masked tokens of
//! two predictors that learn nothing. `word_frequencies` ignores the context: a model above or at this level has not
//! found out what its attention is for. `neighbours` looks the tokens on both sides up in a table of pairs: a model above
//! this level uses context, but less of it than two tokens tell.

mod neighbours;
mod word_frequencies;

use serde::{Deserialize, Serialize};

use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::neighbour_counts::NeighbourCounts;
use neighbours::Neighbours;
use word_frequencies::WordFrequencies;

/// Held-out masked tokens that are predicted at most: the standard error of the loss is then below 0.01 nats.
const MOST_PREDICTIONS: usize = 1 << 18;

/// What one predictor reaches on the held-out masked tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Mean negative log-likelihood, in nats.
    pub masked_lm_loss: f64,
    /// Share of the masked tokens that the predictor puts first; of equals the lowest id counts as first.
    pub masked_lm_accuracy: f64,
}

/// Both levels, over the same masked tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baselines {
    /// Number of held-out masked tokens.
    pub predictions: u64,
    /// Every token by its share of the training text.
    pub word_frequencies: Baseline,
    /// Every token by the counts of its two neighbours in the training text.
    pub neighbours: Baseline,
}

/// A held-out masked token, and what stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Blank {
    /// The token before it; `None` where that is masked too.
    left: Option<u32>,
    /// The token after it; `None` where that is masked too.
    right: Option<u32>,
    /// What was masked.
    target: u32,
}

/// Counts the text of `train` and predicts the masked tokens of the first `instances` instances of `held_out`, or of all
/// of them, as an evaluation does.
///
/// Time is bounded: some 67 million tokens of the text are counted, as for the initialization `counts`, and 262,144 masked
/// tokens predicted.
///
/// # Errors
/// When a shard cannot be read, or [`Error::Mismatch`] when the two have different vocabularies.
pub fn baselines(
    train: &DataLoader,
    held_out: &mut DataLoader,
    instances: Option<u64>,
) -> Result<Baselines, Error> {
    let vocabulary = train.vocabulary();
    if held_out.vocabulary().tokens() != vocabulary.tokens() {
        let (train, held_out) = (train.folder().display(), held_out.folder().display());
        let differences = vec![format!("{held_out} was made with another vocabulary than {train}")];
        return Err(Error::Mismatch { differences });
    }
    let mut blanks = blanks(held_out, instances.unwrap_or(u64::MAX))?;
    let mut counts = NeighbourCounts::of_data(train.data(), 1)?;
    let words = WordFrequencies::new(&counts);
    Ok(Baselines {
        predictions: blanks.len() as u64,
        word_frequencies: words.baseline(&blanks),
        neighbours: Neighbours::new(&mut counts).baseline(&words, &mut blanks),
    })
}

/// The masked tokens of the first `instances` instances in stored order.
fn blanks(held_out: &mut DataLoader, instances: u64) -> Result<Vec<Blank>, Error> {
    let mask = held_out.vocabulary().mask_id();
    let mut blanks = Vec::new();
    for index in 0..instances.min(held_out.rows()) {
        let row = held_out.stored_row(index)?;
        let known = |at: usize| row.input_ids.get(at).map(|&id| id as u32).filter(|&id| id != mask);
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            let at = position as usize;
            let left = at.checked_sub(1).and_then(known);
            blanks.push(Blank { left, right: known(at + 1), target: id as u32 });
        }
        if blanks.len() >= MOST_PREDICTIONS {
            blanks.truncate(MOST_PREDICTIONS);
            break;
        }
    }
    Ok(blanks)
}

/// Loss and accuracy from sums over `predictions` masked tokens.
fn mean(loss: f64, hits: u64, predictions: usize) -> Baseline {
    let predictions = predictions.max(1) as f64;
    Baseline { masked_lm_loss: loss / predictions, masked_lm_accuracy: hits as f64 / predictions }
}
