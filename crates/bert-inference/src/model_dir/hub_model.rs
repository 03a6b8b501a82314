//! Accepts names of models of the Hugging Face Hub in place of folders.

use std::path::{Path, PathBuf};

use bert_hub::{Event, Hub, ModelName, Settings};

use crate::error::Error;
use crate::model_dir::builtin_model;

/// Prefixes of the names of models without an owner.
const WITHOUT_OWNER: [&str; 3] = ["bert-", "distilbert-", "roberta-"];

/// Returns the name of the model of the Hub that a path refers to: `OWNER/MODEL` or a name without an owner,
/// optionally followed by `@REVISION`. Existing files and folders and built-in models take precedence. Without a
/// revision, a missing path in an existing folder is not a name.
pub fn hub_name(path: &Path) -> Option<ModelName> {
    let text = path.to_str().filter(|_| !path.exists() && builtin_model::meant(path).is_none())?;
    let name = ModelName::parse(text)?;
    let is_name = match name.id().split_once('/') {
        Some((owner, _)) => !Path::new(owner).exists(),
        None => WITHOUT_OWNER.iter().any(|start| text.starts_with(start)),
    };
    (is_name || text.contains('@')).then_some(name)
}

/// Downloads the model of the Hub that a path names, unless it is in the cache, and returns its name with the commit,
/// which identifies the same weights at any time and on any computer. Returns other paths unchanged.
///
/// # Errors
/// Fails when the model is not in the cache and cannot be downloaded.
pub fn pinned(path: &Path, on_event: &mut dyn FnMut(Event)) -> Result<PathBuf, Error> {
    match hub_name(path) {
        Some(name) => Ok(Hub::from_environment()?.model(&name, on_event)?.name.to_string().into()),
        None => Ok(path.to_path_buf()),
    }
}

/// Returns the folder of the model of the Hub that a path names; `None` for other paths. If `may_download` is false,
/// the model must be in the cache.
pub(super) fn hub_folder(path: &Path, may_download: bool) -> Result<Option<PathBuf>, Error> {
    let Some(name) = hub_name(path) else { return Ok(None) };
    let mut settings = Settings::from_environment()?;
    settings.offline |= !may_download;
    Ok(Some(Hub::new(settings).model(&name, &mut |_| {})?.folder))
}

/// Returns the path to record for a model: the name of a built-in model, the name and commit of a model of the Hub, or
/// the folder of any other model. `given` is the path of the user.
pub fn recorded_path(given: &Path, folder: &Path) -> PathBuf {
    let commit = folder.file_name().unwrap_or_default().to_string_lossy();
    match (builtin_model::meant(given), hub_name(given)) {
        (Some(name), _) => name.into(),
        (None, Some(name)) => format!("{}@{commit}", name.id()).into(),
        (None, None) => folder.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_names_are_distinguished_from_paths() {
        let hub = [
            "google-bert/bert-base-uncased",
            "bert-base-german-cased",
            "prajjwal1/bert-tiny",
            "old@main",
            "src/none@main",
        ];
        let paths = ["runs", "./runs/one", "/a/b", "runs/one/two", "src/none", "a b/c", "", "~/bert"];
        assert!(hub.iter().all(|name| hub_name(Path::new(name)).is_some()));
        assert!(!paths.iter().any(|path| hub_name(Path::new(path)).is_some()));
    }

    #[test]
    fn records_name_the_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let folder = Path::new("/cache/models--x--y/snapshots").join(commit);
        assert_eq!(
            recorded_path(Path::new("x/y"), &folder),
            Path::new("x/y@0123456789abcdef0123456789abcdef01234567")
        );
        assert_eq!(recorded_path(Path::new("./run"), &folder), folder);
    }
}
