//! Compares the documents of data sets that should be disjoint.

use std::fmt;
use std::path::{Path, PathBuf};

use bert_data::Manifest;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The text that two data sets share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedText {
    /// Folder of the data set.
    pub data: PathBuf,
    /// Folder of the other data set, on which the model is or was trained.
    pub within: PathBuf,
    /// Whether the model is evaluated on the first data set; otherwise both are parts of a mixture.
    pub is_evaluated: bool,
    /// The compared unit: `documents`, or `files` if the data sets divide the same file into documents in different
    /// ways.
    pub unit: String,
    /// Number of documents or files that were compared: all of a small data set, a random sample of a large one.
    pub compared: u64,
    /// Number of compared documents or files that the other data set has too, at least 1.
    pub shared: u64,
}

/// The manifest of a data set and its folder.
pub(super) struct NamedData {
    folder: PathBuf,
    pub(super) manifest: Manifest,
}

impl NamedData {
    pub(super) fn new(folder: &Path, manifest: &Manifest) -> Self {
        Self { folder: folder.to_path_buf(), manifest: manifest.clone() }
    }
}

/// Returns the digests of the files from which a data set was made.
pub(super) fn text_digests(manifest: &Manifest) -> impl Iterator<Item = &str> {
    manifest.inputs.iter().map(|input| input.blake3.as_str())
}

impl SharedText {
    /// Counts the documents of `data` that `within` contains too. If no document is equal, counts the files from which
    /// both were made. Returns `None` if they share neither. Documents that were held out of the same files count as
    /// different, even if their tokens are equal.
    pub(super) fn new(data: &NamedData, within: &NamedData, is_evaluated: bool) -> Option<Self> {
        let is_divided = same_selection(&data.manifest, &within.manifest);
        if is_divided && text_digests(&data.manifest).eq(text_digests(&within.manifest)) {
            return None;
        }
        let found = |unit: &str, compared: u64, shared: u64| Self {
            data: data.folder.clone(),
            within: within.folder.clone(),
            is_evaluated,
            unit: unit.to_string(),
            compared,
            shared,
        };
        let documents = data.manifest.shared_documents(&within.manifest).filter(|found| found.shared > 0);
        if let Some(documents) = documents {
            return Some(found("documents", documents.compared, documents.shared));
        }
        let trained: Vec<&str> = text_digests(&within.manifest).collect();
        let files = text_digests(&data.manifest).filter(|digest| trained.contains(digest)).count();
        (files > 0 && !is_divided).then(|| found("files", data.manifest.inputs.len() as u64, files as u64))
    }

    /// Rejects a data set that is part of the other one, unless the user allows the overlap.
    ///
    /// # Errors
    /// Fails when the data set is part of the other one and `allow_overlap` is false; the error names both.
    pub(super) fn check(&self, allow_overlap: bool) -> Result<(), Error> {
        if allow_overlap || self.shared < self.compared {
            return Ok(());
        }
        let remedy = if self.is_evaluated {
            "Evaluate on other text (make-pretrain-data `.hold_out` keeps some), or give this flag to evaluate on it nevertheless"
        } else {
            "Give one of them a larger weight, or give this flag to read both"
        };
        Err(Error::option("allow_overlap", format!("{self}. {remedy}")))
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, within, is_evaluated, unit, compared, shared } = self;
        let share = 100.0 * *shared as f64 / *compared as f64;
        let effect = if *is_evaluated {
            "the model is evaluated on text on which it was trained"
        } else {
            "the model reads them with both weights"
        };
        write!(
            f,
            "{shared} of {compared} {unit} of {} ({share:.1} %) are in {} too, so {effect}",
            data.display(),
            within.display()
        )
    }
}

/// Returns whether two data sets divide their files by the same draw of held-out documents, so that equal files do not
/// mean equal documents.
fn same_selection(data: &Manifest, within: &Manifest) -> bool {
    let data = &data.config;
    let within = &within.config;
    data.held_out != within.held_out
        && data.hold_out == within.hold_out
        && data.random_seed == within.random_seed
        && data.line_breaks == within.line_breaks
        && data.text_column == within.text_column
}
