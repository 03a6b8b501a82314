//! Models of the Hugging Face Hub: downloads with progress, and the commit with which a run was started.

use std::path::{Path, PathBuf};

use bert_inference::hub_model::hub_name;
use bert_inference::json_file::read_json;
use bert_inference::{hub_model, resolve_tuned_folder};
use serde_json::Value;

use crate::output::download::with_download;
use crate::output::progress::print_warning;

/// The files in which runs record the model that they start from, each with the JSON pointer to the model.
const RECORDS: [(&str, &str); 3] = [
    ("run.json", "/config/init_checkpoint"),
    (".runs/run.json", "/checkpoint"),
    ("report.json", "/config/checkpoint"),
];

/// Downloads the model of the Hub that a path names, unless it is in the cache, and returns its name with the commit.
/// Other paths are returned as they are.
pub(super) fn pinned(path: &Path, quiet: bool) -> anyhow::Result<PathBuf> {
    let name = |path: &PathBuf| path.display().to_string();
    Ok(with_download(quiet, name, |on_event| hub_model::pinned(path, on_event))?)
}

/// Returns the path of the model that a run starts from, like [`pinned`]. If the output folder records a commit of
/// the same model of the Hub, that commit is used again, so that a resumed run starts from the same weights.
pub(super) fn pinned_start(path: &Path, output: &Path, quiet: bool) -> anyhow::Result<PathBuf> {
    let name = hub_name(path).filter(|name| name.revision() == "main");
    let recorded = name.and_then(|name| recorded(output, name.id()));
    pinned(recorded.as_deref().unwrap_or(path), quiet)
}

/// Returns the folder of a model of the Hub, given by its name or by its folder in the cache; other paths are returned as
/// they are.
pub(super) fn folder_of_name(path: &Path, quiet: bool) -> anyhow::Result<PathBuf> {
    if hub_name(path).is_some() {
        return Ok(resolve_tuned_folder(&pinned(path, quiet)?, &mut |error| print_warning(error))?);
    }
    Ok(bert_hub::snapshot(path).unwrap_or_else(|| path.to_path_buf()))
}

/// Returns the name, with a commit, that an output folder or one of its subfolders records for a model.
fn recorded(output: &Path, id: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(output).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut folders: Vec<PathBuf> = entries.collect();
    folders.sort();
    folders.insert(0, output.to_path_buf());
    let places = folders.iter().flat_map(|folder| RECORDS.map(|(file, place)| (folder.join(file), place)));
    let mut recorded = places.filter_map(|(file, place)| {
        let record = file.is_file().then(|| read_json(&file).ok()).flatten()?;
        record.pointer(place).and_then(Value::as_str).map(PathBuf::from)
    });
    recorded.find(|path| hub_name(path).is_some_and(|name| name.id() == id && name.commit().is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_commits_are_found_by_name() {
        let output = tempfile::tempdir().unwrap();
        let name = "owner/model@0123456789abcdef0123456789abcdef01234567";
        let write = |file: &str, text: String| {
            let path = output.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(recorded(output.path(), "owner/model"), None);
        write("run.json", r#"{"config": {"init_checkpoint": "owner/model"}}"#.into());
        assert_eq!(recorded(output.path(), "owner/model"), None, "without a commit");
        write("rte/.runs/run.json", format!(r#"{{"checkpoint": "{name}"}}"#));
        assert_eq!(recorded(output.path(), "owner/model"), Some(name.into()));
        assert_eq!(recorded(output.path(), "owner/other"), None);
    }
}
