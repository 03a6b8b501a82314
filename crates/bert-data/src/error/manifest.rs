//! Errors of a manifest and of the files that it names.

use std::path::PathBuf;

/// What is wrong with a manifest, or with the files it names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// A folder holds no manifest: no data set, or one that was never finished.
    #[error("{} holds no manifest.json: it is no finished data set", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// A manifest is not the JSON that is expected.
    #[error("{} is not a valid manifest", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A manifest's bytes are not those that were sealed.
    #[error("{} is damaged", path.display())]
    Seal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: bert_storage::sealed::SealError,
    },
    /// A manifest of another format version.
    #[error("{} has format version {found}, this program reads {expected}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// A manifest names a file outside its own folder.
    #[error("{} names {file:?}, which is not a plain file name", path.display())]
    UnsafePath {
        /// The manifest.
        path: PathBuf,
        /// The name in it.
        file: String,
    },
    /// A number in a manifest contradicts another one.
    #[error("{}: {what} is {found}, expected {expected}", path.display())]
    Count {
        /// The manifest.
        path: PathBuf,
        /// What was counted.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The number that would agree.
        expected: u64,
    },
    /// A file that a manifest names is missing.
    #[error("{} is missing, though the manifest names it", path.display())]
    FileMissing {
        /// The file.
        path: PathBuf,
    },
    /// A file has not the size that its manifest says.
    #[error("{} has {found} bytes, the manifest says {expected}", path.display())]
    FileSize {
        /// The file.
        path: PathBuf,
        /// Bytes found.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// A file has not the digest that its manifest says.
    #[error("{} has BLAKE3 {found}, the manifest says {expected}", path.display())]
    FileDigest {
        /// The file.
        path: PathBuf,
        /// Digest found.
        found: String,
        /// Digest expected.
        expected: String,
    },
}
