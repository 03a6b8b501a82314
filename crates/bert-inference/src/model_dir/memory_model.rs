//! [`MemoryModel`]: a model whose files are in memory.

use std::fs;
use std::path::{Component, Path};

use tempfile::TempDir;

use crate::error::Error;

/// A model whose files are in memory, for instance from `include_bytes!` or from an object store.
///
/// All code that reads a model reads a folder, so the files are written to a temporary one. It is deleted with this value; a
/// model that is open does not need it.
#[derive(Debug)]
pub struct MemoryModel {
    folder: TempDir,
}

impl MemoryModel {
    /// Writes the files of a model folder, given by their names, such as `config.json` or `1_Pooling/config.json`.
    ///
    /// # Errors
    /// Fails when a name leads out of the folder, or when a file cannot be written.
    pub fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, Error> {
        let folder = TempDir::new().map_err(Error::io("write to", &std::env::temp_dir()))?;
        for (name, bytes) in files {
            let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
            if name.is_empty() || !Path::new(name).components().all(is_inside) {
                let reason = format!("{name:?} is not the name of a file in a model folder");
                return Err(Error::option("checkpoint", reason));
            }
            let path = folder.path().join(name);
            let parent = path.parent().expect("a file in the folder");
            fs::create_dir_all(parent)
                .and_then(|()| fs::write(&path, bytes))
                .map_err(Error::io("write", &path))?;
        }
        Ok(Self { folder })
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_inside_the_folder() {
        let model =
            MemoryModel::new([("config.json", &b"{}"[..]), ("1_Pooling/config.json", b"[]")]).unwrap();
        assert_eq!(fs::read(model.folder().join("1_Pooling/config.json")).unwrap(), b"[]");
        for name in ["../config.json", "/config.json", "a/../../b", ""] {
            let error = MemoryModel::new([(name, &b""[..])]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
        let folder = model.folder().to_path_buf();
        drop(model);
        assert!(!folder.exists());
    }
}
