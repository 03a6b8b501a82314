//! Errors of an output folder that cannot be written to.

use std::path::PathBuf;

/// Why an output folder cannot be written to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The output folder holds what another command left unfinished.
    #[error(
        "{} holds an unfinished build in which {option} is {found}, not {expected}: give that command again to finish \
         it, or --overwrite to discard it (of parts: remove the folder)", path.display()
    )]
    Unfinished {
        /// The output folder.
        path: PathBuf,
        /// The first thing that differs.
        option: String,
        /// What it is there.
        found: String,
        /// What it is now.
        expected: String,
    },
    /// The output folder holds something that this program did not write.
    #[error("output folder {} holds other data ({}): choose an empty or new folder", path.display(), found.display())]
    HoldsOtherData {
        /// The folder.
        path: PathBuf,
        /// The first entry that is not ours.
        found: PathBuf,
    },
    /// The output folder holds a finished data set.
    #[error("output folder {} already holds a finished data set: use --overwrite to replace it", path.display())]
    Finished {
        /// The folder.
        path: PathBuf,
    },
    /// The output path is a file.
    #[error("output {} is not a folder", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
}
