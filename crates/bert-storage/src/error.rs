//! Errors of files and folders.

use std::path::{Path, PathBuf};

use crate::disk_full::is_disk_full;
use crate::objects::is_transient;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and with which file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried: "open", "read", "write", "rename", ...
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// There is no room left for a file.
    #[error("no room on the disk for {}: it needs {needed} bytes or more", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes of the file up to the write that failed, and with it.
        needed: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// An object has not the contents that it should have.
    #[error("{}: BLAKE3 {found}, expected {expected}", path.display())]
    Differs {
        /// The object.
        path: PathBuf,
        /// Its digest.
        found: String,
        /// The digest expected.
        expected: String,
    },
    /// Another process writes to the folder.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
}

impl Error {
    /// The documented exit code of a program that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::InUse { .. } => 6,
            Self::Differs { .. } => 3,
            Self::Io { source, .. } if is_transient(source) => 75,
            Self::Io { .. } | Self::DiskFull { .. } => 1,
        }
    }

    /// Makes an [`Error::Io`] of what the system said.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// The error of a write after which the file would have had `needed` bytes.
    pub(crate) fn write(path: &Path, needed: u64, source: std::io::Error) -> Self {
        let path = path.to_owned();
        match is_disk_full(&source) {
            true => Self::DiskFull { path, needed, source },
            false => Self::Io { action: "write", path, source },
        }
    }
}
