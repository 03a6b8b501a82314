//! The tokenizer files of a Hugging Face folder, made from a vocabulary.
//!
//! [`FolderTokenizer::files`] returns `vocab.txt`, `tokenizer_config.json`, `special_tokens_map.json` and
//! `tokenizer.json`, which `AutoTokenizer` loads without conversion.

use serde_json::{Map, Value, json};

use crate::error::Error;

/// Name of the file that describes how a model was trained.
pub const DESCRIPTION: &str = "model_description.json";

/// Vocabulary and tokenizer settings of a folder.
#[derive(Clone, Debug)]
pub struct FolderTokenizer<'a> {
    /// The words; the index of a word is its id.
    pub words: &'a [String],
    /// Ids of special tokens other than the five of BERT.
    pub markers: &'a [u32],
    /// Whether text is lower-cased.
    pub do_lower_case: bool,
    /// Whether accents are removed; `None` for the value of `do_lower_case`.
    pub strip_accents: Option<bool>,
    /// Whether each ideograph is a separate word.
    pub tokenize_chinese_chars: bool,
    /// Maximum number of characters of a word; a longer word is `[UNK]`.
    pub max_input_chars_per_word: usize,
    /// Whether special tokens in a text are tokenized as plain text.
    pub split_special_tokens: bool,
    /// Maximum sequence length in tokens.
    pub max_length: usize,
    /// The content of [`DESCRIPTION`]; `None` to write no such file.
    pub description: Option<String>,
}

impl<'a> FolderTokenizer<'a> {
    /// Returns a vocabulary with the settings of the reference's uncased models.
    pub fn uncased(words: &'a [String], max_length: usize) -> Self {
        Self {
            words,
            markers: &[],
            do_lower_case: true,
            strip_accents: None,
            tokenize_chinese_chars: true,
            max_input_chars_per_word: 200,
            split_special_tokens: false,
            max_length,
            description: None,
        }
    }
}

impl FolderTokenizer<'_> {
    /// Returns the name and bytes of every tokenizer file.
    ///
    /// # Errors
    /// Fails if the vocabulary lacks one of the five special tokens.
    pub fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
        let vocab: String = self.words.iter().flat_map(|word| [word.as_str(), "\n"]).collect();
        let mut files = vec![
            ("vocab.txt", vocab.into_bytes()),
            ("tokenizer.json", pretty(&self.tokenizer()?)),
            ("tokenizer_config.json", pretty(&self.tokenizer_config())),
            ("special_tokens_map.json", pretty(&self.special_tokens_map())),
        ];
        files.extend(self.description.clone().map(|text| (DESCRIPTION, text.into_bytes())));
        Ok(files)
    }

    /// Returns the special tokens other than the five of BERT.
    fn marker_words(&self) -> Vec<&str> {
        self.markers.iter().filter_map(|&id| self.words.get(id as usize)).map(String::as_str).collect()
    }

    fn special_tokens_map(&self) -> Value {
        let mut map = json!({
            "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
            "sep_token": "[SEP]", "mask_token": "[MASK]"
        });
        if !self.markers.is_empty() {
            map["additional_special_tokens"] = json!(self.marker_words());
        }
        map
    }

    fn id(&self, token: &'static str) -> Result<usize, Error> {
        let place = self.words.iter().position(|word| word == token);
        place.ok_or_else(|| {
            let advice = "use a WordPiece vocabulary of BERT";
            Error::data(format!("the vocabulary has no {token}, which BERT needs; {advice}"))
        })
    }

    fn tokenizer_config(&self) -> Value {
        let mut config = self.special_tokens_map();
        config["tokenizer_class"] = json!("BertTokenizer");
        config["do_lower_case"] = json!(self.do_lower_case);
        config["tokenize_chinese_chars"] = json!(self.tokenize_chinese_chars);
        config["strip_accents"] = json!(self.strip_accents);
        config["clean_up_tokenization_spaces"] = json!(true);
        config["model_max_length"] = json!(self.max_length);
        if self.split_special_tokens {
            config["split_special_tokens"] = json!(true);
        }
        config
    }

    /// Returns `tokenizer.json`, the format of the `tokenizers` library.
    fn tokenizer(&self) -> Result<Value, Error> {
        let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
        let special = special.into_iter().map(|token| self.id(token).map(|id| (id, token)));
        let mut special = special.collect::<Result<Vec<_>, Error>>()?;
        special.extend(self.markers.iter().map(|&id| id as usize).zip(self.marker_words()));
        special.sort_unstable();
        let added: Vec<Value> = special
            .iter()
            .map(|(id, token)| {
                json!({
                    "id": id, "content": token, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true
                })
            })
            .collect();
        let vocab: Map<String, Value> = self.words.iter().cloned().zip((0u64..).map(Value::from)).collect();
        let token = |token: &str, type_id: u8| json!({"SpecialToken": {"id": token, "type_id": type_id}});
        let text = |text: &str, type_id: u8| json!({"Sequence": {"id": text, "type_id": type_id}});
        let template_token = |token: &'static str| -> Result<Value, Error> {
            Ok(json!({"id": token, "ids": [self.id(token)?], "tokens": [token]}))
        };
        Ok(json!({
            "version": "1.0",
            "truncation": {
                "direction": "Right", "max_length": self.max_length, "strategy": "LongestFirst", "stride": 0
            },
            "padding": null,
            "added_tokens": added,
            "normalizer": {
                "type": "BertNormalizer", "clean_text": true,
                "handle_chinese_chars": self.tokenize_chinese_chars,
                "strip_accents": self.strip_accents, "lowercase": self.do_lower_case
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [token("[CLS]", 0), text("A", 0), token("[SEP]", 0)],
                "pair": [
                    token("[CLS]", 0), text("A", 0), token("[SEP]", 0), text("B", 1), token("[SEP]", 1)
                ],
                "special_tokens": {
                    "[CLS]": template_token("[CLS]")?,
                    "[SEP]": template_token("[SEP]")?
                }
            },
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
            "model": {
                "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": self.max_input_chars_per_word, "vocab": vocab
            }
        }))
    }
}

pub(crate) fn pretty(json: &Value) -> Vec<u8> {
    // Display of a JSON value cannot fail.
    format!("{json:#}\n").into_bytes()
}
