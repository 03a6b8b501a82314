//! The options of the data builder. Each is defined once: field = command-line flag = JSON key = help text.
//!
//! Names and defaults follow the reference's `create_pretraining_data.py`. [`BuildConfig::check`] rejects inconsistent
//! options. [`crate::ResolvedConfig`] is saved with the data. Values that depend on the text, such as the number of
//! shards, are decided by the builder.

pub(crate) mod byte_size;
pub(crate) mod check;
pub(crate) mod derived;
pub(crate) mod hold_out;
pub(crate) mod language;
pub(crate) mod part;
pub(crate) mod resolved;
#[cfg(test)]
pub(crate) mod test_text;

use std::path::PathBuf;

pub use bert_text::LineBreaks;
use bert_text::TEXT_COLUMN;
use serde::{Deserialize, Serialize};

use crate::config::byte_size::ByteSize;
use crate::config::hold_out::HoldOut;

/// Options for building pre-training data from text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[setters(prefix = "with_", strip_option)]
#[serde(default, deny_unknown_fields)]
pub struct BuildConfig {
    /// Input text: files, folders, patterns, URLs, or - for stdin. A URL is one of an object store, or
    /// hf://datasets/OWNER/NAME/PATH on the Hugging Face Hub. Files are plain, gzip, zstd,
    /// bzip2 or xz. Either one sentence per line with a blank line between documents; or JSON, Parquet, CSV or TSV with
    /// one document of running text per row; or a Wikipedia dump (pages-articles.xml.bz2) or output of WikiExtractor, with
    /// one document per article. The format is detected from the content. Decompression needs as much memory as the
    /// file's window, at most 2 GiB (zstd --long=31). Names that begin with . or _ are skipped in folders and patterns. CSV and TSV files without
    /// a column "text" are skipped in folders if --text-column is not given. An argument with commas that is not the
    /// name of a file is read as a list.
    #[cfg_attr(feature = "cli", arg(long, visible_alias = "input-file", num_args = 1.., value_name = "PATH"))]
    pub input: Vec<PathBuf>,

    /// Output folder or URL; must be new or empty. It gets the shards and their manifest.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub output: Option<PathBuf>,

    /// WordPiece vocabulary, or a model folder. A vocabulary is a vocab.txt with one token per line or a tokenizer.json,
    /// or the URL of one.
    #[cfg_attr(feature = "cli", arg(long, visible_alias = "vocab-file", value_name = "FILE"))]
    #[setters(into)]
    pub vocab: Option<PathBuf>,

    /// Lower-case the text [default: by vocabulary]. The default is the value in the tokenizer_config.json or
    /// tokenizer.json next to the vocabulary, else true. Uncased vocabularies need lower-cased text.
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"))]
    pub do_lower_case: Option<bool>,

    /// Strip accents (nonspacing marks) from the text [default: the value in these files, else the value of
    /// --do-lower-case, but false if more than 1 % of the words of a lower-cased vocabulary have accents].
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"))]
    pub strip_accents: Option<bool>,

    /// Treat each ideograph as a separate word [default: the value in these files, else true].
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"))]
    pub tokenize_chinese_chars: Option<bool>,

    /// Mask whole words instead of word pieces.
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", default_value_t = BuildConfig::default().do_whole_word_mask, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true"))]
    pub do_whole_word_mask: bool,

    /// Word boundaries for --do-whole-word-mask and --max-ngram: chinese groups the ideographs of a Chinese word (works
    /// best for simplified Chinese). The tokens are still single ideographs.
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().segmenter))]
    pub segmenter: Segmenter,

    /// Content of the shards. Instances, or the tokenized documents. From documents the loader generates new pairs and masks in every
    /// epoch (not with --dupe-factor or --masking; about fifty times smaller than the reference's files).
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().layout))]
    pub layout: Layout,

    /// Columns of the instances: the reference's, or the padded columns that the Trainer of transformers accepts
    /// unchanged (input_ids, token_type_ids, attention_mask, labels, next_sentence_label).
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().columns))]
    pub columns: Columns,

    /// Mask when the data is built, or in the loader, which generates new masks in every epoch (a small --dupe-factor
    /// is then enough).
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().masking))]
    pub masking: Masking,

    /// Mask spans of 1 to N whole words, with weight 1/n for length n, as in ALBERT.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().max_ngram, value_name = "N"))]
    pub max_ngram: usize,

    /// Never replace a masked token by a special or an [unused...] token.
    #[cfg_attr(feature = "cli", arg(long))]
    pub random_word_skip_special: bool,

    /// Next-sentence or sentence-order pairs. Segment B follows A or is random (on), there is one segment only (off), or
    /// consecutive segments are swapped in half of the instances (sop).
    #[cfg_attr(feature = "cli", arg(long, value_enum, value_name = "NSP", default_value_t = BuildConfig::default().nsp))]
    pub nsp: Nsp,

    /// Maximum sequence length. Special tokens are included.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = BuildConfig::default().max_seq_length))]
    pub max_seq_length: usize,

    /// Maximum number of masked tokens per instance; default: --max-seq-length times --masked-lm-prob, rounded up (20
    /// at 128, 77 at 512); with --random reference the reference's 20.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_predictions_per_seq: Option<usize>,

    /// Fraction of the tokens of an instance to mask.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().masked_lm_prob))]
    pub masked_lm_prob: f64,

    /// Probability that a document's instances of one pass get a shorter target length.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().short_seq_prob))]
    pub short_seq_prob: f64,

    /// Passes over the text. Each has new pairs and masks.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = BuildConfig::default().dupe_factor))]
    pub dupe_factor: usize,

    /// Seed of all random draws.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = BuildConfig::default().random_seed))]
    pub random_seed: u64,

    /// Number of Parquet files; default: one per 128 MB, approximately.
    #[cfg_attr(feature = "cli", arg(long))]
    pub num_shards: Option<usize>,

    /// Compute threads; 0 means one per core. The output does not depend on their number.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = BuildConfig::default().threads))]
    pub threads: usize,

    /// Memory to use, such as 400M or 2G; default: 256M, more with many threads. The output does not depend on it.
    #[cfg_attr(feature = "cli", arg(long, value_name = "SIZE"))]
    pub memory_budget: Option<ByteSize>,

    /// Folder for the tokenized text during the build, 2.2 bytes per token: a fast disk; with --parts, a folder that
    /// all machines share. Each output has its own folder in it. Default: the output folder. `bert merge` accepts it
    /// too, to remove the files left there.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub scratch: Option<PathBuf>,

    /// Build only this part of --parts (counted from 1), to share the work between machines; see `bert merge`.
    #[cfg_attr(feature = "cli", arg(long, requires = "parts", value_name = "I"))]
    pub part: Option<usize>,

    /// Number of parts into which the work is divided.
    #[cfg_attr(feature = "cli", arg(long, requires = "part", value_name = "N"))]
    pub parts: Option<usize>,

    /// Random draws: independent streams, or exactly the reference script's, bugs included (writes one shard).
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = BuildConfig::default().random))]
    pub random: RandomMode,

    /// Print the first N instances as text. Masks are marked.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().preview, value_name = "N"))]
    pub preview: usize,

    /// Split lines into sentences. Lines are then paragraphs of running text.
    #[cfg_attr(feature = "cli", arg(long))]
    pub split_sentences: bool,

    /// Meaning of line breaks in text and in rows of tables. With auto, the lines of a file or row are joined if they
    /// break inside sentences, as in books of Project Gutenberg, mail and text from PDF; a warning names the files.
    #[cfg_attr(feature = "cli", arg(long, value_enum, value_name = "KIND", default_value_t = BuildConfig::default().line_breaks))]
    pub line_breaks: LineBreaks,

    /// Language whose rules find the ends of sentences, for --split-sentences, wrapped lines, tables and dumps: an ISO 639
    /// code, with or without region. There are rules for am, ar, bg, bn, ca, da, de, el, en, es, fi, fr, gu, hi, hy, it, ja,
    /// kk, kn, ml, mr, my, nl, pa, pl, pt, ru, sk, ta, te, uk and their relatives; a warning names any other language. If
    /// given, tr and az also lower-case I and dotted I as in Turkish [default: the language in the header of a Wikipedia dump, else en].
    #[cfg_attr(feature = "cli", arg(long, value_name = "CODE"))]
    #[setters(into)]
    pub language: Option<String>,

    /// Column or key of the text. It is a column of Parquet, CSV and TSV, or a key of JSON.
    #[cfg_attr(feature = "cli", arg(long, default_value_t = BuildConfig::default().text_column, value_name = "NAME"))]
    #[setters(into)]
    pub text_column: String,

    /// Reject the first line that is not UTF-8, instead of repairing and counting up to one line in twenty of a file.
    #[cfg_attr(feature = "cli", arg(long))]
    pub strict_utf8: bool,

    /// Repair and count all lines that are not UTF-8, regardless of their number.
    #[cfg_attr(feature = "cli", arg(long, conflicts_with = "strict_utf8"))]
    pub lossy_utf8: bool,

    /// Reject null and empty rows of JSON Lines and Parquet, instead of skipping and counting them.
    #[cfg_attr(feature = "cli", arg(long))]
    pub strict_rows: bool,

    /// Write this share of the documents, such as 1%, or this number of them to OUTPUT/held-out instead. This second data set has one
    /// pass with fixed masks, and `pretrain` evaluates on it. The seed and the text of a document decide, so the same documents
    /// are held out for every vocabulary, length and --nsp. The text is read once for each of the two data sets, and once more for a
    /// number.
    #[cfg_attr(feature = "cli", arg(long, value_name = "SHARE"))]
    pub hold_out: Option<HoldOut>,

    /// Whether this data set has the documents that are held out. Set by [`BuildConfig::held_out_config`].
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub held_out: bool,

    /// Replace a data set with other options or text. A finished data set with the same options and text is always kept.
    #[cfg_attr(feature = "cli", arg(long))]
    pub overwrite: bool,
}

impl BuildConfig {
    /// Returns the default options for a text, a vocabulary and an output folder.
    ///
    /// ```
    /// use bert_data::BuildConfig;
    ///
    /// let config = BuildConfig::new(["corpus/*.txt"], "vocab.txt", "data").with_dupe_factor(5).with_max_seq_length(64);
    /// assert_eq!((config.dupe_factor, config.masked_lm_prob), (5, 0.15));
    /// ```
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
            line_breaks: LineBreaks::Auto,
            language: None,
            text_column: TEXT_COLUMN.to_owned(),
            strict_utf8: false,
            lossy_utf8: false,
            strict_rows: false,
            hold_out: None,
            held_out: false,
            overwrite: false,
        }
    }
}

/// Default number of passes over the text.
const DUPE_FACTOR: usize = 10;

/// Maximum number of row groups of a Parquet file: writers number row groups with signed 16-bit integers.
pub(crate) const MAX_ROW_GROUPS: u64 = i16::MAX as u64;

/// Maximum sequence length that can be stored: lengths are held in two bytes.
pub(crate) const MAX_SEQUENCE_LENGTH: usize = u16::MAX as usize;

/// The source of random draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum RandomMode {
    /// ChaCha streams addressed by seed, pass and document; the reference's known bugs are fixed.
    #[default]
    Keyed,
    /// CPython's Mersenne Twister, drawn serially: exactly the instances of the 2018 script, bugs included.
    Reference,
}

/// The relation between the two segments of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Nsp {
    /// B follows A, or comes from another document (label 1): next sentence prediction.
    #[default]
    On,
    /// One segment of consecutive sentences; the label is always 0 and has no meaning.
    Off,
    /// A and B are consecutive, in this order or swapped (label 1): sentence order prediction, as in ALBERT.
    Sop,
}

/// The stage that masks instances: the builder or the loader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Masking {
    /// Once, by the builder: every epoch has the same masks.
    #[default]
    Static,
    /// By the loader, with new masks in every epoch; the data set holds instances without masks.
    Dynamic,
}

/// Rule for the boundaries of whole words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Segmenter {
    /// A word begins at each piece without `##`: every ideograph is a word.
    #[default]
    None,
    /// The ideographs of a Chinese word, found by jieba, form one word.
    Chinese,
}

/// Content of the shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Instances, generated by the builder in --dupe-factor passes over the text.
    #[default]
    Instances,
    /// The tokenized documents, each once; the loader generates new pairs and masks in every epoch.
    Documents,
}

/// The columns in which instances are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Columns {
    /// The reference's fields, without padding: for `pretrain`.
    #[default]
    Reference,
    /// The arguments of `BertForPreTraining` in transformers, padded to --max-seq-length: for its `Trainer`; `pretrain`
    /// reads them too.
    Hf,
}
