//! Reads the JSON files of runs and of fine-tunings.

use crate::error::Error;
use serde_json::Value;
use std::path::Path;

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Value, Error> {
    let text = std::fs::read(path).map_err(|e| Error::io(path, e))?;
    serde_json::from_slice(&text).map_err(|e| Error::corrupt(path, e))
}
