//! The options of a build as they were used, saved in the manifest.
//!
//! A [`ResolvedConfig`] is a checked [`BuildConfig`] plus the values that were decided from the inputs. Unknown
//! fields are rejected.

use std::path::Path;

use bert_storage::digest_bytes;
use bert_text::{Format, recorded_name};
use bert_tokenization::TokenizerSettings;
use bert_tokenization::turkic::is_turkic;
use serde::{Deserialize, Serialize};

use crate::config::hold_out::HoldOut;
use crate::config::language::DEFAULT_LANGUAGE;
use crate::config::{BuildConfig, Columns, Layout, LineBreaks, Masking, Nsp, RandomMode, Segmenter};
use crate::error::{Error, Result};

/// The options that determine the bytes of a data set, as they were used; saved in its manifest.
///
/// The output folder, scratch, threads, memory, parts, the preview and `--overwrite` are excluded, because they do not
/// affect the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is the option of the same name in BuildConfig")]
pub struct ResolvedConfig {
    pub input: Vec<String>,
    pub vocab: String,
    pub do_lower_case: bool,
    /// Absent from the JSON if not given; the value then follows `do_lower_case`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strip_accents: Option<bool>,
    /// Absent from the JSON if true.
    #[serde(default = "yes", skip_serializing_if = "bool::clone")]
    pub tokenize_chinese_chars: bool,
    pub do_whole_word_mask: bool,
    pub segmenter: Segmenter,
    pub layout: Layout,
    pub columns: Columns,
    pub masking: Masking,
    pub max_ngram: usize,
    pub random_word_skip_special: bool,
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
    /// Absent from the JSON if the line breaks are measured.
    #[serde(default, skip_serializing_if = "bert_storage::is_default")]
    pub line_breaks: LineBreaks,
    pub language: Option<String>,
    /// `None` if no input has columns.
    pub text_column: Option<String>,
    pub strict_utf8: bool,
    pub lossy_utf8: bool,
    pub strict_rows: bool,
    /// Absent from the JSON if no document is held out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_out: Option<HoldOut>,
    /// Absent from the JSON for training data.
    #[serde(default, skip_serializing_if = "bert_storage::is_default")]
    pub held_out: bool,
}

fn yes() -> bool {
    true
}

impl ResolvedConfig {
    /// Returns these options without the paths. The bytes of the shards depend on the contents of the inputs, not on
    /// their locations.
    pub(crate) fn without_paths(&self) -> Self {
        Self { input: Vec::new(), vocab: String::new(), ..self.clone() }
    }

    /// Returns the BLAKE3 digest of the options as compact JSON, with an empty `input` and an empty string for `vocab`.
    pub fn digest(&self) -> String {
        digest_bytes(serde_json::to_string(&self.without_paths()).expect("plain data").as_bytes())
    }

    /// Returns the build configuration that makes the same shards from the same text.
    ///
    /// # Errors
    /// Never fails for options from [`ResolvedConfig::new`].
    pub(crate) fn options(&self) -> serde_json::Result<BuildConfig> {
        let mut options = serde_json::to_value(self)?;
        if let Some(options) = options.as_object_mut() {
            // If documents are stored, passes and masks belong to the loader, and a build rejects the flags for them.
            let documents = self.layout == Layout::Documents;
            let is_of_loader = |key: &str| documents && ["dupe_factor", "masking"].contains(&key);
            options.retain(|key, value| !value.is_null() && !is_of_loader(key));
            options.insert("tokenize_chinese_chars".to_owned(), self.tokenize_chinese_chars.into());
        }
        serde_json::from_value(options)
    }

    /// Checks that a build would accept these options; `path` is the manifest or receipt that contains them.
    ///
    /// # Errors
    /// Fails when a build would reject the options, or when options that the loader decides contradict the layout.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        let options =
            self.options().map_err(|source| Error::data("not a valid manifest").because(source).at(path))?;
        let rejected =
            |problem| Error::data("its options are not valid for a build").because(problem).at(path);
        options.check_options().map_err(rejected)?;
        if self.layout == Layout::Documents && (self.masking, self.dupe_factor) != (Masking::Dynamic, 1) {
            return Err(Error::data("masking or dupe_factor contradicts the other values").at(path));
        }
        Ok(())
    }

    /// Returns whether a data set with these options has the documents that are held out of a training set with the
    /// other options, provided that the text is the same. All options must agree except the ones that
    /// [`BuildConfig::held_out_config`] sets.
    pub fn is_held_out_of(&self, training: &Self) -> bool {
        let same = |config: &Self| Self {
            layout: Layout::Instances,
            masking: Masking::Static,
            dupe_factor: 1,
            num_shards: 0,
            held_out: true,
            ..config.without_paths()
        };
        self.held_out && !training.held_out && self.hold_out.is_some() && same(self) == same(training)
    }

    /// Returns the settings with which the text was normalized.
    pub fn tokenizer_settings(&self) -> TokenizerSettings {
        TokenizerSettings {
            do_lower_case: self.do_lower_case,
            strip_accents: self.strip_accents,
            tokenize_chinese_chars: self.tokenize_chinese_chars,
            split_special_tokens: true,
        }
    }

    /// Returns the options of `config` with the decided number of shards and tokenizer settings, for inputs of these
    /// formats.
    pub(crate) fn new(
        config: &BuildConfig,
        settings: TokenizerSettings,
        num_shards: usize,
        formats: &[Format],
    ) -> Self {
        // Every field is listed, so that adding an option requires a decision here: does it affect the bytes of the
        // data?
        let BuildConfig {
            input,
            vocab,
            do_lower_case: _,
            strip_accents: _,
            tokenize_chinese_chars: _,
            do_whole_word_mask,
            segmenter,
            layout,
            columns,
            masking: _,
            max_ngram,
            random_word_skip_special,
            nsp,
            max_seq_length,
            max_predictions_per_seq: _,
            masked_lm_prob,
            short_seq_prob,
            dupe_factor: _,
            random_seed,
            num_shards: _,
            random,
            split_sentences,
            line_breaks,
            language,
            text_column,
            strict_utf8,
            lossy_utf8,
            strict_rows,
            hold_out,
            held_out,
            // The data do not depend on these options.
            output: _,
            threads: _,
            memory_budget: _,
            scratch: _,
            part: _,
            parts: _,
            preview: _,
            overwrite: _,
        } = config;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        // If an input is a dump, no default is recorded, because the header of a dump states its language.
        let splits = config.splits_lines() || formats.iter().any(|format| format.is_running_text());
        let have_columns = formats.iter().any(|format| format.has_columns());
        let default = (splits && !formats.contains(&Format::WikiDump)).then(|| DEFAULT_LANGUAGE.to_owned());
        Self {
            input: input.iter().map(|path| recorded_name(path)).collect(),
            vocab: vocab.as_deref().map(text).unwrap_or_default(),
            do_lower_case: settings.do_lower_case,
            strip_accents: settings.strip_accents,
            tokenize_chinese_chars: settings.tokenize_chinese_chars,
            // Spans consist of whole words.
            do_whole_word_mask: *do_whole_word_mask || *max_ngram > 1,
            segmenter: *segmenter,
            layout: *layout,
            columns: *columns,
            masking: config.stored_masking(),
            max_ngram: *max_ngram,
            random_word_skip_special: *random_word_skip_special,
            nsp: *nsp,
            max_seq_length: *max_seq_length,
            max_predictions_per_seq: config.max_predictions(),
            masked_lm_prob: *masked_lm_prob,
            short_seq_prob: *short_seq_prob,
            dupe_factor: config.passes(),
            random_seed: *random_seed,
            num_shards,
            random: *random,
            split_sentences: *split_sentences,
            line_breaks: *line_breaks,
            language: language.clone().filter(|language| splits || is_turkic(language)).or(default),
            text_column: have_columns.then(|| text_column.clone()),
            strict_utf8: *strict_utf8,
            lossy_utf8: *lossy_utf8,
            strict_rows: *strict_rows,
            hold_out: *hold_out,
            held_out: *held_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BuildConfig;

    #[test]
    fn saved_options_build_the_same_data_set() {
        let plain = BuildConfig {
            input: vec!["a.txt".into()],
            vocab: Some("v.txt".into()),
            ..BuildConfig::default()
        };
        for config in [
            plain.clone(),
            BuildConfig { layout: Layout::Documents, ..plain.clone() },
            BuildConfig { strip_accents: Some(false), tokenize_chinese_chars: Some(false), ..plain.clone() },
            BuildConfig { masking: Masking::Dynamic, dupe_factor: 3, max_ngram: 2, ..plain.clone() },
            BuildConfig { hold_out: Some("1%".parse().unwrap()), held_out: true, ..plain.clone() },
            BuildConfig { line_breaks: LineBreaks::Wrapped, ..plain.clone() },
            BuildConfig { columns: Columns::Hf, max_predictions_per_seq: Some(7), ..plain.clone() },
            BuildConfig { random: RandomMode::Reference, random_seed: 1, ..plain.clone() },
            BuildConfig {
                split_sentences: true,
                language: Some("de".to_owned()),
                nsp: Nsp::Sop,
                ..plain.clone()
            },
        ] {
            for format in [Format::Text, Format::Parquet, Format::WikiDump] {
                let resolve = |config: &BuildConfig| {
                    ResolvedConfig::new(config, config.stated_settings().resolved(), 5, &[format])
                };
                let saved = resolve(&config);
                let again = saved.options().unwrap();
                assert_eq!(resolve(&again), saved);
                if config.random == RandomMode::Keyed {
                    again.check().unwrap();
                    saved.check(Path::new("manifest.json")).unwrap();
                }
            }
        }
    }
}
