//! Errors of files and folders, and the one form in which a problem says its place in a file.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::objects::is_transient;
use crate::url::shown;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and with which file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {}", shown(path))]
    Io {
        /// What was tried: "open", "read", "write", "rename", ...
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// There is no room left for a file.
    #[error("no room on the disk for {}: it needs {needed} bytes or more", shown(path))]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes of the file up to the write that failed, and with it.
        needed: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// An object has not the contents that it should have.
    #[error("{}: BLAKE3 {found}, expected {expected}", shown(path))]
    Differs {
        /// The object.
        path: PathBuf,
        /// Its digest.
        found: String,
        /// The digest expected.
        expected: String,
    },
    /// A lock file cannot be locked.
    #[error(
        "cannot lock {}: its file system may have no locks: mount it with them (NFS with lockd, Lustre with -o flock), or \
         choose a folder on another file system",
        path.display()
    )]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process writes to the folder.
    #[error("{} is in use by another process", shown(path))]
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
            Self::Io { .. } | Self::DiskFull { .. } | Self::Lock { .. } => 1,
        }
    }

    /// Makes an [`Error::Io`] of what the system said.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Returns the error of a write after which the file would have had `needed` bytes; the one that `source` carries,
    /// if it carries one.
    pub(crate) fn write(path: &Path, needed: u64, source: std::io::Error) -> Self {
        let path = path.to_owned();
        match Self::carried_by(source) {
            Ok(carried) => carried,
            Err(source) if is_disk_full(&source) => Self::DiskFull { path, needed, source },
            Err(source) => Self::Io { action: "write", path, source },
        }
    }

    /// Returns the error of this crate that an [`std::io::Error`] carries. A file that is written through somebody
    /// else's writer hands its errors on in this way.
    ///
    /// # Errors
    /// The error itself when it carries none.
    pub fn carried_by(error: std::io::Error) -> std::result::Result<Self, std::io::Error> {
        error.downcast::<Self>()
    }

    /// Makes an [`std::io::Error`] that carries this one.
    pub(crate) fn carry(self) -> std::io::Error {
        let kind = match &self {
            Self::Io { source, .. } | Self::DiskFull { source, .. } | Self::Lock { source, .. } => {
                source.kind()
            }
            Self::Differs { .. } | Self::InUse { .. } => std::io::ErrorKind::Other,
        };
        std::io::Error::new(kind, self)
    }
}

/// Whether an error, or what caused it, is that a disk or quota is full.
#[must_use]
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    // What an `io::Error` wraps is not among its sources itself.
    let says_so = |io: &std::io::Error| {
        matches!(io.kind(), StorageFull | QuotaExceeded)
            || io.get_ref().is_some_and(|inner| is_disk_full(inner))
    };
    std::iter::successors(Some(error), |error| error.source())
        .any(|error| error.downcast_ref::<std::io::Error>().is_some_and(says_so))
}

/// A problem and its place, which stands first in the message: `train.tsv:3: the line is empty, expected a text`.
#[derive(Debug)]
pub struct Located<P> {
    /// The file or folder.
    pub path: Box<Path>,
    /// The line, or the row of a table without lines, counted from 1; `None` where it is the whole file.
    pub line: Option<u64>,
    /// What is wrong there.
    pub problem: P,
}

impl<P: fmt::Display> fmt::Display for Located<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", shown(&self.path))?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.problem)
    }
}

impl<P: std::error::Error> std::error::Error for Located<P> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

/// Gives a problem its place.
pub trait Locate: Sized {
    /// A problem of a whole file or folder.
    fn at(self, path: impl Into<PathBuf>) -> Located<Self>;

    /// A problem of one line, counted from 1.
    fn at_line(self, path: impl Into<PathBuf>, line: u64) -> Located<Self> {
        Located { line: Some(line), ..self.at(path) }
    }
}

impl<P: std::error::Error> Locate for P {
    fn at(self, path: impl Into<PathBuf>) -> Located<Self> {
        Located { path: path.into().into(), line: None, problem: self }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::{Path, is_disk_full};

    #[test]
    fn it_is_found_wherever_it_was_said() {
        let full = || Error::from(ErrorKind::StorageFull);
        let wrapped = super::Error::io("write", Path::new("shard"))(full());
        assert!(is_disk_full(&full()) && is_disk_full(&Error::from(ErrorKind::QuotaExceeded)));
        assert!(is_disk_full(&Error::other(full())) && is_disk_full(&wrapped));
        assert!(is_disk_full(&Error::other(wrapped)));
        assert!(!is_disk_full(&Error::other("full")) && !is_disk_full(&Error::from(ErrorKind::NotFound)));
    }
}
