//! Statistics of the input text.

use bert_text::InputEntry;
use bert_text::remarks::Remarks;
use serde::{Deserialize, Serialize};

use crate::documents::BUCKET_TOKENS;

/// Minimum number of tokens of a line that is probably a paragraph: two to three times the length of a sentence.
pub(crate) const PARAGRAPH_TOKENS: usize = 80;

/// Statistics of the input, collected while reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadReport {
    /// The input files in the order in which they were read.
    pub inputs: Vec<InputEntry>,
    /// Number of lines that were not valid UTF-8 or contained a NUL byte, and were repaired.
    pub invalid_utf8_lines: u64,
    /// Number of null rows in tables, which are skipped.
    #[serde(default)]
    pub null_rows: u64,
    /// Number of documents without tokens, which are left out.
    pub empty_documents: u64,
    /// Number of documents that belong to the other data set of `--hold-out`.
    #[serde(default)]
    pub left_out_documents: u64,
    /// Number of sentences or pieces of sentences in these documents.
    #[serde(default)]
    pub left_out_sentences: u64,
    /// Number of documents with a single sentence.
    pub one_sentence_documents: u64,
    /// Number of `[UNK]` tokens.
    pub unknown_tokens: u64,
    /// Number of sentences that were cut because they are longer than an instance.
    pub cut_sentences: u64,
    /// Number of tokens in sentences of [`PARAGRAPH_TOKENS`] or more tokens.
    #[serde(default)]
    pub long_sentence_tokens: u64,
    /// Number of times that a document was cut because it reached the size of a bucket.
    pub long_documents: u64,
    /// The file in which a document was first cut.
    pub first_long_document: Option<String>,
    /// Warnings about options that do not fit the text, found before reading.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Remarks on the files for the user.
    #[serde(default, skip_serializing_if = "Remarks::is_empty")]
    pub remarks: Remarks,
}

impl ReadReport {
    /// Adds the statistics of the files that follow.
    pub(crate) fn add(&mut self, other: Self) {
        self.inputs.extend(other.inputs);
        for (sum, more) in [
            (&mut self.invalid_utf8_lines, other.invalid_utf8_lines),
            (&mut self.null_rows, other.null_rows),
            (&mut self.empty_documents, other.empty_documents),
            (&mut self.left_out_documents, other.left_out_documents),
            (&mut self.left_out_sentences, other.left_out_sentences),
            (&mut self.one_sentence_documents, other.one_sentence_documents),
            (&mut self.unknown_tokens, other.unknown_tokens),
            (&mut self.cut_sentences, other.cut_sentences),
            (&mut self.long_sentence_tokens, other.long_sentence_tokens),
            (&mut self.long_documents, other.long_documents),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.first_long_document = self.first_long_document.take().or(other.first_long_document);
        self.warnings.extend(other.warnings);
        self.remarks.add(other.remarks);
    }

    /// Returns the statistics of a text that is this many times as large.
    pub(crate) fn scaled(mut self, scale: f64) -> Self {
        for count in [
            &mut self.invalid_utf8_lines,
            &mut self.null_rows,
            &mut self.empty_documents,
            &mut self.left_out_documents,
            &mut self.left_out_sentences,
            &mut self.one_sentence_documents,
            &mut self.unknown_tokens,
            &mut self.cut_sentences,
            &mut self.long_sentence_tokens,
        ] {
            *count = (*count as f64 * scale).round() as u64;
        }
        self
    }

    /// Returns all warnings for the user.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        warnings.extend(self.remarks.sentences());
        if let Some(file) = &self.first_long_document {
            let times = self.long_documents;
            warnings.push(format!(
                "documents of more than {BUCKET_TOKENS} tokens were cut there, {times} times, first in {file}; are the empty \
                 lines between documents missing?"
            ));
        }
        warnings
    }

    /// Returns a copy without the paths of the files.
    pub(crate) fn without_paths(&self) -> Self {
        let mut report = self.clone();
        report.inputs.iter_mut().for_each(|input| input.path.clear());
        report.remarks.clear_names();
        report
    }
}
