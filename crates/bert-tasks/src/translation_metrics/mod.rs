//! BLEU and chrF as sacreBLEU computes them, and bootstrap intervals.
//!
//! A metric turns a sentence into counts, and the sum of the counts of a corpus into a score. A bootstrap resample of
//! the sentences therefore needs only additions of counts.

pub(crate) mod bleu_tokenizer;
pub(crate) mod bootstrap;
pub(crate) mod chrf;
mod ngrams;

use serde::Serialize;

use bleu_tokenizer::BleuTokenizer;

/// A metric of translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TranslationMetric {
    /// BLEU with exponential smoothing. sacreBLEU's default is the tokenizer `13a`.
    Bleu(#[serde(skip)] BleuTokenizer),
    /// chrF with character n-grams up to 6 and beta 2: sacreBLEU's `chrF2`.
    Chrf,
}

impl TranslationMetric {
    /// Returns both metrics, BLEU with this tokenizer.
    pub fn all(tokenizer: BleuTokenizer) -> [Self; 2] {
        [Self::Bleu(tokenizer), Self::Chrf]
    }

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bleu(BleuTokenizer::V13a) => "BLEU",
            Self::Bleu(BleuTokenizer::Zh) => "BLEU (zh)",
            Self::Bleu(BleuTokenizer::Char) => "BLEU (char)",
            Self::Chrf => "chrF",
        }
    }

    /// Returns the counts of a sentence, given its references.
    ///
    /// # Panics
    /// Panics if there are no references.
    pub fn counts(self, hypothesis: &str, references: &[&str]) -> Vec<u64> {
        match self {
            Self::Bleu(tokenizer) => bleu_tokenizer::counts(tokenizer, hypothesis, references),
            Self::Chrf => chrf::counts(hypothesis, references),
        }
    }

    /// Returns the score of summed counts, from 0 to 100.
    pub fn score(self, counts: &[u64]) -> f64 {
        match self {
            Self::Bleu(_) => bleu_tokenizer::score(counts),
            Self::Chrf => chrf::score(counts),
        }
    }
}

/// Returns the sum of the counts of sentences.
pub(crate) fn total<'a>(counts: impl Iterator<Item = &'a Vec<u64>>) -> Vec<u64> {
    let mut sum = Vec::new();
    for counts in counts {
        sum.resize(counts.len(), 0);
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    sum
}
