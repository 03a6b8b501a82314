//! Provides `tiny-en`, a small English model embedded in the programs. Commands use it when no checkpoint is given.
//!
//! The files come from `models/tiny-en`. All code that reads a model reads a folder, so the files are unpacked into the
//! user's cache folder when the model is first used.

use std::path::{Path, PathBuf};

use bert_storage::{Disk, ObjectCache, StagedFolder, digest_bytes};

use crate::error::Error;

/// The name of the model, accepted in place of a checkpoint path.
pub const NAME: &str = "tiny-en";

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_bytes!(concat!("../../../../models/tiny-en/", $name)) as &[u8])),*]
    };
}

const FILES: [(&str, &[u8]); 7] = files! {
    "README.md" "vocab.txt" "tokenizer.json" "tokenizer_config.json" "special_tokens_map.json" "model.safetensors"
    "config.json"
};

/// Returns whether a path means the built-in model. An existing file or folder of this name takes precedence.
pub(crate) fn is_meant(path: &Path) -> bool {
    path == Path::new(NAME) && !path.exists()
}

/// Returns the model's folder; creates it if it is missing or incomplete.
pub(crate) fn folder() -> Result<PathBuf, Error> {
    unpack(&ObjectCache::user_folder("models"))
}

fn unpack(caches: &Path) -> Result<PathBuf, Error> {
    // Each version of the model has its own folder.
    let digests: String = FILES.iter().map(|(_, bytes)| digest_bytes(bytes)).collect();
    let path = caches.join(format!("{NAME}-{}", &digest_bytes(digests.as_bytes())[..16]));
    let folder = StagedFolder::new(&Disk, &path);
    let is_whole =
        |(name, bytes): &(&str, &[u8])| std::fs::read(path.join(name)).is_ok_and(|read| read == *bytes);
    if !FILES.iter().all(is_whole) {
        folder.create()?;
        for (name, bytes) in FILES {
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
        let path = unpack(caches.path()).unwrap();
        let weights = path.join("model.safetensors");
        let written = || fs::metadata(&weights).unwrap().modified().unwrap();
        let first = written();
        assert_eq!(unpack(caches.path()).unwrap(), path);
        assert_eq!(written(), first, "not written again");
        fs::write(&weights, "cut").unwrap();
        unpack(caches.path()).unwrap();
        let model = bert_model::read_pretrained_tensors(&path).unwrap();
        assert!(model.contains_key("cls.predictions.bias"));
    }

    #[test]
    fn built_in_model_is_small() {
        let bytes: usize = FILES.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes < 4_000_000, "{bytes}");
    }
}
