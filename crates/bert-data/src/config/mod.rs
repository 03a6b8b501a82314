//! The options of the data builder. Each is defined once: field = command-line flag = JSON key = help text.
//!
//! Names and defaults are those of the reference's `create_pretraining_data.py`. [`BuildConfig::check`] refuses options
//! that do not fit together. [`crate::ResolvedConfig`] is saved with the data. The builder decides what depends on the
//! text, such as the number of shards.

pub(crate) mod byte_size;
pub(crate) mod check;
pub(crate) mod part;
pub mod predictions;
pub(crate) mod resolved;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::byte_size::ByteSize;
use crate::config::predictions::{enough_predictions, warn_of_cap};
use crate::error::{OptionError, Result};
use crate::tokenization::settings::StatedSettings;
use bert_storage::on_disk;

/// Where the random draws come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum RandomMode {
    /// ChaCha streams addressed by seed, pass and document; the reference's known defects are mended.
    #[default]
    Keyed,
    /// CPython's Mersenne Twister, drawn serially: exactly the instances of the 2018 script, defects included.
    Reference,
}

/// What the two segments of an instance are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Nsp {
    /// B follows A, or is taken from another document (label 1): next sentence prediction.
    #[default]
    On,
    /// One segment of consecutive sentences; the label is always 0 and means nothing.
    Off,
    /// A and B are consecutive, in this order or swapped (label 1): sentence order prediction, as in ALBERT.
    Sop,
}

/// When instances are masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Masking {
    /// Once, by the builder: every epoch sees the same masks.
    #[default]
    Static,
    /// By the loader, other masks in every epoch; the data set holds instances without masks.
    Dynamic,
}

/// Where whole words begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Segmenter {
    /// Where a piece without `##` begins: every ideograph is a word.
    #[default]
    None,
    /// The ideographs of a Chinese word, found by jieba, are one word.
    Chinese,
}

/// What the shards hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Instances, made by the builder in so many passes over the text.
    #[default]
    Instances,
    /// The tokenized documents, each once; the loader makes pairs and masks, other ones in every epoch.
    Documents,
}

/// As which columns instances are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Columns {
    /// The reference's fields, without padding: for `pretrain`.
    #[default]
    Reference,
    /// The arguments of `BertForPreTraining` in transformers, padded to --max-seq-length: for its `Trainer`, and for
    /// `pretrain` too.
    Hf,
}

/// How to make pre-training data from text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[setters(prefix = "with_", strip_option)]
#[serde(default, deny_unknown_fields)]
pub struct BuildConfig {
    /// Text: files, folders, patterns or URLs of an object store; plain, gzip, zstd, bzip2 or xz. One sentence per line, a blank line between documents;
    /// or JSON, Parquet, CSV and TSV with one document of running text in each row. Files are told apart by what they hold.
    /// Decompressing takes as much memory as the file's window, 2 GiB at most (zstd --long=31).
    /// In folders and by patterns, names that begin with . or _ are skipped. A list with commas is split where no file has its
    /// name.
    #[cfg_attr(feature = "cli", arg(long, visible_alias = "input-file", num_args = 1.., value_name = "PATH"))]
    pub input: Vec<PathBuf>,

    /// Folder or URL for the shards and their manifest; must be new or empty.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub output: Option<PathBuf>,

    /// WordPiece vocabulary: vocab.txt with one token on each line, tokenizer.json, or the folder of a model; or a URL of
    /// a file.
    #[cfg_attr(feature = "cli", arg(long, visible_alias = "vocab-file", value_name = "FILE"))]
    #[setters(into)]
    pub vocab: Option<PathBuf>,

    /// Lower-case the text, for uncased vocabularies [default: as the tokenizer_config.json or tokenizer.json next to the
    /// vocabulary says, else true].
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"))]
    pub do_lower_case: Option<bool>,

    /// Strip accents (nonspacing marks) from the text [default: as these files say, else as --do-lower-case, but false
    /// where more than 1 % of the words of a lower-cased vocabulary have accents].
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"))]
    pub strip_accents: Option<bool>,

    /// Take each ideograph as a word of its own [default: as these files say, else true].
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"))]
    pub tokenize_chinese_chars: Option<bool>,

    /// Mask whole words instead of single word pieces.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().do_whole_word_mask, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true"))]
    pub do_whole_word_mask: bool,

    /// Where whole words begin, for --do-whole-word-mask and --max-ngram: chinese takes the ideographs of a Chinese word
    /// together (simplified Chinese best). The tokens stay single ideographs.
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().segmenter))]
    pub segmenter: Segmenter,

    /// Store instances, or the tokenized documents, of which the loader makes other pairs and masks in every epoch
    /// (then without --dupe-factor and --masking; some fifty times smaller than the reference's files).
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().layout))]
    pub layout: Layout,

    /// Columns of the instances: the reference's, or those that the Trainer of transformers takes as they are (input_ids,
    /// token_type_ids, attention_mask, labels, next_sentence_label), padded.
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().columns))]
    pub columns: Columns,

    /// Mask when the data is made, or leave it to the loader, which makes other masks in every epoch (a small
    /// --dupe-factor is then enough).
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().masking))]
    pub masking: Masking,

    /// Mask spans of 1 to N whole words, the length n with weight 1/n, as ALBERT does.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().max_ngram, value_name = "N"))]
    pub max_ngram: usize,

    /// Never replace a masked token by a special or an [unused...] one.
    #[cfg_attr(feature = "cli", arg(long))]
    pub random_word_skip_special: bool,

    /// Segments: B follows A or is random, one segment only, or A and B swapped in half of the instances.
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().nsp))]
    pub nsp: Nsp,

    /// Most tokens of an instance, the special ones included.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().max_seq_length))]
    pub max_seq_length: usize,

    /// Most masked tokens of an instance; default: --max-seq-length times --masked-lm-prob, rounded up (20 at 128, 77 at
    /// 512); with --random reference the reference's 20.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_predictions_per_seq: Option<usize>,

    /// Share of the tokens of an instance that are masked.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().masked_lm_prob))]
    pub masked_lm_prob: f64,

    /// Probability that a document's instances of one pass are made short.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().short_seq_prob))]
    pub short_seq_prob: f64,

    /// How many passes are made over the text, each with other pairs and masks.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().dupe_factor))]
    pub dupe_factor: usize,

    /// Seed of every random draw.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().random_seed))]
    pub random_seed: u64,

    /// Number of Parquet files; default: one for about 128 MB.
    #[cfg_attr(feature = "cli", arg(long))]
    pub num_shards: Option<usize>,

    /// Worker threads; 0 means one per core. The output does not depend on it.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().threads))]
    pub threads: usize,

    /// Memory to use, as 400M or 2G; default: 256M, more where there are many threads. The output does not depend on it.
    #[cfg_attr(feature = "cli", arg(long, value_name = "SIZE"))]
    pub memory_budget: Option<ByteSize>,

    /// A folder for the tokenized text while the data set is made, 2.2 bytes a token: a fast disk; parts need one that all
    /// share. Each output has a folder of its own in it. Default: the output folder. `bert merge` takes it too, to remove
    /// what is left there.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub scratch: Option<PathBuf>,

    /// Make one part of the work only, this one of --parts (from 1), for one machine of many; see `bert merge`.
    #[cfg_attr(feature = "cli", arg(long, requires = "parts", value_name = "I"))]
    pub part: Option<usize>,

    /// Into how many parts the work is split.
    #[cfg_attr(feature = "cli", arg(long, requires = "part", value_name = "N"))]
    pub parts: Option<usize>,

    /// Random draws: independent streams, or exactly those of the reference script (one shard, its defects too).
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().random))]
    pub random: RandomMode,

    /// Show so many instances as words, masks marked.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().preview, value_name = "N"))]
    pub preview: usize,

    /// The lines are paragraphs of running text: split them into sentences.
    #[cfg_attr(feature = "cli", arg(long))]
    pub split_sentences: bool,

    /// Language of the text for --split-sentences (ISO 639 code); the rows of JSON, Parquet, CSV and TSV are always split.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().language))]
    #[setters(into)]
    pub language: String,

    /// The key or column with the text of JSON, Parquet, CSV and TSV.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().text_column, value_name = "NAME"))]
    #[setters(into)]
    pub text_column: String,

    /// Refuse the first line that is not UTF-8 instead of repairing and counting up to one line in twenty of a file.
    #[cfg_attr(feature = "cli", arg(long))]
    pub strict_utf8: bool,

    /// Repair and count all lines that are not UTF-8, however many of a file they are.
    #[cfg_attr(feature = "cli", arg(long, conflicts_with = "strict_utf8"))]
    pub lossy_utf8: bool,

    /// Refuse null and empty rows of JSON Lines and Parquet instead of skipping and counting them.
    #[cfg_attr(feature = "cli", arg(long))]
    pub strict_rows: bool,

    /// Replace a finished data set of other options or text in the output folder. One of the same is kept without it.
    #[cfg_attr(feature = "cli", arg(long))]
    pub overwrite: bool,
}

impl BuildConfig {
    /// The defaults, for text, a vocabulary and a folder that is to hold the data set.
    ///
    /// ```
    /// use bert_data::BuildConfig;
    ///
    /// let config = BuildConfig::new(["corpus/*.txt"], "vocab.txt", "data").with_dupe_factor(5).with_max_seq_length(64);
    /// assert_eq!((config.dupe_factor, config.masked_lm_prob), (5, 0.15));
    /// ```
    #[must_use]
    pub fn new(
        input: impl IntoIterator<Item: Into<PathBuf>>,
        vocab: impl Into<PathBuf>,
        output: impl Into<PathBuf>,
    ) -> Self {
        let input = input.into_iter().map(Into::into).collect();
        Self { input, vocab: Some(vocab.into()), output: Some(output.into()), ..Self::default() }
    }
}

impl Default for BuildConfig {
    fn default() -> Self {
        Self {
            input: Vec::new(),
            output: None,
            vocab: None,
            do_lower_case: None,
            strip_accents: None,
            tokenize_chinese_chars: None,
            do_whole_word_mask: false,
            segmenter: Segmenter::None,
            layout: Layout::Instances,
            columns: Columns::Reference,
            masking: Masking::Static,
            max_ngram: 1,
            random_word_skip_special: false,
            nsp: Nsp::On,
            max_seq_length: 128,
            max_predictions_per_seq: None,
            masked_lm_prob: 0.15,
            short_seq_prob: 0.1,
            dupe_factor: DUPE_FACTOR,
            random_seed: 12345,
            num_shards: None,
            threads: 0,
            memory_budget: None,
            scratch: None,
            part: None,
            parts: None,
            random: RandomMode::Keyed,
            preview: 0,
            split_sentences: false,
            language: "en".to_owned(),
            text_column: TEXT_COLUMN.to_owned(),
            strict_utf8: false,
            lossy_utf8: false,
            strict_rows: false,
            overwrite: false,
        }
    }
}

/// The passes over the text where nothing else is asked for.
const DUPE_FACTOR: usize = 10;

/// The cap on masked tokens of the reference, whatever the length.
const REFERENCE_PREDICTIONS: usize = 20;

/// The usual name of the column with the text.
pub(crate) const TEXT_COLUMN: &str = "text";

/// The most row groups of a Parquet file: its writers number them with 16 bits.
pub(crate) const MOST_ROW_GROUPS: u64 = i16::MAX as u64;

/// The longest sequence that can be stored: lengths take two bytes on their way.
pub(crate) const LONGEST_SEQUENCE: usize = u16::MAX as usize;

impl BuildConfig {
    /// The most tokens of a sentence: what an instance has room for beside `[CLS]` and `[SEP]`. No limit where the
    /// reference's rules hold, and where an instance is one segment, which cuts sentences anyway.
    pub(crate) fn longest_sentence(&self) -> usize {
        match (self.random, self.nsp) {
            (RandomMode::Reference, _) | (_, Nsp::Off) => usize::MAX,
            _ => self.max_seq_length - 3,
        }
    }

    /// Most masked tokens of an instance: what was given, else the default of the mode, which for keyed draws follows
    /// from the length and the share, and for the reference is the script's.
    #[must_use]
    pub fn max_predictions(&self) -> usize {
        let by_default = match self.random {
            RandomMode::Keyed => enough_predictions(self.max_seq_length, self.masked_lm_prob),
            RandomMode::Reference => REFERENCE_PREDICTIONS,
        };
        // The default fits lengths that are shorter than it.
        self.max_predictions_per_seq.unwrap_or(by_default.min(self.max_seq_length.saturating_sub(1)).max(1))
    }

    /// A warning where the cap on masked tokens masks noticeably less than `--masked-lm-prob` says.
    #[must_use]
    pub fn cap_warning(&self) -> Option<String> {
        warn_of_cap(self.max_seq_length, self.masked_lm_prob, self.max_predictions())
    }

    /// Whether the data set has masks: never where the documents are stored.
    pub(crate) fn stored_masking(&self) -> Masking {
        match self.layout {
            Layout::Instances => self.masking,
            Layout::Documents => Masking::Dynamic,
        }
    }

    /// Passes over the text that are made and stored: one, for its counts, where the documents are stored.
    pub(crate) fn passes(&self) -> usize {
        match self.layout {
            Layout::Instances => self.dupe_factor,
            Layout::Documents => 1,
        }
    }

    /// The settings of the tokenizer that are given as options.
    pub(crate) fn stated_settings(&self) -> StatedSettings {
        StatedSettings {
            do_lower_case: self.do_lower_case,
            strip_accents: self.strip_accents,
            tokenize_chinese_chars: self.tokenize_chinese_chars,
        }
    }

    pub(crate) fn vocab(&self) -> Result<&Path> {
        let (option, reason) = ("vocab", "it maps words to ids");
        Ok(self.vocab.as_deref().ok_or(OptionError::Missing { option, reason })?)
    }

    pub(crate) fn output(&self) -> Result<Cow<'_, Path>> {
        let (option, reason) = ("output", "the shards are written there");
        Ok(self.output.as_deref().map(on_disk).ok_or(OptionError::Missing { option, reason })?)
    }
}
