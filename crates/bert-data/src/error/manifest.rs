//! Errors of a manifest, of the receipts of parts, and of the files that they name.

/// What is wrong with a manifest, with the receipt of a part, or with a file that one of them names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestProblem {
    /// A folder holds no manifest: no data set, or one that was never finished.
    #[error("no manifest.json in this folder: it is no finished data set")]
    Missing,
    /// A folder has no parts to merge.
    #[error("no parts of a build in this folder")]
    NoParts,
    /// A manifest is not the JSON that is expected; where and why.
    #[error("not a valid manifest")]
    Invalid(#[source] serde_json::Error),
    /// A part's receipt is not what this program writes; where and why.
    #[error("not the receipt of a part that this program made")]
    InvalidReceipt(#[source] serde_json::Error),
    /// A manifest's bytes are not those that were sealed.
    #[error("damaged")]
    Seal(#[source] bert_storage::sealed::SealError),
    /// A manifest of another format version.
    #[error("format version {found}, this program reads {expected}")]
    Version {
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// A manifest names a file outside its own folder; the name in it.
    #[error("it names {0:?}, which is not a plain file name")]
    UnsafePath(String),
    /// A number in a manifest contradicts another one.
    #[error("{what} is {found}, expected {expected}")]
    Count {
        /// What was counted.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The number that would agree.
        expected: u64,
    },
    /// A file that a manifest names is missing.
    #[error("missing, though the manifest names it")]
    FileMissing,
    /// A file has not the size that its manifest says.
    #[error("{found} bytes, the manifest says {expected}")]
    FileSize {
        /// Bytes found.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// A file has not the digest that its manifest says.
    #[error("BLAKE3 {found}, the manifest says {expected}")]
    FileDigest {
        /// Digest found.
        found: String,
        /// Digest expected.
        expected: String,
    },
}
