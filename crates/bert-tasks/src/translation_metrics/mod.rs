//! BLEU and chrF as sacreBLEU computes them, and bootstrap intervals.
//!
//! A metric turns a sentence into counts, and the sum of the counts of a corpus into a score. So resamples of the
//! sentences need additions only.

pub mod bleu;
pub mod bootstrap;
pub mod chrf;
mod ngrams;
pub mod tokenize_13a;

use serde::Serialize;

/// A metric of translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TranslationMetric {
    /// BLEU with 13a tokenization and exponential smoothing: sacreBLEU's default.
    Bleu,
    /// chrF with character n-grams up to 6 and beta 2: sacreBLEU's `chrF2`.
    Chrf,
}

impl TranslationMetric {
    /// Both metrics.
    pub const ALL: [Self; 2] = [Self::Bleu, Self::Chrf];

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bleu => "BLEU",
            Self::Chrf => "chrF",
        }
    }

    /// Returns the counts of a sentence, given its references.
    ///
    /// # Panics
    /// Panics without references.
    pub fn counts(self, hypothesis: &str, references: &[&str]) -> Vec<u64> {
        match self {
            Self::Bleu => bleu::counts(hypothesis, references),
            Self::Chrf => chrf::counts(hypothesis, references),
        }
    }

    /// Returns the score of summed counts, from 0 to 100.
    pub fn score(self, counts: &[u64]) -> f64 {
        match self {
            Self::Bleu => bleu::score(counts),
            Self::Chrf => chrf::score(counts),
        }
    }

    /// Returns the score of a corpus. `references[i]` has the references of sentence `i`.
    pub fn corpus(self, hypotheses: &[&str], references: &[Vec<&str>]) -> f64 {
        let counts: Vec<Vec<u64>> = hypotheses
            .iter()
            .zip(references)
            .map(|(hypothesis, refs)| self.counts(hypothesis, refs))
            .collect();
        self.score(&total(counts.iter()))
    }
}

/// Adds the counts of sentences.
pub(crate) fn total<'a>(counts: impl Iterator<Item = &'a Vec<u64>>) -> Vec<u64> {
    let mut sum = Vec::new();
    for counts in counts {
        sum.resize(counts.len(), 0);
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    sum
}
