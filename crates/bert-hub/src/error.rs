//! Defines the errors of this crate, one variant per cause.

use std::path::PathBuf;

/// The reason why a model cannot be had.
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
    /// Neither a folder nor a model has this name.
    #[error(
        "{name}: no folder has this name, and neither has {what} of {endpoint}; check the name and the revision"
    )]
    NotFound {
        /// The name.
        name: String,
        /// The missing object, in words.
        what: &'static str,
        /// Address of the Hub.
        endpoint: String,
    },
    /// The Hub does not admit this user to the model.
    #[error("{name}: {reason}")]
    Refused {
        /// The name.
        name: String,
        /// The cause and the remedy.
        reason: String,
    },
    /// The model is not in the cache, and this process may not or cannot download it.
    #[error("{name}: no folder has this name, and it is not in the cache {}, {reason}", cache.display())]
    NotCached {
        /// The name.
        name: String,
        /// The folder of the cache.
        cache: PathBuf,
        /// Why it is not downloaded, and the remedy.
        reason: &'static str,
    },
    /// The model has no files that can be read.
    #[error("{name}: {reason}")]
    Unusable {
        /// The name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The Hub cannot be reached or does not answer as it should; the same command may succeed later.
    #[error(
        "{name}: no folder has this name, and {url} cannot be read: {reason}. Try again later, or give a folder"
    )]
    Unavailable {
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
            Self::Variable { .. } => 2,
            Self::NotFound { .. }
            | Self::Refused { .. }
            | Self::NotCached { .. }
            | Self::Unusable { .. }
            | Self::Damaged { .. } => 4,
            // The same command may succeed.
            Self::Unavailable { .. } | Self::Locked(_) => 75,
        }
    }
}
