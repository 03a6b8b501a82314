//! Reads the vocabulary and the settings from a `tokenizer.json`, the format of the `tokenizers` library.
//!
//! Features of that format that BERT's tokenizer lacks are rejected by their key. A plain map of tokens to ids
//! (`vocab.json`) is accepted too.

use std::path::Path;

use bert_storage::{Error, Result};
use serde_json::{Map, Value, json};

use crate::added_tokens::{AddedToken, added_tokens};
use crate::basic::PartialSettings;
use crate::json_keys::{optional_bool, reject_others, reject_unless, unsupported};
use crate::vocabulary::{MAX_INPUT_CHARS_PER_WORD, SPECIAL, UNK, Vocabulary};

/// Returns the settings of the normalizer of a `tokenizer.json`; a normalizer or pre-tokenizer other than BERT's is rejected.
pub(crate) fn settings(tokenizer: &Map<String, Value>) -> Result<PartialSettings, Error> {
    // An absent key leaves the stage undefined, but `null` means that text is not cleaned or split.
    if let Some(splitter) = tokenizer.get("pre_tokenizer")
        && splitter.get("type").is_none_or(|name| name != "BertPreTokenizer")
    {
        let found = splitter.get("type").unwrap_or(splitter);
        return Err(unsupported("pre_tokenizer", found, "BertPreTokenizer"));
    }
    let Some(normalizer) = tokenizer.get("normalizer") else { return Ok(PartialSettings::default()) };
    let steps: Vec<&Value> = match normalizer {
        whole if whole.get("type").is_some_and(|name| name == "Sequence") => {
            whole.get("normalizers").and_then(Value::as_array).into_iter().flatten().collect()
        }
        one => vec![one],
    };
    let names: Vec<&str> = steps.iter().map(|step| step["type"].as_str().unwrap_or_default()).collect();
    let bert_step =
        steps.iter().find(|step| step["type"] == "BertNormalizer").and_then(|step| step.as_object());
    match bert_step {
        Some(step) if steps.len() == 1 => {
            reject_unless(step, "clean_text", |clean| clean == true, "true")?;
            Ok(PartialSettings {
                do_lower_case: optional_bool(step, "lowercase")?,
                strip_accents: optional_bool(step, "strip_accents")?,
                tokenize_chinese_chars: optional_bool(step, "handle_chinese_chars")?,
                split_special_tokens: None,
            })
        }
        _ if names.concat().is_empty() => Err(unsupported("normalizer", normalizer, "BertNormalizer")),
        _ => Err(unsupported("normalizer", &Value::from(names.join(", ")), "BertNormalizer")),
    }
}

/// Largest value accepted for `max_input_chars_per_word`: the time to split a word grows with the square of its length.
const MAX_WORD: u64 = 1000;

/// Returns the maximum number of characters of a word that a `tokenizer.json` states, or the default.
pub(crate) fn max_word(tokenizer: &Map<String, Value>) -> Result<usize, Error> {
    let stated = tokenizer.get("model").and_then(|model| model.get("max_input_chars_per_word"));
    let Some(stated) = stated else { return Ok(MAX_INPUT_CHARS_PER_WORD) };
    let number = stated.as_u64().filter(|number| (1..=MAX_WORD).contains(number));
    number
        .map(|number| number as usize)
        .ok_or_else(|| unsupported("max_input_chars_per_word", stated, "a number from 1 to 1000"))
}

/// Returns the vocabulary of a `tokenizer.json`, or of a map of tokens to ids.
pub(crate) fn vocabulary(tokenizer: &Map<String, Value>, path: &Path) -> Result<Vocabulary> {
    let model = tokenizer.get("model").filter(|model| model.is_object());
    let Some(model) = model.and_then(Value::as_object) else {
        return vocabulary_of_map(tokenizer, Vec::new(), path);
    };
    let check = || {
        // Files of older versions do not contain the type.
        let type_name = ("type", json!("WordPiece"), "WordPiece");
        let prefix = ("continuing_subword_prefix", json!("##"), "##");
        reject_others(model, &[type_name, ("unk_token", json!(UNK), UNK), prefix])
    };
    check().map_err(|problem| problem.at(path))?;
    match model.get("vocab") {
        Some(Value::Object(tokens)) => {
            let added = added_tokens(tokenizer).map_err(|problem| problem.at(path))?;
            vocabulary_of_map(tokens, added, path)
        }
        Some(other) => Err(unsupported("vocab", other, "a map of tokens to ids").at(path)),
        None => Err(Error::data("the vocabulary is empty").at(path)),
    }
}

/// Returns the vocabulary of a map of tokens to ids. An id without a token becomes a blank line.
fn vocabulary_of_map(map: &Map<String, Value>, added: Vec<AddedToken>, path: &Path) -> Result<Vocabulary> {
    // Far more ids than tokens indicate a damaged file, and would only waste memory.
    let max_ids = 2 * map.len() + 1000;
    let mut tokens: Vec<String> = Vec::with_capacity(map.len());
    for (token, id) in map {
        let id = id.as_u64().filter(|id| *id < max_ids as u64);
        let Some(id) = id.map(|id| id as usize) else {
            return Err(Error::data(format!(
                "the id of {token:?} is not an integer within the size of the vocabulary"
            ))
            .at(path));
        };
        place(&mut tokens, id, token, max_ids).map_err(|problem| problem.at(path))?;
    }
    Vocabulary::from_tokens(tokens, path)?.with_added(&added, path)
}

/// Writes a token at its id.
fn place(tokens: &mut Vec<String>, id: usize, token: &str, max_id: usize) -> Result<(), Error> {
    if id > max_id || tokens.get(id).is_some_and(|known| !known.is_empty()) {
        return Err(Error::data(format!(
            "{token:?} has id {id}, which another token also has or which is far above the others"
        )));
    }
    if tokens.len() <= id {
        tokens.resize(id + 1, String::new());
    }
    token.clone_into(&mut tokens[id]);
    Ok(())
}

impl Vocabulary {
    /// Returns a vocabulary of these tokens, in the order of their ids.
    ///
    /// # Errors
    /// Fails when a token does not fit a line of `vocab.txt`, or when [`Vocabulary::from_bytes`] fails.
    fn from_tokens(tokens: Vec<String>, path: &Path) -> Result<Self> {
        let read = Self::from_bytes((tokens.join("\n") + "\n").into_bytes(), path)?;
        match tokens.iter().zip(read.tokens()).find(|(token, line)| token != line) {
            None if tokens.len() == read.len() => Ok(read),
            other => {
                let token = other.map(|(token, _)| token.clone()).unwrap_or_default();
                let problem =
                    "begins or ends with white space or has a line break, which vocab.txt cannot store";
                Err(Error::data(format!("{token:?} {problem}")).at(path))
            }
        }
    }

    /// Returns the same vocabulary with added tokens.
    ///
    /// # Errors
    /// Fails when a token would be searched for in the text before it is split, or when its id belongs to another token
    /// or is far above the others.
    pub(crate) fn with_added(self, added: &[AddedToken], path: &Path) -> Result<Self> {
        let mut tokens = self.tokens().to_vec();
        for AddedToken { id, content, special } in added {
            if !special && !SPECIAL.contains(&content.as_str()) {
                return Err(Error::model(format!(
                    "{content:?} is an added token that is matched before the text is split, which is not supported. \
                     Write it in place of an [unused...] token of vocab.txt and remove it from the added tokens"
                ))
                .at(path));
            }
            if tokens.get(*id).is_some_and(|token| token == content) {
                continue;
            }
            place(&mut tokens, *id, content, 2 * self.len() + 1000).map_err(|problem| problem.at(path))?;
        }
        let is_marker = |token: &&AddedToken| token.special && !SPECIAL.contains(&token.content.as_str());
        let mut markers: Vec<u32> = added.iter().filter(is_marker).map(|token| token.id as u32).collect();
        markers.sort_unstable();
        markers.dedup();
        let whole = if tokens == self.tokens() { self } else { Self::from_tokens(tokens, path)? };
        Ok(whole.with_markers(markers))
    }
}
