//! Collects the tokens that the files of a tokenizer add to a vocabulary.
//!
//! `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` may each add some. White
//! space around a token (`lstrip`, `rstrip`) never matters, because BERT's tokenizer drops it.

use bert_storage::Error;
use serde_json::{Map, Value, json};

use crate::json_keys::{reject_others, unsupported};
use crate::vocabulary::Vocabulary;

/// A token that is added to a vocabulary.
#[derive(Clone, Debug)]
pub(crate) struct AddedToken {
    pub(crate) id: usize,
    pub(crate) content: String,
    /// Whether it is a special token such as `[CLS]`, which represents no text. Other added tokens are found in the
    /// text before it is split.
    pub(crate) special: bool,
}

impl AddedToken {
    /// Returns the token with this id that the JSON describes.
    fn new(key: &str, id: Option<u64>, token: &Value) -> Result<Self, Error> {
        let content = token.get("content").and_then(Value::as_str);
        let (Some(id), Some(content)) = (id, content) else {
            return Err(unsupported(key, token, "a token with an id and a content"));
        };
        let special = token.get("special").is_some_and(|special| *special == true);
        if special && let Some(token) = token.as_object() {
            check_search(token)?;
        }
        Ok(Self { id: id as usize, content: content.to_owned(), special })
    }
}

/// Rejects a special token that is found only as a whole word (`single_word`) or in normalized text (`normalized`).
pub(crate) fn check_search(token: &Map<String, Value>) -> Result<(), Error> {
    reject_others(token, &[("single_word", json!(false), "false"), ("normalized", json!(false), "false")])
}

/// Returns the added tokens of a `tokenizer.json`.
pub(crate) fn added_tokens(tokenizer: &Map<String, Value>) -> Result<Vec<AddedToken>, Error> {
    const KEY: &str = "added_tokens";
    match tokenizer.get(KEY) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            let id = |token: &Value| token.get("id").and_then(Value::as_u64);
            list.iter().map(|token| AddedToken::new(KEY, id(token), token)).collect()
        }
        Some(other) => Err(unsupported(KEY, other, "a list")),
    }
}

/// Returns the tokens that a `tokenizer_config.json` adds.
pub(crate) fn added_by_config(config: &Map<String, Value>) -> Result<Vec<AddedToken>, Error> {
    const KEY: &str = "added_tokens_decoder";
    match config.get(KEY) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(tokens)) => {
            tokens.iter().map(|(id, token)| AddedToken::new(KEY, id.parse().ok(), token)).collect()
        }
        Some(other) => Err(unsupported(KEY, other, "a map of ids to tokens")),
    }
}

/// Returns the tokens of an `added_tokens.json` that no other file declares as special.
pub(crate) fn added_by_older(
    older: &Map<String, Value>,
    known: &[AddedToken],
) -> Result<Vec<AddedToken>, Error> {
    let others = older.iter().filter(|(content, _)| known.iter().all(|token| token.content != **content));
    let token = |(content, id): (&String, &Value)| {
        let id = id.as_u64().ok_or_else(|| unsupported(content, id, "an id"))?;
        Ok(AddedToken { id: id as usize, content: content.clone(), special: false })
    };
    others.map(token).collect()
}

/// Returns the tokens that a `tokenizer_config.json` or `special_tokens_map.json` declares as special without an id.
///
/// # Errors
/// Fails when a token is neither in the vocabulary nor in `known`, so that `transformers` would give it a new id, or
/// when [`check_search`] rejects it.
pub(crate) fn declared_special(
    config: &Map<String, Value>,
    vocabulary: &Vocabulary,
    known: &[AddedToken],
) -> Result<Vec<AddedToken>, Error> {
    let mut declared = Vec::new();
    for key in ["additional_special_tokens", "extra_special_tokens", "bos_token", "eos_token"] {
        let tokens: Vec<&Value> = match config.get(key) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(tokens)) => tokens.iter().collect(),
            Some(Value::Object(tokens)) if !tokens.contains_key("content") => tokens.values().collect(),
            Some(token) => vec![token],
        };
        for token in tokens {
            token.as_object().map_or(Ok(()), check_search)?;
            let content = token.as_str().or_else(|| token.get("content")?.as_str());
            let known_id = |content| Some(known.iter().find(|token| token.content == content)?.id);
            let id = |content| vocabulary.id(content).map(|id| id as usize).or_else(|| known_id(content));
            let Some((content, id)) = content.and_then(|content| Some((content, id(content)?))) else {
                return Err(unsupported(key, token, "a token of the vocabulary"));
            };
            declared.push(AddedToken { id, content: content.to_owned(), special: true });
        }
    }
    Ok(declared)
}
