//! Defines the errors of this crate, one variant per cause.

use std::path::PathBuf;

/// The reason why a model or a data set cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An environment variable is invalid.
    #[error("the environment variable {variable} {reason}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// The problem with its value, which is not repeated here: it may be a secret.
        reason: String,
    },
    /// A name of files has another form than `hf://datasets/OWNER/NAME[@REVISION]/PATH`.
    #[error("{name}: {reason}; files of a data set are named hf://datasets/OWNER/NAME[@REVISION]/PATH")]
    Name {
        /// The name.
        name: String,
        /// The problem.
        reason: &'static str,
    },
    /// The Hub has nothing of this name.
    #[error("{name}: {}{endpoint} has no such {what}; check the name and the revision", no_folder(*is_data))]
    NotFound {
        /// Whether it is a data set.
        is_data: bool,
        /// The name.
        name: String,
        /// The missing object, in words.
        what: String,
        /// Address of the Hub.
        endpoint: String,
    },
    /// The Hub does not admit this user.
    #[error("{name}: {reason}")]
    Refused {
        /// Whether it is a data set.
        is_data: bool,
        /// The name.
        name: String,
        /// The cause and the remedy.
        reason: String,
    },
    /// The files are not in the cache, and this process may not or cannot download them.
    #[error("{name}: {}it is not in the cache {}, {reason}", no_folder(*is_data), cache.display())]
    NotCached {
        /// Whether it is a data set.
        is_data: bool,
        /// The name.
        name: String,
        /// The folder of the cache.
        cache: PathBuf,
        /// Why it is not downloaded, and the remedy.
        reason: &'static str,
    },
    /// No files of the repository can be read.
    #[error("{name}: {reason}")]
    Unusable {
        /// Whether it is a data set.
        is_data: bool,
        /// The name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The Hub cannot be reached or does not answer as it should; the same command may succeed later.
    #[error("{name}: {}{url} cannot be read: {reason}. Try again later, or give a folder", no_folder(*is_data))]
    Unavailable {
        /// Whether it is a data set.
        is_data: bool,
        /// The name.
        name: String,
        /// The address, without its query.
        url: String,
        /// The cause.
        reason: String,
    },
    /// The content of a whole download differs from the digest that the Hub states.
    #[error(
        "{name}: {file} is damaged: its digest is {found}, and the Hub states {expected}; nothing was kept"
    )]
    Damaged {
        /// Whether it is a data set.
        is_data: bool,
        /// The name.
        name: String,
        /// The file.
        file: String,
        /// Digest of the downloaded bytes.
        found: String,
        /// Digest that the Hub states.
        expected: String,
    },
    /// Another process has locked a file of the cache for a long time and downloads nothing.
    #[error("another process has locked {} and downloads nothing; end it, or set HF_HOME to another folder", .0.display())]
    Locked(PathBuf),
    /// A file of the cache cannot be read or written.
    #[error(transparent)]
    Storage(#[from] bert_storage::Error),
}

impl Error {
    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Storage(error) => error.exit_code(),
            Self::Variable { .. } | Self::Name { .. } => 2,
            Self::NotFound { is_data, .. }
            | Self::Refused { is_data, .. }
            | Self::NotCached { is_data, .. }
            | Self::Unusable { is_data, .. }
            // Bad data, or an invalid model.
            | Self::Damaged { is_data, .. } => if *is_data { 3 } else { 4 },
            // The same command may succeed.
            Self::Unavailable { .. } | Self::Locked(_) => 75,
        }
    }
}

/// Returns the beginning of a message about a missing name. A path may have been meant as the name of a model.
pub(crate) fn no_folder(is_data: bool) -> &'static str {
    if is_data { "" } else { "no folder has this name, and " }
}
