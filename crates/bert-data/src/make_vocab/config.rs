//! The options of vocabulary training. Each is defined once: field = command-line flag = help text.

use std::borrow::Cow;

use bert_text::line_check::BadLines;
use bert_text::{Reading, TEXT_COLUMN, TextRules};
use bert_tokenization::TokenizerSettings;
use bert_tokenization::turkic::{is_turkic, turkic_lower_case};
use serde::{Deserialize, Serialize};

use crate::config::check::{check_threads, check_utf8};
use crate::documents::marks::LostMarks;
use crate::error::{Result, check_value};

/// Maximum number of distinct words that are counted; enough for tens of gigabytes of text.
const MAX_WORDS: usize = 5_000_000;
/// Minimum value of `max_words`.
const MIN_WORDS: usize = 1000;

/// Options for training a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[setters(prefix = "with_", strip_option)]
#[serde(default, deny_unknown_fields)]
pub struct VocabConfig {
    /// Number of tokens. Special tokens and the alphabet are included. It is smaller if the text has no more pairs to
    /// merge.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = VocabConfig::default().vocab_size))]
    pub vocab_size: usize,

    /// Minimum number of occurrences of a pair before it is merged.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = VocabConfig::default().min_frequency))]
    pub min_frequency: u64,

    /// Lower-case the text.
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", default_value_t = VocabConfig::default().do_lower_case, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true"))]
    pub do_lower_case: bool,

    /// Strip accents (nonspacing marks) [default: as --do-lower-case, but false if marks are letters of the script of the
    /// text, as in Hindi, Thai and Japanese].
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"))]
    pub strip_accents: Option<bool>,

    /// Treat each ideograph as a separate word.
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", default_value_t = VocabConfig::default().tokenize_chinese_chars, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true"))]
    pub tokenize_chinese_chars: bool,

    /// Maximum size of the alphabet. It has the most frequent characters; words with others become `[UNK]`. Default: 1000, or more until they cover 99.99 % of the text (about 7000 for Chinese), but at most half of
    /// --vocab-size. Room that merged pieces do not fill is used for further characters.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub limit_alphabet: Option<usize>,

    /// Maximum number of distinct words to count. Each takes about 300 bytes of memory. If the text has more, the rarest
    /// words are dropped and a note gives their number; their characters are still counted.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = VocabConfig::default().max_words))]
    pub max_words: usize,

    /// Reject lines that are not UTF-8. Otherwise up to one line in twenty of a file is repaired.
    #[cfg_attr(feature = "cli", arg(long))]
    pub strict_utf8: bool,

    /// Repair all lines that are not UTF-8.
    #[cfg_attr(feature = "cli", arg(long, conflicts_with = "strict_utf8"))]
    pub lossy_utf8: bool,

    /// Reject null and empty rows of tables instead of skipping them.
    #[cfg_attr(feature = "cli", arg(long))]
    pub strict_rows: bool,

    /// Key or column of JSON, Parquet, CSV and TSV that contains the text.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = VocabConfig::default().text_column, value_name = "NAME"))]
    #[setters(into)]
    pub text_column: String,

    /// Language of the text: with tr and az, I and dotted I are lower-cased as in Turkish.
    #[cfg_attr(feature = "cli", arg(long, value_name = "CODE", hide_short_help = true))]
    #[setters(into)]
    pub language: Option<String>,

    /// Compute threads; 0 means one per core. The vocabulary does not depend on it.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = VocabConfig::default().threads))]
    pub threads: usize,
}

impl Default for VocabConfig {
    fn default() -> Self {
        Self {
            vocab_size: 30_522,
            min_frequency: 2,
            do_lower_case: true,
            strip_accents: None,
            tokenize_chinese_chars: true,
            limit_alphabet: None,
            max_words: MAX_WORDS,
            strict_utf8: false,
            lossy_utf8: false,
            strict_rows: false,
            text_column: TEXT_COLUMN.to_owned(),
            language: None,
            threads: 0,
        }
    }
}

impl VocabConfig {
    pub(super) fn check(&self) -> Result<()> {
        check_value(self.max_words >= MIN_WORDS, "max_words", self.max_words, "at least 1000")?;
        check_threads(self.threads)?;
        check_utf8(self.strict_utf8, self.lossy_utf8)
    }

    /// Returns a text with I and dotted I in lower case, if the options ask for it.
    pub(super) fn folded<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let folds = self.do_lower_case && self.language.as_deref().is_some_and(is_turkic);
        if folds { turkic_lower_case(text) } else { text.into() }
    }

    /// Returns these options with a decision about accents: if no option asks to strip accents, marks that are letters
    /// of their script are kept.
    pub(super) fn with_marks(&self, lost: &LostMarks) -> Self {
        let keeps = self.strip_accents.is_none() && self.do_lower_case && lost.are_letters();
        Self { strip_accents: if keeps { Some(false) } else { self.strip_accents }, ..self.clone() }
    }

    /// Returns a note about accents that were stripped, or that were kept although no option asked for it.
    pub(super) fn accents_note(&self, lost: &LostMarks) -> Option<String> {
        let share = lost.share()?;
        if self.with_marks(lost).tokenizer_settings().strips_accents() {
            return Some(format!("{share} lose accents; --strip-accents false keeps them"));
        }
        (self.strip_accents.is_none() && self.do_lower_case).then(|| {
            format!("{share} have marks that are letters of their script, so accents were kept; --strip-accents true strips them")
        })
    }

    /// Returns the settings with which the text is normalized.
    pub fn tokenizer_settings(&self) -> TokenizerSettings {
        TokenizerSettings {
            do_lower_case: self.do_lower_case,
            strip_accents: self.strip_accents,
            tokenize_chinese_chars: self.tokenize_chinese_chars,
            ..TokenizerSettings::default()
        }
    }

    pub(super) fn text_rules(&self) -> TextRules<'_> {
        TextRules {
            reading: Reading { text_column: &self.text_column, ..Reading::default() },
            bad_lines: BadLines::from_flags(self.strict_utf8, self.lossy_utf8),
            strict_rows: self.strict_rows,
        }
    }
}
