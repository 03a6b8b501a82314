//! The tokenizer files of a Hugging Face folder, made from a vocabulary.
//!
//! [`Vocabulary::files`] returns `vocab.txt`, `tokenizer_config.json`, `special_tokens_map.json` and `tokenizer.json`,
//! which `AutoTokenizer` loads without conversion.

use serde_json::{Map, Value, json};

use crate::error::Error;

/// Maximum number of characters of a word; longer words are `[UNK]`, as in the reference's `tokenization.py`.
const MAX_INPUT_CHARS_PER_WORD: usize = 200;

/// Vocabulary and tokenizer settings of a folder.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary<'a> {
    /// The words; the index of a word is its id.
    pub words: &'a [String],
    /// Whether text is lower-cased.
    pub do_lower_case: bool,
    /// Whether accents are removed; `None` for the value of `do_lower_case`.
    pub strip_accents: Option<bool>,
    /// Whether each ideograph is a separate word.
    pub tokenize_chinese_chars: bool,
    /// Maximum sequence length in tokens.
    pub max_length: usize,
}

impl<'a> Vocabulary<'a> {
    /// Returns a vocabulary with the settings of the reference's uncased models.
    pub fn uncased(words: &'a [String], max_length: usize) -> Self {
        Self { words, do_lower_case: true, strip_accents: None, tokenize_chinese_chars: true, max_length }
    }
}

impl Vocabulary<'_> {
    /// Returns the name and bytes of every tokenizer file.
    ///
    /// # Errors
    /// [`Error::MissingSpecialToken`] if the vocabulary lacks one of the five special tokens.
    pub fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
        let vocab: String = self.words.iter().flat_map(|word| [word.as_str(), "\n"]).collect();
        Ok(vec![
            ("vocab.txt", vocab.into_bytes()),
            ("tokenizer.json", pretty(&self.tokenizer()?)),
            ("tokenizer_config.json", pretty(&self.tokenizer_config())),
            ("special_tokens_map.json", pretty(&special_tokens_map())),
        ])
    }

    fn id(&self, token: &'static str) -> Result<usize, Error> {
        let place = self.words.iter().position(|word| word == token);
        place.ok_or(Error::MissingSpecialToken(token))
    }

    fn tokenizer_config(&self) -> Value {
        let mut config = special_tokens_map();
        config["tokenizer_class"] = json!("BertTokenizer");
        config["do_lower_case"] = json!(self.do_lower_case);
        config["tokenize_chinese_chars"] = json!(self.tokenize_chinese_chars);
        config["strip_accents"] = json!(self.strip_accents);
        config["clean_up_tokenization_spaces"] = json!(true);
        config["model_max_length"] = json!(self.max_length);
        config
    }

    /// Returns `tokenizer.json`, the format of the `tokenizers` library.
    fn tokenizer(&self) -> Result<Value, Error> {
        let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
        let special = special.into_iter().map(|token| self.id(token).map(|id| (id, token)));
        let mut special = special.collect::<Result<Vec<_>, Error>>()?;
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
            "truncation": null,
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
                "max_input_chars_per_word": MAX_INPUT_CHARS_PER_WORD, "vocab": vocab
            }
        }))
    }
}

fn special_tokens_map() -> Value {
    json!({
        "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
        "sep_token": "[SEP]", "mask_token": "[MASK]"
    })
}

pub(crate) fn pretty(json: &Value) -> Vec<u8> {
    // Display of a JSON value cannot fail.
    format!("{json:#}\n").into_bytes()
}
