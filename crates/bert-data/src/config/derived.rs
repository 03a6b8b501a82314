//! Values that follow from several options.

use std::borrow::Cow;
use std::path::Path;

use bert_storage::on_disk;
use bert_tokenization::PartialSettings;

use crate::config::predictions::{default_max_predictions, warn_of_cap};
use crate::config::{BuildConfig, Layout, LineBreaks, Masking, Nsp, RandomMode};
use crate::error::{Result, missing_option};

/// The reference's cap on masked tokens, independent of the length.
const REFERENCE_PREDICTIONS: usize = 20;

impl BuildConfig {
    /// Returns the maximum number of tokens of a sentence: the room in an instance next to `[CLS]` and `[SEP]`. The
    /// length is unlimited in reference mode and for instances of one segment, which cut sentences anyway.
    pub(crate) fn max_sentence_tokens(&self) -> usize {
        match (self.random, self.nsp) {
            (RandomMode::Reference, _) | (_, Nsp::Off) => usize::MAX,
            _ => self.max_seq_length - 3,
        }
    }

    /// Returns whether lines of plain text are split into sentences.
    pub(crate) fn splits_lines(&self) -> bool {
        self.split_sentences || self.line_breaks == LineBreaks::Paragraph
    }

    /// Returns the maximum number of masked tokens of an instance: the given value, else the default of the mode. For
    /// keyed draws it follows from the length and the masked fraction; for the reference it is the script's 20.
    pub fn max_predictions(&self) -> usize {
        let by_default = match self.random {
            RandomMode::Keyed => default_max_predictions(self.max_seq_length, self.masked_lm_prob),
            RandomMode::Reference => REFERENCE_PREDICTIONS,
        };
        // The default is lowered for instances that are shorter than it.
        self.max_predictions_per_seq.unwrap_or(by_default.min(self.max_seq_length.saturating_sub(1)).max(1))
    }

    /// Returns a warning if the cap on masked tokens masks noticeably fewer tokens than `--masked-lm-prob` asks for.
    pub fn cap_warning(&self) -> Option<String> {
        warn_of_cap(self.max_seq_length, self.masked_lm_prob, self.max_predictions())
    }

    /// Returns how the stored rows are masked: stored documents never have masks.
    pub(crate) fn stored_masking(&self) -> Masking {
        match self.layout {
            Layout::Instances => self.masking,
            Layout::Documents => Masking::Dynamic,
        }
    }

    /// Returns the number of stored passes over the text; if documents are stored, one pass, which is only counted.
    pub(crate) fn passes(&self) -> usize {
        match self.layout {
            Layout::Instances => self.dupe_factor,
            Layout::Documents => 1,
        }
    }

    /// Returns the tokenizer settings that are given as options.
    pub(crate) fn stated_settings(&self) -> PartialSettings {
        PartialSettings {
            do_lower_case: self.do_lower_case,
            strip_accents: self.strip_accents,
            tokenize_chinese_chars: self.tokenize_chinese_chars,
            // A special token in a corpus is plain text.
            split_special_tokens: Some(true),
        }
    }

    pub(crate) fn vocab(&self) -> Result<&Path> {
        let option = "vocab";
        let reason = "it maps words to ids";
        self.vocab.as_deref().ok_or(missing_option(option, reason))
    }

    pub(crate) fn output(&self) -> Result<Cow<'_, Path>> {
        let option = "output";
        let reason = "the shards are written there";
        self.output.as_deref().map(on_disk).ok_or(missing_option(option, reason))
    }
}
