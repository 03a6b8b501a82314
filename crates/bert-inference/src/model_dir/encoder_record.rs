//! Reads and writes `encoder.json`, which records in an adapter's folder the weights that the adapter was trained on.

use std::path::Path;

use bert_model::find_weights;
use bert_storage::{digest_bytes, digest_file};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::model_dir::json_file::read_json;
use bert_storage::exists;

/// Name of the file.
pub const ENCODER: &str = "encoder.json";

/// Returns the contents of [`ENCODER`] for the encoder in a folder.
pub fn encoder_record(encoder: &Path) -> Result<Vec<u8>, Error> {
    Ok(format!("{:#}\n", Value::from(weights_digests(encoder)?)).into_bytes())
}

/// Returns the digest of every file that contains the weights of a folder, by the file's name.
fn weights_digests(folder: &Path) -> Result<Map<String, Value>, Error> {
    let mut digests = Map::new();
    for path in find_weights(folder)?.files()? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        digests.insert(name, json!({ "blake3": digest_file(&path)? }));
    }
    Ok(digests)
}

/// Returns one digest of the weights of a folder: the digest of the file, or of the list of digests of several files.
pub fn weights_digest(folder: &Path) -> Result<String, Error> {
    let digests = weights_digests(folder)?;
    let mut each = digests.values().filter_map(|file| file["blake3"].as_str());
    match (each.next(), digests.len()) {
        (Some(digest), 1) => Ok(digest.to_string()),
        _ => Ok(digest_bytes(Value::from(digests.clone()).to_string().as_bytes())),
    }
}

/// Rejects weights other than those that an adapter was trained on, if its folder records them. `setting` is the option
/// that names the folder of the encoder.
///
/// Only files with a recorded name are compared: a recorded file that the encoder lacks is not an error.
///
/// # Errors
/// Fails when a file of the encoder differs from the recorded file of the same name, or when a file cannot be read.
pub fn check_recorded_encoder(adapter: &Path, encoder: &Path, setting: &str) -> Result<(), Error> {
    let path = adapter.join(ENCODER);
    if !exists(&path)? {
        return Ok(());
    }
    let recorded = read_json(&path)?;
    let found = weights_digests(encoder)?;
    let is_other = |(name, file): (&String, &Value)| {
        file["blake3"].is_string() && found.get(name).is_some_and(|found| found != file)
    };
    if recorded.as_object().is_some_and(|recorded| recorded.iter().any(is_other)) {
        Err(Error::model(format!(
            "the adapter was trained on other weights than those in {}; give the folder of its encoder with \
             `.{setting}`",
            encoder.display()
        ))
        .at(adapter))
    } else {
        Ok(())
    }
}
