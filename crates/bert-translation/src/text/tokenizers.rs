//! The tokenizers of a translation model: source, target and BERT. A checkpoint contains their vocabularies.

use std::path::Path;

use bert_data::{Tokenizer, TokenizerSettings, Vocabulary};
use bert_tasks::{EncodedPair, SpecialIds, encode_pair};
use bert_trainer::encoding::model_tokenizer::ModelTokenizer;
use serde::{Deserialize, Serialize};
use tokenizers::Decoder;
use tokenizers::decoders::wordpiece::WordPiece;

use crate::error::Error;
use crate::model::beam_search::SpecialTokens;

/// The tokenizers of a translation model.
pub struct Tokenizers {
    /// Tokenizer of the source sentences.
    pub source: ModelTokenizer,
    /// Tokenizer of the target sentences.
    pub target: ModelTokenizer,
    /// BERT's tokenizer of the source sentences.
    pub bert: Option<ModelTokenizer>,
}

/// The settings of all tokenizers, for `translation.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedSettings {
    source: TokenizerSettings,
    target: TokenizerSettings,
    bert: Option<TokenizerSettings>,
}

const SOURCE: &str = "source_vocab.txt";
const TARGET: &str = "target_vocab.txt";
const BERT: &str = "bert_vocab.txt";

impl Tokenizers {
    pub(crate) fn settings(&self) -> SavedSettings {
        SavedSettings {
            source: self.source.settings,
            target: self.target.settings,
            bert: self.bert.as_ref().map(|bert| bert.settings),
        }
    }

    /// Returns the names and bytes of the vocabularies.
    pub(crate) fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let named = [(SOURCE, Some(&self.source)), (TARGET, Some(&self.target)), (BERT, self.bert.as_ref())];
        let file = |(name, tokenizer): (&'static str, Option<&ModelTokenizer>)| {
            Some((name, tokenizer?.vocabulary.bytes().to_vec()))
        };
        named.into_iter().filter_map(file).collect()
    }

    pub(crate) fn open(folder: &Path, settings: &SavedSettings) -> Result<Self, Error> {
        let open = |name, settings| open(&folder.join(name), settings);
        Ok(Self {
            source: open(SOURCE, settings.source)?,
            target: open(TARGET, settings.target)?,
            bert: settings.bert.map(|settings| open(BERT, settings)).transpose()?,
        })
    }

    /// Returns the special tokens of the target.
    pub fn special(&self) -> SpecialTokens {
        let vocabulary = &self.target.vocabulary;
        SpecialTokens {
            start: vocabulary.cls_id(),
            end: vocabulary.sep_id(),
            pad: vocabulary.pad_id(),
            mask: vocabulary.mask_id(),
        }
    }

    /// Returns the text of target tokens. Continuations (`##`) are joined to their word, and common punctuation to the
    /// word before it.
    pub fn decode(&self, ids: &[u32]) -> String {
        let tokens = ids.iter().map(|&id| self.target.vocabulary.token(id).to_string()).collect();
        WordPiece::new("##".to_string(), true).decode(tokens).expect("joining strings cannot fail")
    }
}

fn open(path: &Path, settings: TokenizerSettings) -> Result<ModelTokenizer, Error> {
    let vocabulary = Vocabulary::read(path)?;
    let tokenizer = Tokenizer::new(&vocabulary, settings);
    Ok(ModelTokenizer { vocabulary, tokenizer, settings, source: path.to_path_buf() })
}

/// Returns `[CLS] text [SEP]`, cut to `max_length` tokens.
pub(crate) fn encode(tokenizer: &ModelTokenizer, text: &str, max_length: usize) -> EncodedPair {
    let special = SpecialIds { cls: tokenizer.vocabulary.cls_id(), sep: tokenizer.vocabulary.sep_id() };
    encode_pair(&tokenizer.ids(text), None, special, max_length)
}
