//! A JSON file of a model folder, whose values are read and checked by key.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, damaged};
use crate::model_dir::json_file::read_json;
use bert_storage::exists;

/// Smallest length of an encoding, as for `--max-seq-length`: three special tokens and one token of each text.
pub(super) const MIN_LENGTH: usize = 5;

/// Lengths from this value on are too large for a text: `transformers` writes 1e30 for "not known".
const UNKNOWN_LENGTH: f64 = 1e6;

/// A JSON object with its path. An absent file is an empty object, and `null` is an absent value.
pub(super) struct JsonObject {
    pub(super) path: PathBuf,
    pub(super) object: Map<String, Value>,
}

impl JsonObject {
    /// Reads a file of a folder; a missing file counts as an empty object.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or when it does not contain a JSON object.
    pub(super) fn read(folder: &Path, name: &str) -> Result<Self, Error> {
        let path = folder.join(name);
        if !exists(&path)? {
            return Ok(Self { path, object: Map::new() });
        }
        match read_json(&path)? {
            Value::Object(object) => Ok(Self { path, object }),
            _ => Err(damaged(&path, "not a JSON object")),
        }
    }

    /// Returns the value of a key, or of a key in an object (`/object/key`).
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let mut keys = key.trim_start_matches('/').split('/');
        let first = self.object.get(keys.next()?);
        keys.try_fold(first?, |value, key| value.get(key)).filter(|value| !value.is_null())
    }

    /// Returns the error for the value of a key.
    pub(super) fn wrong(&self, key: &str, reason: impl Display) -> Error {
        let key = key.trim_start_matches('/').replace('/', ".");
        Error::model(format!("`{key}` {reason}")).at(&self.path)
    }

    /// Rejects a value unless it is absent or `fine` accepts it.
    ///
    /// # Errors
    /// Fails when the key has a different value; the error names the key.
    pub(super) fn require(
        &self,
        key: &str,
        fine: impl Fn(&Value) -> bool,
        supported: &str,
    ) -> Result<(), Error> {
        match self.get(key) {
            Some(value) if !fine(value) => {
                Err(self.wrong(key, format!("is {value}; only {supported} is supported")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of tokens at a key, unless it means "not known".
    ///
    /// # Errors
    /// Fails when the value is not a number of tokens, or is below [`MIN_LENGTH`]; the error names the key.
    pub(super) fn length(&self, key: &str) -> Result<Option<usize>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        if value.as_f64().is_some_and(|number| number >= UNKNOWN_LENGTH) {
            return Ok(None);
        }
        match value.as_u64().filter(|tokens| *tokens >= MIN_LENGTH as u64) {
            Some(tokens) => Ok(Some(tokens as usize)),
            None => {
                Err(self.wrong(key, format!("is {value}, but must be a number of tokens from {MIN_LENGTH}")))
            }
        }
    }
}
