//! Finds the models of all seeds of a fine-tuning, which `finetune --keep-seeds` writes into `seed-N/model`.

use std::path::{Path, PathBuf};

use bert_storage::exists;

use crate::error::Error;

const PREFIX: &str = "seed-";

/// The model of one seed of a fine-tuning.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeedModel {
    /// The seed.
    pub seed: u64,
    /// Folder of the model.
    pub folder: PathBuf,
}

/// Returns the name of a seed's folder in the output folder of a fine-tuning.
pub fn seed_folder(seed: u64) -> String {
    format!("{PREFIX}{seed}")
}

/// Returns the models of all seeds in the output folder of a finished fine-tuning, in the order of the seeds.
///
/// # Errors
/// Fails when the folder does not exist, when it has no models of seeds, or when it cannot be read.
pub fn seed_models(output: &Path) -> Result<Vec<SeedModel>, Error> {
    if !exists(output)? {
        return Err(Error::model("this folder does not exist").at(output));
    }
    let mut models = Vec::new();
    if output.join("report.json").exists() {
        for entry in std::fs::read_dir(output).map_err(Error::io("read", output))? {
            let path = entry.map_err(Error::io("read", output))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let seed = name.strip_prefix(PREFIX).and_then(|seed| seed.parse().ok());
            models.extend(seed.map(|seed| SeedModel { seed, folder: path.join("model") }));
        }
    }
    models.retain(|model| model.folder.is_dir());
    models.sort_by_key(|model| model.seed);
    if models.is_empty() {
        Err(Error::model(
            "no models of seeds here; finetune `.keep_seeds` writes them into seed-N/model of its output folder",
        )
        .at(output))
    } else {
        Ok(models)
    }
}
