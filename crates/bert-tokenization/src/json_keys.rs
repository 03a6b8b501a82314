//! Checks the values of keys in the JSON files of a tokenizer.

use serde_json::{Map, Value};

use bert_storage::Error;

/// Rejects a key with a value that this tokenizer does not support; an absent key and `null` pass.
pub(crate) fn reject_unless(
    object: &Map<String, Value>,
    key: &str,
    supported: impl Fn(&Value) -> bool,
    only: &'static str,
) -> Result<(), Error> {
    match object.get(key) {
        Some(value) if !value.is_null() && !supported(value) => Err(unsupported(key, value, only)),
        _ => Ok(()),
    }
}

/// Rejects every key whose value differs from the given one. The third item of an entry is the name of the value in the
/// error.
pub(crate) fn reject_others(
    object: &Map<String, Value>,
    supported: &[(&str, Value, &'static str)],
) -> Result<(), Error> {
    let mut keys = supported.iter();
    keys.try_for_each(|(key, value, words)| reject_unless(object, key, |found| found == value, words))
}

pub(crate) fn unsupported(key: &str, value: &Value, only: &'static str) -> Error {
    // The value is truncated, because a whole normalizer would fill the screen.
    let value: String = value.to_string().chars().take(80).collect();
    Error::model(format!("`{key}` is {value}; only {only} is supported"))
}

/// Returns the value of a Boolean key; `None` if the key is `null` or absent.
pub(crate) fn optional_bool(object: &Map<String, Value>, key: &str) -> Result<Option<bool>, Error> {
    reject_unless(object, key, Value::is_boolean, "true or false")?;
    Ok(object.get(key).and_then(Value::as_bool))
}
