//! Predicts every masked token by its share of the training text, without any context.

use crate::baselines::blank::Baseline;
use crate::baselines::blank::Blank;
use crate::baselines::blank::mean;
use crate::neighbour_counts::NeighbourCounts;

/// How probable each token of the vocabulary is, by its count and one more: no token is impossible.
pub(super) struct WordFrequencies {
    shares: Vec<f64>,
    most_frequent: u32,
}

impl WordFrequencies {
    pub(super) fn new(text: &NeighbourCounts) -> Self {
        let counts = &text.occurrences;
        // Of equals the lowest id.
        let most_frequent = (0..counts.len()).rev().max_by_key(|&id| counts[id]).unwrap_or(0) as u32;
        Self { shares: text.shares(), most_frequent }
    }

    /// The shares by id; their sum is 1.
    pub(super) fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// The most frequent token.
    pub(super) fn most_frequent(&self) -> u32 {
        self.most_frequent
    }

    /// What this predictor reaches.
    pub(super) fn baseline(&self, blanks: &[Blank]) -> Baseline {
        let loss: f64 = blanks.iter().map(|blank| -self.shares[blank.target as usize].ln()).sum();
        let hits = blanks.iter().filter(|blank| blank.target == self.most_frequent).count();
        mean(loss, hits as u64, blanks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_by_its_share() {
        let mut counts = NeighbourCounts::new(4, 0);
        counts.add(&[0, 1, 1, 1, 3, 3, 3]);
        let words = WordFrequencies::new(&counts);
        let blanks = [1, 1, 2, 3].map(|target| Blank { left: None, right: Some(1), target });
        let found = words.baseline(&blanks);
        // Shares of 2, 4, 1 and 4 elevenths; of the two most frequent the lower id is the guess.
        let expected = (3.0 * (11f64 / 4.0).ln() + 11f64.ln()) / 4.0;
        assert!((found.masked_lm_loss - expected).abs() < 1e-12, "{found:?}");
        assert_eq!((words.most_frequent(), found.masked_lm_accuracy), (1, 0.5));
    }
}
