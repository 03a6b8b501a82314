//! Reads the names of classes that the Python library `datasets` writes into Parquet files.

use std::path::Path;

use serde_json::Value;

use crate::error::Result;
use crate::parquet::text_rows::open;

/// Returns the names of the classes that the numbers of a column mean, in their order. Empty if the file does not state them.
///
/// # Errors
/// Fails when the file cannot be read, or when it is not a Parquet file, is damaged or uses features that this program
/// cannot read.
pub fn class_names(path: &Path, column: &str) -> Result<Vec<String>> {
    let file = open(path, |_| false)?;
    let metadata = file.builder.metadata().file_metadata().key_value_metadata();
    let stated = metadata.and_then(|all| all.iter().find(|one| one.key == "huggingface")?.value.as_deref());
    let stated: Value = serde_json::from_str(stated.unwrap_or_default()).unwrap_or_default();
    let names = stated["info"]["features"][column]["names"].as_array();
    Ok(names.into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect())
}
