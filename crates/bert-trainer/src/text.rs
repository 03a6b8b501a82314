//! Opens the tokenizer and the vocabulary of a model folder (`vocab.txt`, `tokenizer_config.json`).
//!
//! The tokenizer turns texts into ids, and its files go with a saved model. Corpora are tokenized by `bert-data`.

use std::path::Path;

use bert_data::{DataSet, Tokenizer, Vocabulary};
use bert_model::BertConfig;

use crate::error::Error;
use crate::tasks::{EncodedPair, SpecialIds, encode_pair};

/// Between the two texts of a pair, where a user writes them as one.
pub const PAIR_SEPARATOR: &str = " ||| ";

/// What turns text into ids.
pub struct Text {
    /// The vocabulary.
    pub vocabulary: Vocabulary,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// Whether text is lower-cased.
    pub do_lower_case: bool,
}

impl Text {
    fn new(vocabulary: Vocabulary, do_lower_case: bool) -> Self {
        let tokenizer = Tokenizer::new(&vocabulary, do_lower_case);
        Self { vocabulary, tokenizer, do_lower_case }
    }

    /// Opens `vocab.txt` of a model folder; lower-casing as `tokenizer_config.json` says, on when it is
    /// silent or missing.
    ///
    /// # Errors
    /// When either file cannot be read.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let vocabulary = Vocabulary::read(&folder.join("vocab.txt"))?;
        let settings = folder.join("tokenizer_config.json");
        let do_lower_case = match settings.exists() {
            true => crate::json_file::read_json(&settings)?["do_lower_case"].as_bool().unwrap_or(true),
            false => true,
        };
        Ok(Self::new(vocabulary, do_lower_case))
    }

    /// The tokenizer a data set was made with.
    pub fn of_data(data: &DataSet) -> Self {
        Self::new(data.vocabulary().clone(), data.manifest().config.do_lower_case)
    }

    /// The tokenizer of a vocabulary.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of_vocabulary(path: &Path, do_lower_case: bool) -> Result<Self, Error> {
        Ok(Self::new(Vocabulary::read(path)?, do_lower_case))
    }

    /// The tokenizer files of a saved model that takes `max_length` positions.
    pub fn files(&self, max_length: usize) -> bert_model::Vocabulary<'_> {
        bert_model::Vocabulary {
            words: self.vocabulary.tokens(),
            do_lower_case: self.do_lower_case,
            max_length,
        }
    }

    /// Checks that a model takes sequences of `max_length` tokens of this vocabulary.
    ///
    /// # Errors
    /// [`Error::Mismatch`].
    pub fn check_fits(&self, model: &BertConfig, max_length: usize) -> Result<(), Error> {
        let mut differences = Vec::new();
        if max_length > model.max_position_embeddings {
            let most = model.max_position_embeddings;
            differences.push(format!("the model takes {most} positions, --max-seq-length is {max_length}"));
        }
        if self.vocabulary.len() > model.vocab_size {
            let (known, size) = (model.vocab_size, self.vocabulary.len());
            differences.push(format!("the model knows {known} tokens, vocab.txt has {size}"));
        }
        match differences.is_empty() {
            true => Ok(()),
            false => Err(Error::Mismatch(differences)),
        }
    }

    /// `[CLS] text [SEP]`, or a pair where the text holds [`PAIR_SEPARATOR`]; `[MASK]` in it is the mask.
    pub fn encode_with_masks(&self, text: &str, max_length: usize) -> EncodedPair {
        let special = SpecialIds { cls: self.vocabulary.cls_id(), sep: self.vocabulary.sep_id() };
        match text.split_once(PAIR_SEPARATOR) {
            Some((a, b)) => encode_pair(&self.ids(a), Some(&self.ids(b)), special, max_length),
            None => encode_pair(&self.ids(text), None, special, max_length),
        }
    }

    /// The ids of a text, without `[CLS]` and `[SEP]`; `[MASK]` in it is the mask.
    pub fn ids(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        for (i, part) in text.split("[MASK]").enumerate() {
            if i > 0 {
                ids.push(self.vocabulary.mask_id());
            }
            self.tokenizer.encode(part, &mut ids);
        }
        ids
    }
}
