//! Provides the small English models that are embedded in the programs: `tiny-en`, the default of commands without a
//! checkpoint, and `mini-en`.
//!
//! The files come from the crates in the folder `models`, with the feature `builtin-models`. Models are read only from
//! folders, so the files are unpacked into the user's cache folder when a model is first used.

use std::path::{Path, PathBuf};

use bert_storage::{Disk, ObjectCache, StagedFolder, digest_bytes};

use crate::error::Error;

/// The name of the default model, accepted in place of a checkpoint path.
pub const NAME: &str = "tiny-en";

/// The names of all built-in models.
pub const NAMES: [&str; 2] = [NAME, "mini-en"];

/// The names and contents of the files of a model.
type Files = &'static [(&'static str, &'static [u8])];

/// The models that this build contains.
#[cfg(feature = "builtin-models")]
const MODELS: &[(&str, Files)] = &[(NAME, bert_tiny_en::FILES), (NAMES[1], bert_mini_en::FILES)];
#[cfg(not(feature = "builtin-models"))]
const MODELS: &[(&str, Files)] = &[];

/// Returns the name of the built-in model that a path names. An existing file or folder of this name takes precedence.
pub fn meant(path: &Path) -> Option<&'static str> {
    let named = MODELS.iter().map(|(name, _)| *name).find(|name| path == Path::new(name));
    named.filter(|_| !path.exists())
}

/// Returns the folder of a built-in model; creates it if it is missing or incomplete.
pub(crate) fn folder(name: &str) -> Result<PathBuf, Error> {
    let (name, files) = MODELS.iter().find(|(known, _)| *known == name).expect("a model of this build");
    unpack(&ObjectCache::user_folder("models"), name, files)
}

fn unpack(caches: &Path, name: &str, files: Files) -> Result<PathBuf, Error> {
    // Each version of the model has its own folder.
    let digests: String = files.iter().map(|(_, bytes)| digest_bytes(bytes)).collect();
    let path = caches.join(format!("{name}-{}", &digest_bytes(digests.as_bytes())[..16]));
    let folder = StagedFolder::new(&Disk, &path);
    let is_whole =
        |(name, bytes): &(&str, &[u8])| std::fs::read(path.join(name)).is_ok_and(|read| read == *bytes);
    if !files.iter().all(is_whole) {
        folder.create()?;
        for (name, bytes) in files {
            folder.write_bytes(name, bytes)?;
        }
    }
    Ok(path)
}

#[cfg(all(test, feature = "builtin-models"))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn damaged_files_are_unpacked_again() {
        let caches = tempfile::tempdir().unwrap();
        let path = unpack(caches.path(), NAME, bert_tiny_en::FILES).unwrap();
        let weights = path.join("model.safetensors");
        let written = || fs::metadata(&weights).unwrap().modified().unwrap();
        let first = written();
        assert_eq!(unpack(caches.path(), NAME, bert_tiny_en::FILES).unwrap(), path);
        assert_eq!(written(), first, "not written again");
        fs::write(&weights, "cut").unwrap();
        unpack(caches.path(), NAME, bert_tiny_en::FILES).unwrap();
        let model = bert_model::read_pretrained_tensors(&path).unwrap();
        assert!(model.contains_key("cls.predictions.bias"));
    }

    #[test]
    fn built_in_models_are_small() {
        for (files, maximum) in [(bert_tiny_en::FILES, 4_000_000), (bert_mini_en::FILES, 12_000_000)] {
            let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
            assert!(bytes < maximum, "{bytes}");
        }
    }
}
