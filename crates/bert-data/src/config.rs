//! Every option of the data builder, once: field = command-line flag = JSON key = help text.
//!
//! In go flags or JSON, out comes a checked [`BuildConfig`], and from it the [`ResolvedConfig`] that is saved with
//! the data and read back by [`BuildConfig::read`]. Not for defaults that depend on the text (the number of shards): the builder resolves those. Names and
//! defaults are those of the reference's `create_pretraining_data.py`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::budget::ByteSize;
use crate::error::{Error, OptionError, Result};
use crate::files::read_limited;
use crate::manifest::MANIFEST;
use crate::masking::{enough_predictions, warn_of_cap};
use crate::part::Part;
use crate::resolved_config::ResolvedConfig;
use crate::sealed::LARGEST;

/// Where the random draws come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RandomMode {
    /// ChaCha streams addressed by seed, pass and document; the reference's known defects are mended.
    #[default]
    Keyed,
    /// CPython's Mersenne Twister, drawn serially: exactly the instances of the 2018 script, defects included.
    Reference,
}

/// What the two segments of an instance are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Masking {
    /// Once, by the builder: every epoch sees the same masks.
    #[default]
    Static,
    /// By the loader, other masks in every epoch; the data set holds instances without masks.
    Dynamic,
}

/// Where whole words begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Segmenter {
    /// Where a piece without `##` begins: every ideograph is a word.
    #[default]
    None,
    /// The ideographs of a Chinese word, found by jieba, are one word.
    Chinese,
}

impl Segmenter {
    /// How many different ids there are on the way from reading to masking ([`crate::word_marks`]).
    pub(crate) fn id_space(self, vocabulary: usize) -> usize {
        match self {
            Self::None => vocabulary,
            Self::Chinese => 2 * vocabulary,
        }
    }
}

/// What the shards hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Instances, made by the builder in so many passes over the text.
    #[default]
    Instances,
    /// The tokenized documents, each once; the loader makes pairs and masks, other ones in every epoch.
    Documents,
}

/// As which columns instances are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct BuildConfig {
    /// Text: files, folders or patterns; plain, gzip, zstd, bzip2 or xz. One sentence per line, a blank line between documents;
    /// or JSON Lines (.jsonl, .ndjson, .json) and Parquet with one document of running text in each row.
    #[arg(long, visible_alias = "input-file", num_args = 1.., value_name = "PATH", value_delimiter = ',')]
    pub input: Vec<PathBuf>,

    /// Folder for the shards and their manifest; must be new or empty.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// WordPiece vocabulary, one token per line.
    #[arg(long, visible_alias = "vocab-file", value_name = "FILE")]
    pub vocab: Option<PathBuf>,

    /// Lower-case the text and strip accents (true for uncased vocabularies).
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub do_lower_case: bool,

    /// Mask whole words instead of single word pieces.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub do_whole_word_mask: bool,

    /// Where whole words begin, for --do-whole-word-mask and --max-ngram: chinese takes the ideographs of a Chinese word
    /// together (simplified Chinese best). The tokens stay single ideographs.
    #[arg(long, value_enum, default_value_t = Segmenter::None)]
    pub segmenter: Segmenter,

    /// Store instances, or the tokenized documents, of which the loader makes other pairs and masks in every epoch
    /// (then without --dupe-factor and --masking; some fifty times smaller than the reference's files).
    #[arg(long, value_enum, default_value_t = Layout::Instances)]
    pub layout: Layout,

    /// Columns of the instances: the reference's, or those that the Trainer of transformers takes as they are (input_ids,
    /// token_type_ids, attention_mask, labels, next_sentence_label), padded.
    #[arg(long, value_enum, default_value_t = Columns::Reference)]
    pub columns: Columns,

    /// Mask when the data is made, or leave it to the loader, which makes other masks in every epoch (a small
    /// --dupe-factor is then enough).
    #[arg(long, value_enum, default_value_t = Masking::Static)]
    pub masking: Masking,

    /// Mask spans of 1 to N whole words, the length n with weight 1/n, as ALBERT does.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub max_ngram: usize,

    /// Never replace a masked token by a special or an [unused...] one.
    #[arg(long)]
    pub random_word_skip_special: bool,

    /// Segments: B follows A or is random, one segment only, or A and B swapped in half of the instances.
    #[arg(long, value_enum, default_value_t = Nsp::On)]
    pub nsp: Nsp,

    /// Most tokens of an instance, the special ones included.
    #[arg(long, default_value_t = 128)]
    pub max_seq_length: usize,

    /// Most masked tokens of an instance; default: --max-seq-length times --masked-lm-prob, rounded up (20 at 128, 77 at
    /// 512); with --random reference the reference's 20.
    #[arg(long, value_name = "N")]
    pub max_predictions_per_seq: Option<usize>,

    /// Share of the tokens of an instance that are masked.
    #[arg(long, default_value_t = 0.15)]
    pub masked_lm_prob: f64,

    /// Probability that a document's instances of one pass are made short.
    #[arg(long, default_value_t = 0.1)]
    pub short_seq_prob: f64,

    /// How many passes are made over the text, each with other pairs and masks.
    #[arg(long, default_value_t = DUPE_FACTOR)]
    pub dupe_factor: usize,

    /// Seed of every random draw.
    #[arg(long, default_value_t = 12345)]
    pub random_seed: u64,

    /// Number of Parquet files; default: one for about 65,536 instances, or 8 million tokens of documents.
    #[arg(long)]
    pub num_shards: Option<usize>,

    /// Worker threads; 0 means one per core. The output does not depend on it.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Memory to use, as 400M or 2G; default: 256M, more where there are many threads. The output does not depend on it.
    #[arg(long, value_name = "SIZE")]
    pub memory_budget: Option<ByteSize>,

    /// Make one part of the work only, this one of --parts (from 1), for one machine of many; see `bert merge`.
    #[arg(long, requires = "parts", value_name = "I")]
    pub part: Option<usize>,

    /// Into how many parts the work is split.
    #[arg(long, requires = "part", value_name = "N")]
    pub parts: Option<usize>,

    /// Random draws: independent streams, or exactly those of the reference script (one shard, its defects too).
    #[arg(long, value_enum, default_value_t = RandomMode::Keyed)]
    pub random: RandomMode,

    /// Show so many instances as words, masks marked.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub preview: usize,

    /// The lines are paragraphs of running text: split them into sentences.
    #[arg(long)]
    pub split_sentences: bool,

    /// Language of the text for --split-sentences (ISO 639 code); the rows of JSON Lines and Parquet are split always.
    #[arg(long, default_value = "en")]
    pub language: String,

    /// The key or column with the text of JSON Lines and Parquet.
    #[arg(long, default_value = TEXT_COLUMN, value_name = "NAME")]
    pub text_column: String,

    /// Refuse the first line that is not UTF-8 instead of repairing and counting up to one line in twenty of a file.
    #[arg(long)]
    pub strict_utf8: bool,

    /// Repair and count all lines that are not UTF-8, however many of a file they are.
    #[arg(long, conflicts_with = "strict_utf8")]
    pub lossy_utf8: bool,

    /// Refuse null and empty rows of JSON Lines and Parquet instead of skipping and counting them.
    #[arg(long)]
    pub strict_rows: bool,

    /// Replace a finished data set in the output folder.
    #[arg(long)]
    pub overwrite: bool,
}

impl Default for BuildConfig {
    fn default() -> Self {
        Self {
            input: Vec::new(),
            output: None,
            vocab: None,
            do_lower_case: true,
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

/// The longest span of words that is masked at once: longer ones are refused as mistakes.
const MOST_WORDS: usize = 64;

/// The usual name of the column with the text.
pub(crate) const TEXT_COLUMN: &str = "text";

/// The longest sequence that can be stored: lengths take two bytes on their way.
pub(crate) const LONGEST_SEQUENCE: usize = u16::MAX as usize;

impl BuildConfig {
    /// Reads a configuration from JSON, or what a data set was made with from its folder or its `manifest.json`. Missing
    /// keys have their defaults, unknown keys are refused.
    ///
    /// # Errors
    /// [`Error::Io`] or [`OptionError::File`].
    pub fn read(path: &Path) -> Result<Self> {
        let manifest = path.join(MANIFEST);
        let path = if path.is_dir() { manifest.as_path() } else { path };
        let text = read_limited(path, LARGEST).map_err(Error::io("read", path))?;
        let invalid = |source| Error::Option(OptionError::File { path: path.to_owned(), source });
        let mut value: serde_json::Value = serde_json::from_slice(&text).map_err(invalid)?;
        match value.get_mut("config") {
            None => serde_json::from_value(value).map_err(invalid),
            Some(config) => {
                let saved: ResolvedConfig = serde_json::from_value(config.take()).map_err(invalid)?;
                saved.options().map_err(invalid)
            }
        }
    }

    /// The most tokens of a sentence: what an instance has room for beside `[CLS]` and `[SEP]`. No limit where the
    /// reference's rules hold, and where an instance is one segment, which cuts sentences anyway.
    pub(crate) fn longest_sentence(&self) -> usize {
        match (self.random, self.nsp) {
            (RandomMode::Reference, _) | (_, Nsp::Off) => usize::MAX,
            _ => self.max_seq_length - 3,
        }
    }

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

    fn check_part(&self) -> Result<()> {
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

    /// Which part of the work this is.
    pub(crate) fn part(&self) -> Result<Part> {
        self.check_part()?;
        Ok(match (self.part, self.parts) {
            (Some(index), Some(of)) => Part { index, of },
            _ => Part::WHOLE,
        })
    }

    fn check_language(&self) -> Result<()> {
        if crate::reading::speaks(&self.language) {
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

    pub(crate) fn vocab(&self) -> Result<&Path> {
        self.vocab
            .as_deref()
            .ok_or(Error::Option(OptionError::Missing { option: "vocab", reason: "it maps words to ids" }))
    }

    pub(crate) fn output(&self) -> Result<&Path> {
        self.output.as_deref().ok_or(Error::Option(OptionError::Missing {
            option: "output",
            reason: "the shards are written there",
        }))
    }
}
