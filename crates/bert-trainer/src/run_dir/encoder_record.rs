//! Reads and writes `encoder.json`, which records in an adapter's folder the weights that the adapter was trained on.

use std::path::Path;

use bert_model::WEIGHTS;
use bert_storage::{Locate, digest_file};

use crate::error::{Error, FolderProblem};
use crate::run_dir::json_file::{exists, read_json};

/// Name of the file.
pub(crate) const ENCODER: &str = "encoder.json";

/// Returns the contents of [`ENCODER`] for the encoder in a folder.
pub(crate) fn encoder_record(encoder: &Path) -> Result<Vec<u8>, Error> {
    let digest = digest_file(&encoder.join(WEIGHTS))?;
    Ok(format!("{:#}\n", serde_json::json!({ WEIGHTS: { "blake3": digest } })).into_bytes())
}

/// Rejects weights other than those that an adapter was trained on, if its folder records them.
///
/// # Errors
/// [`FolderProblem::OtherEncoder`]; when a file cannot be read.
pub(crate) fn check_recorded_encoder(adapter: &Path, encoder: &Path) -> Result<(), Error> {
    let path = adapter.join(ENCODER);
    if !exists(&path)? {
        return Ok(());
    }
    let recorded = read_json(&path)?;
    match recorded[WEIGHTS]["blake3"].as_str() {
        Some(digest) if digest != digest_file(&encoder.join(WEIGHTS))? => {
            Err(FolderProblem::OtherEncoder(encoder.into()).located(adapter).into())
        }
        _ => Ok(()),
    }
}
