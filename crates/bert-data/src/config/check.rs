//! Refuses option values that are out of range and flags that exclude each other.

use super::{
    BuildConfig, Columns, DUPE_FACTOR, LONGEST_SEQUENCE, Layout, Masking, Nsp, RandomMode, Segmenter,
    TEXT_COLUMN,
};
use crate::error::{OptionError, Result};

/// The longest span of words that is masked at once: longer ones are refused as mistakes.
const MOST_WORDS: usize = 64;

impl BuildConfig {
    /// Checks every value that can be checked without reading a file.
    ///
    /// # Errors
    /// [`OptionError::Invalid`] or [`OptionError::Conflict`], naming the flag, its value and what is accepted.
    pub fn check(&self) -> Result<()> {
        let invalid = |option, value: &dyn ToString, expected| {
            Err(OptionError::Invalid { option, value: value.to_string(), expected }.into())
        };
        if !(8..=LONGEST_SEQUENCE).contains(&self.max_seq_length) {
            return invalid("max-seq-length", &self.max_seq_length, "between 8 and 65535");
        }
        if let Some(most) = self.max_predictions_per_seq
            && !(1..self.max_seq_length).contains(&most)
        {
            return invalid("max-predictions-per-seq", &most, "at least 1 and below --max-seq-length");
        }
        if !(1..=MOST_WORDS).contains(&self.max_ngram) {
            return invalid("max-ngram", &self.max_ngram, "between 1 and 64");
        }
        if !(self.masked_lm_prob > 0.0 && self.masked_lm_prob <= 1.0) {
            return invalid("masked-lm-prob", &self.masked_lm_prob, "above 0 and at most 1");
        }
        if !(0.0..=1.0).contains(&self.short_seq_prob) {
            return invalid("short-seq-prob", &self.short_seq_prob, "between 0 and 1");
        }
        if !(1..=1_000_000).contains(&self.dupe_factor) {
            return invalid("dupe-factor", &self.dupe_factor, "between 1 and 1000000");
        }
        if self.threads > 4096 {
            return invalid("threads", &self.threads, "at most 4096");
        }
        if let Some(shards) = self.num_shards
            && !(1..=99_999).contains(&shards)
        {
            return invalid("num-shards", &shards, "between 1 and 99999");
        }
        if self.split_sentences {
            self.check_language()?;
        }
        if self.segmenter != Segmenter::None && !self.do_whole_word_mask && self.max_ngram == 1 {
            let (with, reason) = ("masking of single pieces", "add --do-whole-word-mask or --max-ngram N");
            return Err(OptionError::Conflict { option: "segmenter", with, reason }.into());
        }
        if self.segmenter == Segmenter::Chinese && !cfg!(feature = "chinese") {
            let (with, reason) = ("this build", "it was made without the feature `chinese`");
            return Err(OptionError::Conflict { option: "segmenter", with, reason }.into());
        }
        if self.strict_utf8 && self.lossy_utf8 {
            let (with, reason) = ("--strict-utf8", "one refuses what the other repairs");
            return Err(OptionError::Conflict { option: "lossy-utf8", with, reason }.into());
        }
        self.check_part()?;
        self.check_columns()?;
        self.check_reference_mode()?;
        self.check_layout()
    }

    /// Checks that there are masks to store, where the columns have labels.
    fn check_columns(&self) -> Result<()> {
        if self.columns == Columns::Reference {
            return Ok(());
        }
        let refused = [
            (
                self.layout == Layout::Documents,
                "--layout documents",
                "documents have neither pairs nor labels",
            ),
            (
                self.masking == Masking::Dynamic,
                "--masking dynamic",
                "the labels are masks that must be stored",
            ),
        ];
        match refused.into_iter().find(|(refused, ..)| *refused) {
            Some((_, with, reason)) => {
                Err(OptionError::Conflict { option: "columns hf", with, reason }.into())
            }
            None => Ok(()),
        }
    }

    /// Checks that no option for instances on disk comes with documents on disk.
    fn check_layout(&self) -> Result<()> {
        if self.layout == Layout::Instances {
            return Ok(());
        }
        let with = "--layout documents";
        let refused = [
            (
                self.random == RandomMode::Reference,
                "random",
                "the reference's draws are serial, over all its instances",
            ),
            (
                self.dupe_factor != DUPE_FACTOR,
                "dupe-factor",
                "the loader makes a new pass over the text in every epoch",
            ),
            (self.masking != Masking::Static, "masking", "the loader makes the masks, and the pairs too"),
        ];
        match refused.into_iter().find(|(refused, ..)| *refused) {
            Some((_, option, reason)) => Err(OptionError::Conflict { option, with, reason }.into()),
            None => Ok(()),
        }
    }

    pub(super) fn check_part(&self) -> Result<()> {
        let (part, parts) = match (self.part, self.parts) {
            (None, None) => return Ok(()),
            (Some(part), Some(parts)) => (part, parts),
            (Some(_), None) => {
                return Err(
                    OptionError::Missing { option: "parts", reason: "--part is one of so many" }.into()
                );
            }
            (None, Some(_)) => {
                return Err(OptionError::Missing {
                    option: "part",
                    reason: "--parts needs to know which one",
                }
                .into());
            }
        };
        if !(2..=99_999).contains(&parts) {
            let expected = "between 2 and 99999";
            return Err(OptionError::Invalid { option: "parts", value: parts.to_string(), expected }.into());
        }
        if !(1..=parts).contains(&part) {
            let expected = "between 1 and --parts";
            return Err(OptionError::Invalid { option: "part", value: part.to_string(), expected }.into());
        }
        let with = "--part";
        let refused = [
            (self.overwrite, "overwrite", "parts share a folder, and one would remove what the others made"),
            (self.preview > 0, "preview", "a part need not have the first shard"),
        ];
        match refused.into_iter().find(|(refused, ..)| *refused) {
            Some((_, option, reason)) => Err(OptionError::Conflict { option, with, reason }.into()),
            None => Ok(()),
        }
    }

    fn check_language(&self) -> Result<()> {
        if crate::config::language::speaks(&self.language) {
            return Ok(());
        }
        let expected = "an ISO 639 code that the sentence splitter knows, such as en";
        Err(OptionError::Invalid { option: "language", value: self.language.clone(), expected }.into())
    }

    /// Checks what depends on the formats of the inputs: whether any is a table.
    pub(crate) fn check_tables(&self, any: bool) -> Result<()> {
        if !any && self.text_column != TEXT_COLUMN {
            let (with, reason) = ("these inputs", "none of them is JSON Lines or Parquet");
            return Err(OptionError::Conflict { option: "text-column", with, reason }.into());
        }
        if any && self.random == RandomMode::Reference {
            let reason = "the reference reads plain text, not JSON Lines or Parquet";
            return Err(OptionError::Conflict { option: "input", with: "--random reference", reason }.into());
        }
        if any { self.check_language() } else { Ok(()) }
    }

    fn check_reference_mode(&self) -> Result<()> {
        if self.random != RandomMode::Reference {
            return Ok(());
        }
        let with = "--random reference";
        let refused = [
            (self.split_sentences, "split-sentences", "the reference does not split sentences"),
            (
                self.num_shards.is_some_and(|shards| shards != 1),
                "num-shards",
                "the reference's order is kept in one shard",
            ),
            (self.part.is_some(), "part", "the reference draws serially"),
            (self.nsp != Nsp::On, "nsp", "the reference knows next sentence prediction only"),
            (self.masking == Masking::Dynamic, "masking", "the reference masks when it makes the data"),
            (
                self.segmenter != Segmenter::None,
                "segmenter",
                "the reference takes every ideograph for a word",
            ),
            (self.max_ngram > 1, "max-ngram", "the reference masks single pieces or words"),
            (
                self.random_word_skip_special,
                "random-word-skip-special",
                "the reference draws from the whole vocabulary",
            ),
        ];
        match refused.into_iter().find(|(refused, ..)| *refused) {
            Some((_, option, reason)) => Err(OptionError::Conflict { option, with, reason }.into()),
            None => Ok(()),
        }
    }
}
