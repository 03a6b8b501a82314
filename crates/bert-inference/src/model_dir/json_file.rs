//! Reads the JSON files of runs and of fine-tunings, distinguishes absent from unreadable files, and writes JSON Lines.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, damaged, results_not_written};

/// Reads a JSON file.
pub fn read_json(path: &Path) -> Result<Value, Error> {
    let text = std::fs::read(path).map_err(Error::io("read", path))?;
    serde_json::from_slice(&text).map_err(|e| damaged(path, e))
}

/// Reads a record from a JSON file.
///
/// # Errors
/// Fails when the file cannot be read, or when it is damaged; the error then names the field.
pub fn read_record<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    serde_json::from_value(read_json(path)?).map_err(|error| damaged(path, error))
}

/// Writes a line of JSON Lines.
pub(crate) fn write_line(out: &mut dyn Write, line: &impl Serialize) -> Result<(), Error> {
    serde_json::to_writer(&mut *out, line).map_err(|error| results_not_written(error.into()))?;
    out.write_all(b"\n").map_err(results_not_written)
}
