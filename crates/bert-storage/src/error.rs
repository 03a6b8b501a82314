//! Errors of files and folders, and the common form of a problem with its location in a file ([`Located`]).

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::objects::is_transient;
use crate::objects::url::shown;

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of another library, with the exit code of a program that ends with it.
#[derive(Debug)]
pub struct Failure {
    exit_code: u8,
    error: Box<dyn std::error::Error + Send + Sync>,
}

impl Failure {
    /// Returns the error with its exit code.
    pub fn new(exit_code: u8, error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { exit_code, error: Box::new(error) }
    }

    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Error of a file operation, with the file's path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {}", shown(path))]
    Io {
        /// The operation: "open", "read", "write", "rename", ...
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The disk is full.
    #[error(
        "the disk is full: {} needs at least {needed} bytes; free space, then run the same command again",
        shown(path)
    )]
    DiskFull {
        /// Path of the file.
        path: PathBuf,
        /// Size of the file including the failed write, in bytes.
        needed: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The contents of an object differ from the expected contents.
    #[error("{}: its BLAKE3 digest is {found}, expected {expected}", shown(path))]
    Differs {
        /// URL of the object.
        path: PathBuf,
        /// Digest of the object.
        found: String,
        /// Expected digest.
        expected: String,
    },
    /// A lock file cannot be locked.
    #[error(
        "cannot lock {}: its file system may not support locks; mount it with locks (NFS: lockd, Lustre: -o flock), or \
         choose a folder on another file system",
        path.display()
    )]
    Lock {
        /// Path of the lock file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A path cannot be an output file.
    #[error("{}: {problem}", shown(path))]
    Output {
        /// Path of the file, as the user gave it.
        path: PathBuf,
        /// The reason.
        problem: OutputProblem,
    },
    /// Another process is writing to the folder.
    #[error("{} is in use by another process: wait until it ends, or choose another folder", shown(path))]
    InUse {
        /// Path of the folder.
        path: PathBuf,
    },
}

/// A reason why a path cannot be an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputProblem {
    /// A regular file has this name and may not be replaced.
    #[error("this file exists")]
    Exists,
    /// A folder has this name.
    #[error("this is a folder; name a file in it")]
    Folder,
    /// The path has no file name.
    #[error("this is not the name of a file")]
    NoName,
    /// Links lead to links without an end.
    #[error("too many links")]
    Links,
}

impl Error {
    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::InUse { .. } => 6,
            Self::Differs { .. } => 3,
            Self::Io { source, .. } if is_transient(source) => 75,
            Self::Io { .. } | Self::DiskFull { .. } | Self::Lock { .. } | Self::Output { .. } => 1,
        }
    }

    /// Returns a function that converts a system error to [`Error::Io`].
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Returns the error of a failed write; with the write, the file would have had `needed` bytes. If `source` carries
    /// an error of this crate, returns that error.
    pub(crate) fn write(path: &Path, needed: u64, source: io::Error) -> Self {
        let path = path.to_owned();
        match Self::carried_by(source) {
            Ok(carried) => carried,
            Err(source) if is_disk_full(&source) => Self::DiskFull { path, needed, source },
            Err(source) => Self::Io { action: "write", path, source },
        }
    }

    /// Returns the error of this crate that an [`io::Error`] carries. Errors pass through the writers of other
    /// crates in this form.
    ///
    /// # Errors
    /// Returns the error itself if it does not carry one.
    pub fn carried_by(error: io::Error) -> std::result::Result<Self, io::Error> {
        error.downcast::<Self>()
    }

    /// Wraps this error in an [`io::Error`].
    pub(crate) fn carry(self) -> io::Error {
        let kind = match &self {
            Self::Io { source, .. } | Self::DiskFull { source, .. } | Self::Lock { source, .. } => {
                source.kind()
            }
            Self::Differs { .. } | Self::InUse { .. } | Self::Output { .. } => ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }
}

/// Returns whether an error, or one of its causes, means that a disk or quota is full.
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    use ErrorKind::{QuotaExceeded, StorageFull};
    // The error wrapped in an `io::Error` is not in its chain of sources.
    let is_full = |io: &io::Error| {
        matches!(io.kind(), StorageFull | QuotaExceeded)
            || io.get_ref().is_some_and(|inner| is_disk_full(inner))
    };
    std::iter::successors(Some(error), |error| error.source())
        .any(|error| error.downcast_ref::<io::Error>().is_some_and(is_full))
}

/// A problem with its location, which begins the message: `train.tsv:3: the line is empty, expected a text`.
#[derive(Debug)]
pub struct Located<P> {
    /// Path of the file or folder.
    pub path: Box<Path>,
    /// Line, or row of a table without lines, counted from 1; `None` if the problem concerns the whole file.
    pub line: Option<u64>,
    /// The problem at this location.
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

/// Adds a location to a problem.
pub trait Locate: Sized {
    /// Returns the problem with the path of a whole file or folder.
    fn located(self, path: impl Into<PathBuf>) -> Located<Self>;

    /// Returns the problem with the path of a file and a line, counted from 1.
    fn at_line(self, path: impl Into<PathBuf>, line: u64) -> Located<Self> {
        Located { line: Some(line), ..self.located(path) }
    }
}

impl<P: std::error::Error> Locate for P {
    fn located(self, path: impl Into<PathBuf>) -> Located<Self> {
        Located { path: path.into().into(), line: None, problem: self }
    }
}

/// Returns whether an error means that a name does not exist. Other errors leave that open.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::{Path, is_disk_full};

    #[test]
    fn disk_full_is_found_in_nested_errors() {
        let full = || Error::from(ErrorKind::StorageFull);
        let wrapped = super::Error::io("write", Path::new("shard"))(full());
        assert!(is_disk_full(&full()) && is_disk_full(&Error::from(ErrorKind::QuotaExceeded)));
        assert!(is_disk_full(&Error::other(full())) && is_disk_full(&wrapped));
        assert!(is_disk_full(&Error::other(wrapped)));
        assert!(!is_disk_full(&Error::other("full")) && !is_disk_full(&Error::from(ErrorKind::NotFound)));
    }
}
