//! Checks that the options and counts of a manifest are valid for a build, before anything is computed from them.
//!
//! A checksum detects damage, not intent: anyone who writes a manifest can also compute its checksum. Readers divide by
//! counts, multiply them and allocate memory for lengths. Every count therefore has a maximum here, and related counts
//! must agree. Only [`crate::verify`] compares the counts with the shards.

use std::path::Path;

use bert_tokenization::{Vocabulary, is_special_token};

use crate::config::{Layout, MAX_ROW_GROUPS, Nsp};
use crate::dataset::manifest::{MANIFEST, Manifest, ShardEntry, check_equal};
use crate::dataset::report::{DataReport, length_ranges};
use crate::error::{Error, Result};

/// Maximum count: even multiplied by the length of the longest row, it fits into 64 bits.
pub(crate) const MAX_COUNT: u64 = 1 << 48;

/// Rejects a count outside a range.
fn check_range(what: &'static str, found: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(Error::data(format!("{what} is {found}, but must be between {min} and {max}")))
}

/// Rejects a value that contradicts the others.
fn check_consistent(what: &'static str, is_consistent: bool) -> Result<()> {
    if is_consistent { Ok(()) } else { Err(Error::data(format!("{what} contradicts the other values"))) }
}

impl Manifest {
    /// Checks names, options and counts; reads no other file. Errors name `path`.
    ///
    /// # Errors
    /// Fails when a name or a value is invalid, or when two values contradict each other; the error describes the first
    /// problem.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        self.check_names().map_err(|error| error.at(path))?;
        self.config.check(path)?;
        self.check_counts().map_err(|error| error.at(path))
    }

    fn check_counts(&self) -> Result<()> {
        self.check_shards()?;
        self.check_invariants()?;
        self.check_report()
    }

    /// Checks that every file name is a plain name, so that no file is outside the folder of the manifest.
    fn check_names(&self) -> Result<()> {
        for file in self.shards.iter().map(|shard| &shard.file).chain([&self.vocabulary.file]) {
            let plain = !file.is_empty()
                && !file.starts_with('.')
                && !file.contains(['/', '\\', ':', '\0'])
                && file != MANIFEST;
            if !plain {
                return Err(Error::data(format!("it names {file:?}, which is not a plain file name")));
            }
        }
        Ok(())
    }

    /// Returns the number of rows in the shards: instances or documents.
    fn stored_rows(&self) -> u64 {
        match self.config.layout {
            Layout::Instances => self.instances,
            Layout::Documents => self.report.documents,
        }
    }

    fn check_shards(&self) -> Result<()> {
        let token_count = self.vocabulary.size as u64;
        check_range("the size of the vocabulary", token_count, 1, u64::from(u32::MAX))?;
        let shards = self.shards.len() as u64;
        check_equal("the number of shards", shards, self.config.num_shards as u64)?;
        // Sums that exceed 64 bits are out of range too.
        let sum = |of: fn(&ShardEntry) -> u64| self.shards.iter().map(of).fold(0, u64::saturating_add);
        let bytes = sum(|shard| shard.bytes);
        check_range("the sum of the shards' bytes", bytes, 0, MAX_COUNT)?;
        let rows = sum(|shard| shard.rows);
        check_range("the sum of the shards' rows", rows, 1, MAX_COUNT)?;
        check_equal("the sum of the shards' rows", rows, self.stored_rows())?;
        for shard in &self.shards {
            // Reading by row groups divides by their number, and every row group has at least one row.
            let groups = shard.row_groups.clamp(u64::from(shard.rows > 0), shard.rows.min(MAX_ROW_GROUPS));
            check_equal("the row groups of a shard", shard.row_groups, groups)?;
        }
        Ok(())
    }

    /// Checks the recorded invariants against the options and the report.
    fn check_invariants(&self) -> Result<()> {
        let invariants = &self.invariants;
        let report = &self.report;
        check_range("the number of tokens", report.tokens, 1, MAX_COUNT)?;
        check_equal("the number of rows in the invariants", invariants.rows, self.stored_rows())?;
        check_equal("the number of documents in the invariants", invariants.documents, report.documents)?;
        check_equal(
            "the number of passes in the invariants",
            invariants.passes,
            self.config.dupe_factor as u64,
        )?;
        let tokens = report.tokens.saturating_mul(invariants.passes);
        check_equal("the number of tokens in the invariants", invariants.tokens, tokens)?;
        check_range("the number of tokens in instances", invariants.covered_tokens, 0, invariants.tokens)?;
        for fingerprint in [&invariants.document_fingerprint, &invariants.row_fingerprint] {
            let is_one = fingerprint.len() == 16 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit());
            check_consistent("a fingerprint", is_one)?;
        }
        Ok(())
    }

    /// Checks that the counts of the report agree with each other and with the options.
    fn check_report(&self) -> Result<()> {
        let report = &self.report;
        let config = &self.config;
        check_consistent("the kind of segments in the report", report.nsp == config.nsp)?;
        check_consistent("the layout in the report", report.layout == config.layout)?;
        check_consistent("the masking in the report", report.masking == config.masking)?;
        let length = config.max_seq_length as u64;
        let report_length = report.max_seq_length as u64;
        check_equal("max_seq_length in the report", report_length, length)?;
        check_range("the number of instances", self.instances, 1, MAX_COUNT)?;
        check_equal("the number of instances in the report", report.instances, self.instances)?;
        let limits = [
            ("the number of documents", report.documents, report.sentences),
            ("the number of documents with one sentence", report.one_sentence_documents, report.documents),
            ("the number of sentences", report.sentences, report.tokens),
            ("the number of [UNK]", report.unknown_tokens, report.tokens),
            ("the number of sampled tokens", report.sampled_tokens, report.tokens),
            ("the number of uncovered tokens", report.uncovered_tokens, report.sampled_tokens),
            ("the number of documents without text", report.empty_documents, MAX_COUNT),
            ("the number of lines not UTF-8", report.invalid_utf8_lines, MAX_COUNT),
            ("the number of null rows", report.null_rows, MAX_COUNT),
            ("the number of cut sentences", report.cut_sentences, MAX_COUNT),
            ("the number of tokens of all instances", report.instance_tokens, length * self.instances),
            ("the number of rows with label 1", report.random_next, self.instances),
            ("the number of masked tokens", report.masked_tokens, report.instance_tokens),
        ];
        limits.into_iter().try_for_each(|(what, found, max)| check_range(what, found, 0, max))?;
        if config.nsp == Nsp::Off {
            check_equal("the number of rows with label 1", report.random_next, 0)?;
        }
        let replaced = [report.replaced_by_mask, report.left_unchanged, report.replaced_by_random];
        let replaced = replaced.into_iter().fold(0, u64::saturating_add);
        check_equal("the sum of the masked tokens by replacement", replaced, report.masked_tokens)?;
        check_consistent("omitted_fraction", (0.0..=1.0).contains(&report.omitted_fraction))?;
        check_lengths(report)
    }

    /// Checks that the vocabulary has the tokens that the options need.
    pub(crate) fn check_replacements(&self, vocabulary: &Vocabulary) -> Result<()> {
        let none = vocabulary.tokens().iter().all(|token| is_special_token(token));
        check_consistent("the vocabulary", !(none && self.config.random_word_skip_special))
    }
}

/// Checks that the histogram has the standard ranges and counts every instance once.
fn check_lengths(report: &DataReport) -> Result<()> {
    let found = report.length_histogram.iter().map(|range| (range.from, range.to));
    check_consistent("the list of lengths", found.eq(length_ranges(report.max_seq_length)))?;
    let sum = report.length_histogram.iter().map(|range| range.instances).fold(0, u64::saturating_add);
    check_equal("the number of instances by their lengths", sum, report.instances)
}
