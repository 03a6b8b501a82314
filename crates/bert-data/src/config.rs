//! Every option of the data builder, once: field = command-line flag = JSON key = help text.
//!
//! In go flags or JSON, out comes a checked [`BuildConfig`], and the [`ResolvedConfig`] that is saved with the data.
//! Not for defaults that depend on the text (the number of shards): the builder resolves those. Names and defaults
//! are those of the reference's `create_pretraining_data.py`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

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

/// How to make pre-training data from text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct BuildConfig {
    /// Text: files, folders or patterns; plain, gzip or zstd. One sentence per line, a blank line between documents.
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

    /// Most tokens of an instance, the three special ones included.
    #[arg(long, default_value_t = 128)]
    pub max_seq_length: usize,

    /// Most masked tokens of an instance.
    #[arg(long, default_value_t = 20)]
    pub max_predictions_per_seq: usize,

    /// Share of the tokens of an instance that are masked.
    #[arg(long, default_value_t = 0.15)]
    pub masked_lm_prob: f64,

    /// Probability that a document's instances of one pass are made short.
    #[arg(long, default_value_t = 0.1)]
    pub short_seq_prob: f64,

    /// How many passes are made over the text, each with other pairs and masks.
    #[arg(long, default_value_t = 10)]
    pub dupe_factor: usize,

    /// Seed of every random draw.
    #[arg(long, default_value_t = 12345)]
    pub random_seed: u64,

    /// Number of Parquet files; default: one for about 65,536 instances.
    #[arg(long)]
    pub num_shards: Option<usize>,

    /// Worker threads; 0 means one per core. The output does not depend on it.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Random draws: independent streams, or exactly those of the reference script (one shard, its defects too).
    #[arg(long, value_enum, default_value_t = RandomMode::Keyed)]
    pub random: RandomMode,

    /// Show so many instances as words, masks marked.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub preview: usize,

    /// The lines are paragraphs of running text: split them into sentences.
    #[arg(long)]
    pub split_sentences: bool,

    /// Language of the text for --split-sentences (ISO 639 code).
    #[arg(long, default_value = "en")]
    pub language: String,

    /// Refuse invalid UTF-8 instead of replacing and counting it.
    #[arg(long)]
    pub strict_utf8: bool,

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
            max_seq_length: 128,
            max_predictions_per_seq: 20,
            masked_lm_prob: 0.15,
            short_seq_prob: 0.1,
            dupe_factor: 10,
            random_seed: 12345,
            num_shards: None,
            threads: 0,
            random: RandomMode::Keyed,
            preview: 0,
            split_sentences: false,
            language: "en".to_owned(),
            strict_utf8: false,
            overwrite: false,
        }
    }
}

/// The longest sequence that can be stored: lengths take two bytes on their way.
pub(crate) const LONGEST_SEQUENCE: usize = u16::MAX as usize;

impl BuildConfig {
    /// Reads a configuration from JSON; missing keys have their defaults, unknown keys are refused.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::InvalidConfiguration`].
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).map_err(Error::io("read", path))?;
        serde_json::from_slice(&text)
            .map_err(|source| Error::InvalidConfiguration { path: path.to_owned(), source })
    }

    /// Checks every value that can be checked without reading a file.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] or [`Error::ConflictingOptions`], naming the flag, its value and what is accepted.
    pub fn check(&self) -> Result<()> {
        let invalid = |option, value: &dyn ToString, expected| {
            Err(Error::InvalidOption { option, value: value.to_string(), expected })
        };
        if !(8..=LONGEST_SEQUENCE).contains(&self.max_seq_length) {
            return invalid("max-seq-length", &self.max_seq_length, "between 8 and 65535");
        }
        if !(1..self.max_seq_length).contains(&self.max_predictions_per_seq) {
            return invalid(
                "max-predictions-per-seq",
                &self.max_predictions_per_seq,
                "at least 1 and below --max-seq-length",
            );
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
        if self.split_sentences && !crate::reading::speaks(&self.language) {
            return invalid(
                "language",
                &self.language,
                "an ISO 639 code that the sentence splitter knows, such as en",
            );
        }
        self.check_reference_mode()
    }

    fn check_reference_mode(&self) -> Result<()> {
        if self.random != RandomMode::Reference {
            return Ok(());
        }
        let with = "--random reference";
        if self.split_sentences {
            let reason = "the reference does not split sentences";
            return Err(Error::ConflictingOptions { option: "split-sentences", with, reason });
        }
        if self.num_shards.is_some_and(|shards| shards != 1) {
            let reason = "the reference's order is kept in one shard";
            return Err(Error::ConflictingOptions { option: "num-shards", with, reason });
        }
        Ok(())
    }

    pub(crate) fn vocab(&self) -> Result<&Path> {
        self.vocab.as_deref().ok_or(Error::MissingOption { option: "vocab", reason: "it maps words to ids" })
    }

    pub(crate) fn output(&self) -> Result<&Path> {
        self.output
            .as_deref()
            .ok_or(Error::MissingOption { option: "output", reason: "the shards are written there" })
    }
}

/// The options that decide the bytes of a data set, as they were used; saved in its manifest.
///
/// Threads, the output folder and the preview are not here: they change nothing in the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is the option of the same name in BuildConfig")]
pub struct ResolvedConfig {
    pub input: Vec<String>,
    pub vocab: String,
    pub do_lower_case: bool,
    pub do_whole_word_mask: bool,
    pub max_seq_length: usize,
    pub max_predictions_per_seq: usize,
    pub masked_lm_prob: f64,
    pub short_seq_prob: f64,
    pub dupe_factor: usize,
    pub random_seed: u64,
    pub num_shards: usize,
    pub random: RandomMode,
    pub split_sentences: bool,
    pub language: Option<String>,
    pub strict_utf8: bool,
}

impl ResolvedConfig {
    /// The options of `config` with the number of shards decided.
    pub(crate) fn new(config: &BuildConfig, num_shards: usize) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            input: config.input.iter().map(|path| text(path)).collect(),
            vocab: config.vocab.as_deref().map(text).unwrap_or_default(),
            do_lower_case: config.do_lower_case,
            do_whole_word_mask: config.do_whole_word_mask,
            max_seq_length: config.max_seq_length,
            max_predictions_per_seq: config.max_predictions_per_seq,
            masked_lm_prob: config.masked_lm_prob,
            short_seq_prob: config.short_seq_prob,
            dupe_factor: config.dupe_factor,
            random_seed: config.random_seed,
            num_shards,
            random: config.random,
            split_sentences: config.split_sentences,
            language: config.split_sentences.then(|| config.language.clone()),
            strict_utf8: config.strict_utf8,
        }
    }
}
