//! Errors of the parts of a build on many machines.

use std::path::PathBuf;

/// What is wrong with the parts of a build made on many machines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// A part of a build has not been made, or not finished.
    #[error(
        "{found} of {parts} parts are finished; part {missing} is missing: make it with --part {missing} --parts {parts}"
    )]
    Missing {
        /// Finished parts.
        found: usize,
        /// All parts.
        parts: usize,
        /// The first part that is missing.
        missing: usize,
    },
    /// A part came before the others had tokenized their shares of the text.
    #[error(
        "{missing} of {segments} shares of the text are not tokenized yet; the first is that of part {part} of {parts}: start \
         this part again when all have run with --tokenize-only"
    )]
    TextMissing {
        /// The part whose share is the first that is missing.
        part: usize,
        /// All parts.
        parts: usize,
        /// Shares that are missing.
        missing: usize,
        /// All shares.
        segments: usize,
    },
    /// A folder has no parts to merge.
    #[error("{} holds no parts of a build", path.display())]
    None {
        /// The folder.
        path: PathBuf,
    },
    /// A part's receipt is not what this program writes.
    #[error("{} is not the receipt of a part that this program made", path.display())]
    Invalid {
        /// The receipt.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A part was made of another text, with other options or by another program.
    #[error("part {part} does not belong to the others: it has other {what}")]
    Differs {
        /// The part.
        part: usize,
        /// What differs from the first one.
        what: &'static str,
    },
}
