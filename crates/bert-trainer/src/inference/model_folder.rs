//! Reads what a fine-tuned folder says of itself: its architecture, and the report of its fine-tuning.

use crate::error::Error;
use crate::json_file::read_json;
use crate::tasks::Example;
use std::path::Path;

/// The class of `transformers` that the folder's `config.json` names.
pub(super) fn architecture(folder: &Path) -> Result<Option<String>, Error> {
    let path = folder.join("config.json");
    if !path.exists() {
        return Ok(None);
    }
    Ok(read_json(&path)?["architectures"][0].as_str().map(String::from))
}

/// The line of an example that was read from a file of new texts.
pub(super) fn line_of(example: &Example) -> usize {
    example.index.parse().expect("a number of ours")
}

/// `report.json` of the fine-tuning whose `model/` the folder is; null for another folder.
pub(super) fn trained_setting(folder: &Path) -> Result<serde_json::Value, Error> {
    let report = folder.with_file_name("report.json");
    match folder.file_name().is_some_and(|name| name == "model") && report.is_file() {
        true => read_json(&report),
        false => Ok(serde_json::Value::Null),
    }
}
