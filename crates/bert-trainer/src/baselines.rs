//! Scores two counting predictors on the masked LM: two levels to compare a run with.
//!
//! Both count the text that a run learns from, and are scored by loss and accuracy on held-out masked tokens:
//!
//! - `word_frequencies` ignores the context. A model whose loss is not below this level does not use its attention
//!   yet.
//! - `neighbours` looks up the tokens on both sides in a table of pairs. A model whose loss is between the two
//!   levels uses the context, but less of it than these two tokens tell.

mod blank;
mod neighbours;
mod word_frequencies;

use serde::{Deserialize, Serialize};

pub use crate::baselines::blank::Baseline;
use crate::baselines::blank::Blank;
use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::neighbour_counts::NeighbourCounts;
use neighbours::Neighbours;
use word_frequencies::WordFrequencies;

/// Held-out masked tokens that are predicted at most: the standard error of the loss is then below 0.01 nats.
const MOST_PREDICTIONS: usize = 1 << 18;

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

/// Counts the text of `train` and predicts the masked tokens of the first `instances` instances of `held_out`, or of
/// all of them, as an evaluation does.
///
/// Time is bounded: some 67 million tokens of the text are counted, as for the initialization `counts`, and 262,144
/// masked tokens predicted.
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
        return Err(Error::Mismatch(differences));
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
        let known = |at: usize| row.input_ids.get(at).copied().filter(|&id| id != mask);
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            let at = position as usize;
            let left = at.checked_sub(1).and_then(known);
            blanks.push(Blank { left, right: known(at + 1), target: id });
        }
        if blanks.len() >= MOST_PREDICTIONS {
            blanks.truncate(MOST_PREDICTIONS);
            break;
        }
    }
    Ok(blanks)
}
