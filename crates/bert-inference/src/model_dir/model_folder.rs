//! Resolves a checkpoint argument to the folder of a model.
//!
//! [`ModelFiles`] has the configuration, the tokenizer and the description of a model folder, which are read together.

use std::path::{Path, PathBuf};

use bert_model::{BertConfig, find_weights, read_pretrained_config};
use bert_storage::exists;

use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;
use crate::model_dir::builtin_model;
use crate::model_dir::checkpoint::{CheckpointFolder, MARKER, verify};
use crate::model_dir::description::ModelDescription;
use crate::model_dir::hub_model::hub_folder;

/// Resolves a path to a model folder: a Hugging Face folder, an archive of google-research/bert or a checkpoint itself,
/// the newest valid checkpoint of a run, the tuned model of a fine-tuning, a built-in model, the name of a model of the
/// Hugging Face Hub, or its folder in the Hub's cache.
///
/// # Errors
/// Fails when the path is none of these, when a checkpoint is corrupt, when a model cannot be downloaded, or when the
/// folder holds an adapter, whether from a fine-tuning or from another library.
pub fn resolve_model_folder(path: &Path, warn: &mut dyn FnMut(&Error)) -> Result<PathBuf, Error> {
    let folder = resolve_tuned_folder(path, warn)?;
    bert_model::reject_adapter(&folder)?;
    Ok(folder)
}

/// Resolves a path like [`resolve_model_folder`], but also accepts an adapter's folder.
///
/// # Errors
/// Fails when the path is none of these, when a checkpoint is corrupt, or when a model cannot be downloaded.
pub fn resolve_tuned_folder(path: &Path, warn: &mut dyn FnMut(&Error)) -> Result<PathBuf, Error> {
    hub_folder(path, true)?.map_or_else(|| resolve_local(path, warn), Ok)
}

/// Returns the folder of a model that a report names, if it exists without a download.
pub fn present_folder(path: &Path) -> Option<PathBuf> {
    let found = hub_folder(path, false).ok()?;
    found.or_else(|| resolve_local(path, &mut |_| {}).ok())
}

/// Resolves a path that is not the name of a model of the Hub.
fn resolve_local(path: &Path, warn: &mut dyn FnMut(&Error)) -> Result<PathBuf, Error> {
    if let Some(name) = builtin_model::meant(path) {
        return builtin_model::folder(name);
    }
    if let Some(folder) = bert_hub::snapshot(path) {
        return Ok(folder);
    }
    if path.join(MARKER).exists() {
        return verify(path).map(|_| path.to_path_buf());
    }
    bert_model::reject_weights_file(path)?;
    if bert_model::is_adapter_folder(path) {
        return Ok(path.to_path_buf());
    }
    if path.join("checkpoints").is_dir()
        && let Some(newest) = CheckpointFolder::in_run(path).newest_good(warn)?
    {
        return Ok(newest.path);
    }
    if path.join("report.json").exists() && path.join("model/config.json").exists() {
        return Ok(path.join("model"));
    }
    // The model loader reports missing or invalid files of a Hugging Face folder.
    if bert_model::find_config(path).is_some() {
        return Ok(path.to_path_buf());
    }
    bert_model::reject_other_weights(path)?;
    let text = match model_below(path) {
        _ if !exists(path)? => "this folder does not exist".to_string(),
        Some(below) => format!("no checkpoint here, but {} has one; give that folder", below.display()),
        None => "no checkpoint here (looked for model.safetensors and checkpoints/step-*/COMMITTED.json)"
            .to_string(),
    };
    Err(Error::model(text).at(path))
}

/// Returns a model folder inside a folder: a snapshot in the cache of the Hugging Face Hub, or a module of an old
/// folder of sentence-transformers.
fn model_below(path: &Path) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = [path.to_path_buf(), path.join("snapshots")]
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())))
        .collect();
    // With sorted folders, the error names the same folder every time.
    folders.sort();
    let is_model = |folder: &PathBuf| {
        bert_model::find_config(folder).is_some() && bert_model::find_weights(folder).is_ok()
    };
    folders.into_iter().find(is_model)
}

/// The files of a model folder except its weights, compared with each other. Every program reads a folder in this way.
pub struct ModelFiles<T = ModelTokenizer> {
    /// The model's configuration.
    pub config: BertConfig,
    /// The tokenizer.
    pub tokenizer: T,
    /// The description of the model.
    pub description: ModelDescription,
}

impl ModelFiles {
    /// Reads a folder with a tokenizer.
    ///
    /// # Errors
    /// Fails when a file is missing, cannot be read or is damaged; when a value is not supported or contradicts another
    /// one.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let config = read_pretrained_config(folder)?;
        // Folders with weights of another framework often lack a tokenizer; the error about the weights is more
        // helpful.
        let tokenizer = ModelTokenizer::open(folder).or_else(|error| find_weights(folder).and(Err(error)))?;
        let description = ModelDescription::read(folder, &config, Some(&tokenizer))?;
        Ok(Self { config, tokenizer, description })
    }
}

impl ModelFiles<Option<ModelTokenizer>> {
    /// Reads a folder that may lack a tokenizer.
    ///
    /// # Errors
    /// Fails as [`ModelFiles::open`] does.
    pub fn find(folder: &Path) -> Result<Self, Error> {
        let config = read_pretrained_config(folder)?;
        let tokenizer = ModelTokenizer::find(folder)?;
        let description = ModelDescription::read(folder, &config, tokenizer.as_ref())?;
        Ok(Self { config, tokenizer, description })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folders_of_the_hub_cache_are_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("models--x--y");
        let snapshot = model.join("snapshots/abc");
        fs::create_dir_all(&snapshot).unwrap();
        fs::write(snapshot.join("config.json"), "{}").unwrap();
        assert_eq!(resolve_model_folder(&model, &mut |_| {}).unwrap(), snapshot);
    }

    #[test]
    fn a_model_inside_a_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for inside in ["copy/snapshots/abc", "sentences/0_BERT"] {
            let model = folder.path().join(inside);
            fs::create_dir_all(&model).unwrap();
            fs::write(model.join("config.json"), "{}").unwrap();
            fs::write(model.join("model.safetensors"), "").unwrap();
            let given = folder.path().join(inside.split('/').next().unwrap());
            let error = resolve_model_folder(&given, &mut |_| {}).unwrap_err();
            assert_eq!(error.exit_code(), 4);
            assert!(error.to_string().contains(&*model.to_string_lossy()), "{error}");
        }
    }

    #[test]
    fn tuned_model_needs_its_report() {
        let folder = tempfile::tempdir().unwrap();
        let resolve = || resolve_model_folder(folder.path(), &mut |_| {});
        let none = |found| {
            let found: Result<PathBuf, Error> = found;
            assert!(found.unwrap_err().text().starts_with("no checkpoint here (looked for"))
        };
        none(resolve());
        fs::create_dir(folder.path().join("model")).unwrap();
        fs::write(folder.path().join("model/config.json"), "{}").unwrap();
        none(resolve());
        fs::write(folder.path().join("report.json"), "{}").unwrap();
        assert_eq!(resolve().unwrap(), folder.path().join("model"));
        fs::remove_file(folder.path().join("model/config.json")).unwrap();
        none(resolve());
    }
}
