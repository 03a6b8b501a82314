//! The options as they were used, for the manifest.
//!
//! In goes a checked [`BuildConfig`] and what was decided from the inputs, out comes a [`ResolvedConfig`] that can be
//! saved and read again. Fields that came after the first version of the format have a default, so that older data
//! sets are still read; older programs refuse newer data sets, because they know every field or none.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::{BuildConfig, Layout, Masking, Nsp, RandomMode, Segmenter};

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
    #[serde(default)]
    pub segmenter: Segmenter,
    #[serde(default)]
    pub layout: Layout,
    #[serde(default)]
    pub masking: Masking,
    #[serde(default = "one")]
    pub max_ngram: usize,
    #[serde(default)]
    pub random_word_skip_special: bool,
    #[serde(default)]
    pub nsp: Nsp,
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
    /// Where an input is JSON Lines or Parquet.
    #[serde(default)]
    pub text_column: Option<String>,
    pub strict_utf8: bool,
    #[serde(default)]
    pub lossy_utf8: bool,
    #[serde(default)]
    pub strict_rows: bool,
}

fn one() -> usize {
    1
}

impl ResolvedConfig {
    /// The options of `config` with the number of shards decided; `tables` says whether an input is a table.
    pub(crate) fn new(config: &BuildConfig, num_shards: usize, tables: bool) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            input: config.input.iter().map(|path| text(path)).collect(),
            vocab: config.vocab.as_deref().map(text).unwrap_or_default(),
            do_lower_case: config.do_lower_case,
            // Spans are of whole words.
            do_whole_word_mask: config.do_whole_word_mask || config.max_ngram > 1,
            segmenter: config.segmenter,
            layout: config.layout,
            masking: config.stored_masking(),
            max_ngram: config.max_ngram,
            random_word_skip_special: config.random_word_skip_special,
            nsp: config.nsp,
            max_seq_length: config.max_seq_length,
            max_predictions_per_seq: config.max_predictions_per_seq,
            masked_lm_prob: config.masked_lm_prob,
            short_seq_prob: config.short_seq_prob,
            dupe_factor: config.passes(),
            random_seed: config.random_seed,
            num_shards,
            random: config.random,
            split_sentences: config.split_sentences,
            language: (config.split_sentences || tables).then(|| config.language.clone()),
            text_column: tables.then(|| config.text_column.clone()),
            strict_utf8: config.strict_utf8,
            lossy_utf8: config.lossy_utf8,
            strict_rows: config.strict_rows,
        }
    }
}
