//! Provides the small English models that are embedded in the programs: `tiny-en`, the default of commands without a
//! checkpoint, and `mini-en`.
//!
//! The files come from the folder `models`. All code that reads a model reads a folder, so the files are unpacked into
//! the user's cache folder when a model is first used.

use std::path::{Path, PathBuf};

use bert_storage::{Disk, ObjectCache, StagedFolder, digest_bytes};

use crate::error::Error;

/// The name of the default model, accepted in place of a checkpoint path.
pub const NAME: &str = "tiny-en";

/// The names of all built-in models.
pub const NAMES: [&str; 2] = [NAME, "mini-en"];

/// The files of a model and their names.
type Files = [(&'static str, &'static [u8]); 8];

macro_rules! files {
    ($folder:literal: $($name:literal)*) => {
        [$(($name, include_bytes!(concat!("../../../../models/", $folder, "/", $name)) as &[u8])),*]
    };
}

const TINY: Files = files! {
    "tiny-en": "README.md" "vocab.txt" "tokenizer.json" "tokenizer_config.json" "special_tokens_map.json"
    "model_description.json" "model.safetensors" "config.json"
};

const MINI: Files = files! {
    "mini-en": "README.md" "vocab.txt" "tokenizer.json" "tokenizer_config.json" "special_tokens_map.json"
    "model_description.json" "model.safetensors" "config.json"
};

/// Returns the name of the built-in model that a path means. An existing file or folder of this name takes precedence.
pub fn meant(path: &Path) -> Option<&'static str> {
    NAMES.into_iter().find(|name| path == Path::new(name) && !path.exists())
}

/// Returns the folder of a built-in model; creates it if it is missing or incomplete.
pub(crate) fn folder(name: &str) -> Result<PathBuf, Error> {
    unpack(&ObjectCache::user_folder("models"), name)
}

fn unpack(caches: &Path, name: &str) -> Result<PathBuf, Error> {
    let files = if name == NAME { TINY } else { MINI };
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn damaged_files_are_unpacked_again() {
        let caches = tempfile::tempdir().unwrap();
        let path = unpack(caches.path(), NAME).unwrap();
        let weights = path.join("model.safetensors");
        let written = || fs::metadata(&weights).unwrap().modified().unwrap();
        let first = written();
        assert_eq!(unpack(caches.path(), NAME).unwrap(), path);
        assert_eq!(written(), first, "not written again");
        fs::write(&weights, "cut").unwrap();
        unpack(caches.path(), NAME).unwrap();
        let model = bert_model::read_pretrained_tensors(&path).unwrap();
        assert!(model.contains_key("cls.predictions.bias"));
    }

    #[test]
    fn built_in_models_are_small() {
        for (files, maximum) in [(TINY, 4_000_000), (MINI, 12_000_000)] {
            let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
            assert!(bytes < maximum, "{bytes}");
        }
    }
}
