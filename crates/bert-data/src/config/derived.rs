//! Values that follow from several options.

use std::borrow::Cow;
use std::path::Path;

use bert_storage::on_disk;
use bert_tokenization::PartialSettings;

use crate::config::{BuildConfig, Layout, LineBreaks, Masking, Nsp, RandomMode};
use crate::error::{Result, missing_option};

/// The reference's cap on masked tokens, independent of the length.
const REFERENCE_PREDICTIONS: usize = 20;

impl BuildConfig {
    /// Returns the maximum number of tokens of a sentence: the room that `[CLS]` and two `[SEP]` leave in an instance.
    /// The length is unlimited in reference mode, and for instances of one segment, because these are cut inside
    /// sentences.
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

    /// Returns the maximum number of masked tokens of an instance: the given value, else the default of the mode. In
    /// keyed mode, the default follows from the length and the masked fraction; in reference mode, it is 20, as in the
    /// script.
    pub fn max_predictions(&self) -> usize {
        let by_default = match self.random {
            RandomMode::Keyed => default_max_predictions(self.max_seq_length, self.masked_lm_prob),
            RandomMode::Reference => REFERENCE_PREDICTIONS,
        };
        // The default is lowered for instances that are shorter than it.
        self.max_predictions_per_seq.unwrap_or(by_default.min(self.max_seq_length.saturating_sub(1)).max(1))
    }

    /// Returns a warning if the cap on masked tokens leaves noticeably fewer masked tokens than `--masked-lm-prob` asks
    /// for.
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

    /// Returns the number of stored passes over the text; if documents are stored, one pass, which is counted but not
    /// stored.
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

/// Returns the number of tokens to mask: a fraction of *all* tokens of an instance, rounded half to even, at least one.
pub fn number_to_predict(tokens: usize, masked_lm_prob: f64, max_predictions_per_seq: usize) -> usize {
    let rounded = (tokens as f64 * masked_lm_prob).round_ties_even() as usize;
    rounded.max(1).min(max_predictions_per_seq)
}

/// Returns the smallest cap that never lowers the number of masked tokens: the fraction of a full-length instance,
/// rounded up.
pub fn default_max_predictions(max_seq_length: usize, masked_lm_prob: f64) -> usize {
    let share = max_seq_length as f64 * masked_lm_prob;
    // 100 x 0.07 is 7.000000000000001 in floating point, but should count as 7.
    let whole = share.round();
    if (share - whole).abs() < 1e-9 * share { whole as usize } else { share.ceil() as usize }
}

/// Returns a warning if a cap removes more than a tenth of the masked tokens of a full-length instance.
pub(crate) fn warn_of_cap(max_seq_length: usize, masked_lm_prob: f64, cap: usize) -> Option<String> {
    let max = max_seq_length - 1;
    let wanted = number_to_predict(max_seq_length, masked_lm_prob, max);
    if 10 * wanted.saturating_sub(cap) <= wanted {
        return None;
    }
    let percent = |tokens: usize| 100.0 * tokens as f64 / max_seq_length as f64;
    Some(format!(
        "At most {cap} tokens of an instance are masked (--max-predictions-per-seq): {:.1} % of one of {max_seq_length} \
         tokens, not {:.1} % as --masked-lm-prob {masked_lm_prob} asks for. --max-predictions-per-seq {} is enough.",
        percent(cap),
        percent(wanted),
        default_max_predictions(max_seq_length, masked_lm_prob).min(max),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_rounded_half_to_even() {
        for (tokens, max, expected) in
            [(128, 20, 19), (10, 20, 2), (30, 20, 4), (2, 20, 1), (3, 20, 1), (512, 20, 20), (512, 80, 77)]
        {
            assert_eq!(number_to_predict(tokens, 0.15, max), expected, "{tokens} tokens, at most {max}");
        }
    }

    #[test]
    fn the_default_cap_never_binds() {
        for (length, share, expected) in
            [(128, 0.15, 20), (512, 0.15, 77), (100, 0.07, 7), (200, 0.15, 30), (32, 0.15, 5), (8, 1.0, 8)]
        {
            assert_eq!(default_max_predictions(length, share), expected, "{length} x {share}");
        }
        for length in 8..=1024 {
            for share in [0.01, 0.07, 0.15, 0.2, 0.3, 0.5] {
                let cap = default_max_predictions(length, share);
                let free = number_to_predict(length, share, usize::MAX);
                assert!((free..=free + 1).contains(&cap), "{length} x {share}: {cap} for {free}");
            }
        }
    }

    #[test]
    fn a_cap_that_takes_more_than_a_tenth_is_warned_about() {
        assert_eq!(warn_of_cap(512, 0.15, 70), None, "77 are wanted");
        let text = warn_of_cap(512, 0.15, 20).unwrap();
        assert!(text.contains("At most 20") && text.contains("3.9 %") && text.contains("15.0 %"), "{text}");
        assert!(text.contains("--max-predictions-per-seq 77 is enough"), "{text}");
        assert!(warn_of_cap(512, 0.15, 69).is_some());
        for length in [8, 32, 128, 512, 1024] {
            assert_eq!(warn_of_cap(length, 0.15, default_max_predictions(length, 0.15)), None, "{length}");
        }
        assert_eq!(warn_of_cap(128, 0.15, 18), None);
        assert!(warn_of_cap(128, 0.15, 17).is_some());
    }
}
