//! Reads `report.json`, which a finished fine-tuning writes into its folder.

use std::path::{Path, PathBuf};

use bert_storage::Locate;
use serde_json::Value;

use crate::error::{Error, FolderProblem};
use crate::run_dir::json_file::{exists, read_json};
use bert_tasks::statistics::SeedSummary;

/// The report of a fine-tuning.
pub(crate) struct ReportFile {
    /// Its path, for messages.
    pub(crate) path: PathBuf,
    /// The whole report.
    pub(crate) value: Value,
}

impl ReportFile {
    /// Reads the report in a fine-tuning's folder.
    ///
    /// # Errors
    /// [`FolderProblem::NoFinetuning`]; when the report cannot be read.
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("report.json");
        match exists(&path)? {
            true => Ok(Self { value: read_json(&path)?, path }),
            false => Err(FolderProblem::NoFinetuning.located(folder).into()),
        }
    }

    /// Returns the scores on one of its sets; `None` if it was not scored on that set.
    ///
    /// # Errors
    /// When the scores are corrupt.
    pub(crate) fn summary(&self, part: &str) -> Result<Option<SeedSummary>, Error> {
        let read = serde_json::from_value(self.value[part].clone());
        read.map_err(|error| Error::corrupt(&self.path, format!("{part}: {error}")))
    }

    /// Returns the scores on dev, which every fine-tuning has.
    ///
    /// # Errors
    /// When the scores are missing or corrupt.
    pub(crate) fn dev(&self) -> Result<SeedSummary, Error> {
        self.summary("dev")?.ok_or_else(|| Error::corrupt(&self.path, "it has no scores on dev"))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn unreadable_report_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let error = |folder: &Path| ReportFile::read(folder).map(drop).unwrap_err();
        assert!(matches!(error(folder.path()), Error::Folder(_)));
        let path = folder.path().join("report.json");
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let error = error(folder.path());
        assert!(matches!(&error, Error::Io { path: found, .. } if *found == path), "{error}");
    }
}
