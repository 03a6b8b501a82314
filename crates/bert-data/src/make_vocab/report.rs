//! Reports in words what vocabulary training saw in the text and what it left out.

use std::fmt;

use serde::Serialize;

use crate::input::remarks::Remarks;

/// A vocabulary and what the text it was trained on is under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainedVocabulary {
    /// The tokens in the order of their ids.
    pub tokens: Vec<String>,
    /// What was seen and what was left out.
    pub report: VocabReport,
}

/// What was seen in the text of a vocabulary and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VocabReport {
    /// Tokens that the text becomes.
    pub text_tokens: u64,
    /// Those of them that are `[UNK]`.
    pub unknown_tokens: u64,
    /// Different characters of the text.
    pub characters: usize,
    /// Those of them that are not in the vocabulary.
    pub dropped_characters: usize,
    /// Occurrences of rare words that were not counted, for [`max_words`](super::VocabConfig::max_words).
    pub forgotten_words: u64,
    /// Lines that were not UTF-8, or held a NUL byte, and were repaired.
    pub invalid_utf8_lines: u64,
    /// Rows of tables that are null; left out.
    pub null_rows: u64,
    /// What the user should know of the files.
    pub remarks: Remarks,
}

impl VocabReport {
    /// Share of the text's tokens that are `[UNK]`.
    #[must_use]
    pub fn unknown_share(&self) -> f64 {
        self.unknown_tokens as f64 / self.text_tokens.max(1) as f64
    }
}

impl fmt::Display for VocabReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[UNK] is {:.4} % of this text: {} of {} tokens; {} of {} characters are not in the vocabulary",
            100.0 * self.unknown_share(),
            self.unknown_tokens,
            self.text_tokens,
            self.dropped_characters,
            self.characters
        )?;
        for (count, what) in [
            (self.forgotten_words, "occurrences of rare words were not counted (--max-words)"),
            (self.invalid_utf8_lines, "lines were not UTF-8 and were repaired"),
            (self.null_rows, "rows were null and were skipped"),
        ] {
            if count > 0 {
                write!(f, "\n{count} {what}")?;
            }
        }
        self.remarks.sentences().try_for_each(|remark| write!(f, "\n{remark}"))
    }
}
