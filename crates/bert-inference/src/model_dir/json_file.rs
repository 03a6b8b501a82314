//! Reads the JSON files of runs and of fine-tunings, tells absent files from unreadable ones, and writes JSON Lines.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, damaged, results_not_written};

/// Reads a JSON file.
pub fn read_json(path: &Path) -> Result<Value, Error> {
    let text = std::fs::read(path).map_err(Error::io("read", path))?;
    serde_json::from_slice(&text).map_err(|e| damaged(path, e))
}

/// Reads a record from a JSON file.
///
/// # Errors
/// Fails when the file cannot be read, or when it is damaged; the error then names the field.
pub fn read_record<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    serde_json::from_value(read_json(path)?).map_err(|error| damaged(path, error))
}

/// Writes a line of JSON Lines.
pub(crate) fn write_line(out: &mut dyn Write, line: &impl Serialize) -> Result<(), Error> {
    serde_json::to_writer(&mut *out, line).map_err(|error| results_not_written(error.into()))?;
    out.write_all(b"\n").map_err(results_not_written)
}

/// Returns whether a path exists. Links are followed.
///
/// # Errors
/// Fails when the system returns an error other than "not found", such as a missing permission or a loop of links.
pub fn exists(path: &Path) -> Result<bool, Error> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_absent_files_do_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "{}").unwrap();
        std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
        assert!(exists(&at("file")).unwrap());
        assert!(!exists(&at("missing")).unwrap());
        assert!(!exists(&at("file/inside")).unwrap());
        let error = exists(&at("loop")).unwrap_err();
        assert!(error.to_string().contains(&*at("loop").to_string_lossy()), "{error}");
    }
}
