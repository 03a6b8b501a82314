//! Reports statistics of the text of a vocabulary training, with the number of parts that were left out.

use std::fmt;

use bert_text::remarks::Remarks;
use serde::Serialize;

/// A vocabulary, with statistics of its training text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrainedVocabulary {
    /// The tokens in the order of their ids.
    pub tokens: Vec<String>,
    /// Statistics of the training text.
    pub report: VocabReport,
}

/// Statistics of the training text of a vocabulary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VocabReport {
    /// Number of tokens of the text.
    pub text_tokens: u64,
    /// Number of tokens of the text that are `[UNK]`.
    pub unknown_tokens: u64,
    /// Number of distinct characters of the text.
    pub characters: usize,
    /// Number of distinct characters that are not in the vocabulary.
    pub dropped_characters: usize,
    /// Number of occurrences of rare words that were not counted because of
    /// [`max_words`](super::VocabConfig::max_words).
    pub dropped_words: u64,
    /// Number of lines that were not UTF-8 or contained a NUL byte, and were repaired.
    pub invalid_utf8_lines: u64,
    /// Number of null rows of tables, which are skipped.
    pub null_rows: u64,
    /// A note about accents that were stripped, or that were kept although no option asked for it.
    pub accents: Option<String>,
    /// Remarks on the files for the user.
    pub remarks: Remarks,
}

impl VocabReport {
    /// Returns the fraction of the text's tokens that are `[UNK]`.
    pub fn unknown_fraction(&self) -> f64 {
        self.unknown_tokens as f64 / self.text_tokens.max(1) as f64
    }
}

impl fmt::Display for VocabReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[UNK] is {:.4} % of this text: {} of {} tokens; {} of {} characters are not in the vocabulary",
            100.0 * self.unknown_fraction(),
            self.unknown_tokens,
            self.text_tokens,
            self.dropped_characters,
            self.characters
        )?;
        self.notes().iter().try_for_each(|note| write!(f, "\n{note}"))
    }
}

impl VocabReport {
    /// Returns sentences about the repaired, skipped and conspicuous parts of the text.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (count, what) in [
            (self.dropped_words, "occurrences of rare words were not counted (--max-words)"),
            (self.invalid_utf8_lines, "lines were not UTF-8 and were repaired"),
            (self.null_rows, "rows were null and were skipped"),
        ] {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        }
        notes.extend(self.accents.clone());
        notes.extend(self.remarks.sentences());
        notes
    }
}
