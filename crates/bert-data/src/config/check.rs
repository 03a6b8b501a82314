//! Rejects option values that are out of range and combinations of flags that exclude each other.

use bert_storage::reject_url;
use bert_text::{Format, TEXT_COLUMN};

use super::{
    BuildConfig, Columns, DUPE_FACTOR, Layout, LineBreaks, MAX_ROW_GROUPS, MAX_SEQUENCE_LENGTH, Masking, Nsp,
    RandomMode, Segmenter,
};
use crate::config::part::Part;
use crate::error::{Error, Result, check_value, missing_option};

/// Maximum number of words in a masked span; larger values are rejected as mistakes.
const MAX_NGRAM: usize = 64;

/// Returns the error for a combination of two options.
pub(crate) fn conflict<T>(option: &'static str, with: &'static str, reason: &'static str) -> Result<T> {
    Err(Error::usage(format!("`.{option}` cannot be used with {with}: {reason}")))
}

/// Returns the error for the first conflict whose option is set. A conflict consists of whether the option is set, the
/// option, the option that it excludes, and the reason.
fn exclude<const N: usize>(conflicts: [(bool, &'static str, &'static str, &'static str); N]) -> Result<()> {
    let first = conflicts.into_iter().find(|(is_given, ..)| *is_given);
    first.map_or(Ok(()), |(_, option, with, reason)| conflict(option, with, reason))
}

/// Checks the number of threads; 0 stands for the number of processors.
pub(crate) fn check_threads(threads: usize) -> Result<()> {
    check_value(threads <= 4096, "threads", threads, "at most 4096")
}

/// Rejects two opposite rules for lines that are not UTF-8.
pub(crate) fn check_utf8(is_strict: bool, is_lossy: bool) -> Result<()> {
    let reason = "one rejects the lines that the other repairs";
    exclude([(is_strict && is_lossy, "lossy_utf8", "`.strict_utf8`", reason)])
}

/// Returns the minimum number of shards for `units` buckets of documents; each bucket is one row group of a shard, or
/// two.
pub(crate) fn min_shards(units: u64) -> u64 {
    units.div_ceil(MAX_ROW_GROUPS - 1)
}

impl BuildConfig {
    /// Checks every value that can be checked without reading a file.
    ///
    /// # Errors
    /// Fails when an option is missing, has an invalid value or contradicts another one; the error names the option
    /// and the accepted values.
    pub fn check(&self) -> Result<()> {
        if self.segmenter == Segmenter::Chinese && !cfg!(feature = "chinese") {
            return conflict("segmenter", "this build", "it was built without the feature `chinese`");
        }
        self.check_options()
    }

    /// Checks the options alone, independent of the features of this program: a data set can be read without the
    /// segmenter that it was built with.
    pub(crate) fn check_options(&self) -> Result<()> {
        let length = self.max_seq_length;
        let in_range = (8..=MAX_SEQUENCE_LENGTH).contains(&length);
        check_value(in_range, "max_seq_length", length, "between 8 and 65535")?;
        if let Some(max) = self.max_predictions_per_seq {
            let expected = "at least 1 and below `.max_seq_length`";
            check_value((1..length).contains(&max), "max_predictions_per_seq", max, expected)?;
        }
        let in_range = (1..=MAX_NGRAM).contains(&self.max_ngram);
        check_value(in_range, "max_ngram", self.max_ngram, "between 1 and 64")?;
        let share = self.masked_lm_prob;
        check_value(share > 0.0 && share <= 1.0, "masked_lm_prob", share, "above 0 and at most 1")?;
        let share = self.short_seq_prob;
        check_value((0.0..=1.0).contains(&share), "short_seq_prob", share, "between 0 and 1")?;
        let passes = self.dupe_factor;
        check_value((1..=1_000_000).contains(&passes), "dupe_factor", passes, "between 1 and 1000000")?;
        check_threads(self.threads)?;
        if let Some(shards) = self.num_shards {
            check_value((1..=99_999).contains(&shards), "num_shards", shards, "between 1 and 99999")?;
        }
        // Each pass has at least one bucket of documents.
        self.check_shards(self.num_shards.unwrap_or(usize::MAX), self.passes() as u64)?;
        if self.splits_lines() {
            self.check_language()?;
        }
        if self.split_sentences && self.line_breaks == LineBreaks::Sentence {
            return conflict(
                "split_sentences",
                "`.line_breaks sentence`",
                "one splits the lines that the other keeps whole",
            );
        }
        if self.segmenter != Segmenter::None && !self.do_whole_word_mask && self.max_ngram == 1 {
            let reason = "add `.do_whole_word_mask` or `.max_ngram N`";
            return conflict("segmenter", "masking of single pieces", reason);
        }
        check_utf8(self.strict_utf8, self.lossy_utf8)?;
        self.part()?;
        self.scratch.as_deref().map_or(Ok(()), reject_url)?;
        self.check_columns()?;
        self.check_reference_mode()?;
        self.check_layout()
    }

    /// Rejects a number of shards that cannot hold the row groups of `units` buckets of documents in all passes.
    pub(crate) fn check_shards(&self, shards: usize, units: u64) -> Result<()> {
        let min = min_shards(units) as usize;
        // The reference's rows are not divided into buckets.
        if self.random == RandomMode::Reference || shards >= min {
            return Ok(());
        }
        Err(Error::usage(format!(
            "`.num_shards` is {shards}, but this text and `.dupe_factor` need at least {min}: a Parquet file has at \
             most 32767 row groups, and each bucket of documents in each pass is one"
        )))
    }

    /// Checks that the data set stores masks if its columns include labels.
    fn check_columns(&self) -> Result<()> {
        let hf = self.columns == Columns::Hf;
        let documents = self.layout == Layout::Documents;
        let dynamic = self.masking == Masking::Dynamic;
        let option = "columns hf";
        exclude([
            (hf && documents, option, "`.layout documents`", "stored documents have no pairs and no labels"),
            (hf && dynamic, option, "`.masking dynamic`", "the labels are masks that must be stored"),
        ])
    }

    /// Rejects options for stored instances when documents are stored.
    fn check_layout(&self) -> Result<()> {
        if self.layout == Layout::Instances {
            return Ok(());
        }
        let reference = self.random == RandomMode::Reference;
        let passes = self.dupe_factor != DUPE_FACTOR;
        let masking = self.masking != Masking::Static;
        let with = "`.layout documents`";
        exclude([
            (reference, "random", with, "the reference's draws are serial, over all its instances"),
            (passes, "dupe_factor", with, "the loader makes a new pass over the text in every epoch"),
            (masking, "masking", with, "the loader makes the masks, and the pairs too"),
        ])
    }

    /// Returns the part of the work that the options select.
    pub(crate) fn part(&self) -> Result<Part> {
        let missing = |option, reason| Err(missing_option(option, reason));
        let (index, count) = match (self.part, self.parts) {
            (None, None) => return Ok(Part::WHOLE),
            (Some(index), Some(count)) => (index, count),
            (Some(_), None) => return missing("parts", "it is the number of parts, needed with `.part`"),
            (None, Some(_)) => return missing("part", "`.parts` needs the number of this part"),
        };
        check_value((2..=99_999).contains(&count), "parts", count, "between 2 and 99999")?;
        check_value((1..=count).contains(&index), "part", index, "between 1 and `.parts`")?;
        let shared = "parts share a folder, and one part would remove the shards of the others";
        exclude([
            (self.overwrite, "overwrite", "`.part`", shared),
            (self.preview > 0, "preview", "`.part`", "a part may lack the first shard"),
        ])?;
        Ok(Part { index, count })
    }

    /// Checks the options that depend on the formats of the inputs.
    pub(crate) fn check_formats(&self, formats: &[Format]) -> Result<()> {
        if self.text_column != TEXT_COLUMN && !formats.iter().any(|format| format.has_columns()) {
            return conflict("text_column", "these inputs", "none of them is JSON, Parquet, CSV or TSV");
        }
        if self.random == RandomMode::Reference && formats.iter().any(|&format| format != Format::Text) {
            let reason = "the reference reads plain text in lines only";
            return conflict("input", "`.random reference`", reason);
        }
        if formats.iter().any(|format| format.is_running_text()) {
            self.check_language()?;
        }
        Ok(())
    }

    fn check_reference_mode(&self) -> Result<()> {
        if self.random != RandomMode::Reference {
            return Ok(());
        }
        let shards = self.num_shards.unwrap_or(1);
        let segmented = self.segmenter != Segmenter::None;
        let skips = self.random_word_skip_special;
        let with = "`.random reference`";
        exclude([
            (self.splits_lines(), "split_sentences", with, "the reference does not split sentences"),
            (
                self.line_breaks == LineBreaks::Wrapped,
                "line_breaks wrapped",
                with,
                "the reference reads lines as they are",
            ),
            (shards != 1, "num_shards", with, "the reference's order is kept in one shard"),
            (self.part.is_some(), "part", with, "the reference draws serially"),
            (self.nsp != Nsp::On, "nsp", with, "the reference has next sentence prediction only"),
            (self.masking == Masking::Dynamic, "masking", with, "the reference masks when it makes the data"),
            (segmented, "segmenter", with, "the reference treats every ideograph as a word"),
            (self.max_ngram > 1, "max_ngram", with, "the reference masks single pieces or words"),
            (self.hold_out.is_some(), "hold_out", with, "the reference has no held-out data"),
            (skips, "random_word_skip_special", with, "the reference draws from the whole vocabulary"),
        ])
    }
}
