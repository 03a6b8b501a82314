//! Opens the tokenizer and the vocabulary of a model folder, a data set or a file.
//!
//! The tokenizer converts texts to ids, and its files are saved with a model. `bert-data` tokenizes corpora with the
//! same settings.

use std::path::{Path, PathBuf};

use bert_model::BertConfig;
use bert_tasks::{EncodedPair, InputText, SpecialIds, encode_pair};
use bert_tokenization::{PartialSettings, Tokenizer, TokenizerFiles, TokenizerSettings, Vocabulary};
use serde_json::Value;

use crate::error::{Error, mismatch};

/// A tokenizer with its vocabulary.
pub struct ModelTokenizer {
    /// The vocabulary.
    pub vocabulary: Vocabulary,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// The rules by which text is normalized.
    pub settings: TokenizerSettings,
    /// The file or the data folder that the vocabulary was read from.
    pub source: PathBuf,
}

impl ModelTokenizer {
    /// Returns the tokenizer of a vocabulary that was read from `source`.
    pub fn new(vocabulary: Vocabulary, settings: TokenizerSettings, source: PathBuf) -> Self {
        let tokenizer = Tokenizer::new(&vocabulary, settings);
        Self { vocabulary, tokenizer, settings, source }
    }

    /// Opens the tokenizer of a model folder: `vocab.txt` or `tokenizer.json`, with the settings in the folder's files.
    /// If they do not specify the casing, text is lower-cased unless the vocabulary has words with upper-case letters.
    ///
    /// # Errors
    /// Fails when the files cannot be read, or describe a tokenizer other than BERT's.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        Ok(Self::from_files(TokenizerFiles::read(folder)?, PartialSettings::default()))
    }

    /// Opens a tokenizer like [`ModelTokenizer::open`]; returns `None` for a folder without a tokenizer.
    ///
    /// # Errors
    /// Fails as [`ModelTokenizer::open`] does.
    pub(crate) fn find(folder: &Path) -> Result<Option<Self>, Error> {
        Self::find_with(folder, PartialSettings::default())
    }

    /// Opens a tokenizer like [`Self::from_vocabulary`]; returns `None` for a folder without a tokenizer.
    ///
    /// # Errors
    /// Fails as [`Self::from_vocabulary`] does.
    pub fn find_with(folder: &Path, stated: PartialSettings) -> Result<Option<Self>, Error> {
        Ok(TokenizerFiles::find(folder)?.map(|files| Self::from_files(files, stated)))
    }

    /// Opens the tokenizer of a vocabulary: `vocab.txt`, `tokenizer.json` or a folder. Settings that `stated` leaves
    /// unspecified are determined from the folder's files and the vocabulary.
    ///
    /// # Errors
    /// Fails when the files cannot be read, or describe a tokenizer other than BERT's.
    pub fn from_vocabulary(path: &Path, stated: PartialSettings) -> Result<Self, Error> {
        Ok(Self::from_files(TokenizerFiles::read(path)?, stated))
    }

    fn from_files(files: TokenizerFiles, stated: PartialSettings) -> Self {
        let mut stated = stated.or(files.stated);
        stated.do_lower_case.get_or_insert_with(|| !files.vocabulary.is_cased());
        stated.split_special_tokens.get_or_insert(false);
        Self::new(files.vocabulary, stated.resolved(), files.source)
    }

    /// Returns the tokenizer files of a saved model with at most `max_length` positions.
    pub fn files(&self, max_length: usize) -> bert_model::FolderTokenizer<'_> {
        bert_model::FolderTokenizer {
            words: self.vocabulary.tokens(),
            markers: self.vocabulary.markers(),
            do_lower_case: self.settings.do_lower_case,
            strip_accents: self.settings.strip_accents,
            tokenize_chinese_chars: self.settings.tokenize_chinese_chars,
            max_input_chars_per_word: self.vocabulary.max_word(),
            split_special_tokens: self.settings.split_special_tokens,
            max_length,
            description: None,
        }
    }

    /// Checks that a model has an embedding of every token, and that the ids of special tokens in its configuration
    /// equal their ids in the vocabulary. A `pad_token_id` of 0 passes: it is also the default of `transformers`, and
    /// padding is masked.
    ///
    /// # Errors
    /// Fails when the model lacks embeddings of some tokens, or when its configuration has different ids of special
    /// tokens; the error lists the differences.
    pub fn check_fits(&self, model: &BertConfig) -> Result<(), Error> {
        let known = model.vocab_size;
        let size = self.vocabulary.len();
        let file = self.source.display();
        if size > known {
            let difference =
                format!("the model has embeddings of {known} tokens, but {file} has {size} tokens");
            return Err(mismatch(vec![difference]));
        }
        let other = |key| model.extra.get(key).and_then(Value::as_u64);
        let stated = [
            ("pad_token_id", "[PAD]", Some(model.pad_token_id as u64).filter(|id| *id > 0)),
            ("cls_token_id", "[CLS]", other("cls_token_id")),
            ("sep_token_id", "[SEP]", other("sep_token_id")),
            ("mask_token_id", "[MASK]", other("mask_token_id")),
            ("unk_token_id", "[UNK]", other("unk_token_id")),
        ];
        let differences = stated.into_iter().filter_map(|(key, token, stated)| {
            let id = self.vocabulary.id(token)?;
            let stated = stated.filter(|stated| *stated != u64::from(id))?;
            Some(format!("`{key}` of config.json is {stated}, but {token} has the id {id} in {file}"))
        });
        let differences: Vec<String> = differences.collect();
        if differences.is_empty() { Ok(()) } else { Err(mismatch(differences)) }
    }

    /// Encodes `[CLS] text [SEP]`, or a pair.
    pub fn encode<'a>(&self, text: impl Into<InputText<'a>>, max_length: usize) -> EncodedPair {
        let InputText { first, second } = text.into();
        let special = SpecialIds { cls: self.vocabulary.cls_id(), sep: self.vocabulary.sep_id() };
        let second = second.map(|second| self.ids(second));
        encode_pair(&self.ids(first), second.as_deref(), special, max_length)
    }

    /// Returns the ids of a text, without `[CLS]` and `[SEP]` around it.
    pub fn ids(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.tokenizer.encode(text, &mut ids);
        ids
    }
}

/// Checks that a model has a second segment if inputs are pairs of texts.
///
/// # Errors
/// Fails when the inputs are pairs and the model has one segment.
pub fn check_segments(model: &BertConfig, has_pairs: bool) -> Result<(), Error> {
    if has_pairs && model.type_vocab_size < 2 {
        let difference = "the model has one segment (type_vocab_size 1), but pairs of texts need two";
        return Err(mismatch(vec![difference.to_string()]));
    }
    Ok(())
}
