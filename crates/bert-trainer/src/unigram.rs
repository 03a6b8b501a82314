//! The unigram baseline of the masked LM: what a model that ignores the context can reach.
//!
//! In: the training data and the held-out data. Out: loss and accuracy on the held-out targets of
//! predicting every masked token by the frequencies of the training targets (add-one smoothing).
//! Where the loader makes pairs or masks, those of evaluation are counted in both.

use serde::{Deserialize, Serialize};

use crate::data_loader::DataLoader;
use crate::error::Error;

/// What guessing by word frequency gives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unigram {
    /// Mean negative log-likelihood of the held-out targets, in nats.
    pub masked_lm_loss: f64,
    /// Share of the held-out targets that are the most frequent training target.
    pub masked_lm_accuracy: f64,
}

/// Counts the targets of `train` and predicts those of `held_out`.
///
/// # Errors
/// When a shard cannot be read.
pub fn unigram_baseline(train: &mut DataLoader, held_out: &mut DataLoader) -> Result<Unigram, Error> {
    let train = target_counts(train)?;
    let held_out = target_counts(held_out)?;
    let total: u64 = train.iter().sum();
    let targets = held_out.iter().sum::<u64>().max(1) as f64;
    let smoothed = |count: u64| (count as f64 + 1.0) / (total as f64 + train.len() as f64);
    let pairs = train.iter().zip(&held_out);
    let loss: f64 = pairs.map(|(&seen, &asked)| -smoothed(seen).ln() * asked as f64).sum();
    // Of equals the lowest id.
    let most = (0..train.len()).rev().max_by_key(|&id| train[id]).unwrap_or(0);
    Ok(Unigram { masked_lm_loss: loss / targets, masked_lm_accuracy: held_out[most] as f64 / targets })
}

fn target_counts(loader: &mut DataLoader) -> Result<Vec<u64>, Error> {
    let mut counts = vec![0; loader.manifest().vocabulary.size];
    loader.for_each_target(|id| counts[id as usize] += 1)?;
    Ok(counts)
}
