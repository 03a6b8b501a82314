//! Locks a folder for one writer at a time.
//!
//! [`OutputLock::acquire`] gives the right to write in a folder, or [`Error::InUse`] at once. The lock is the operating
//! system's, so it ends with the process, however that ends.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::system::{Disk, FileSystem};

/// The name of the lock file in an output folder.
pub const LOCK: &str = ".lock";

/// Exclusive use of an output folder, until dropped. The lock dies with the process; its file stays.
#[derive(Debug)]
pub struct OutputLock {
    _file: File,
    folder: PathBuf,
}

impl OutputLock {
    /// Takes the lock of an existing folder, at once or not at all.
    ///
    /// # Errors
    /// [`Error::InUse`] when another process holds it, [`Error::Io`] when the lock file cannot be made.
    pub fn acquire(folder: &Path) -> Result<Self> {
        Self::acquire_on(&Disk, folder)
    }

    /// [`OutputLock::acquire`] on a file system of choice.
    ///
    /// # Errors
    /// As [`OutputLock::acquire`].
    pub fn acquire_on(files: &dyn FileSystem, folder: &Path) -> Result<Self> {
        Self::acquire_as(files, folder, LOCK)
    }

    /// Takes a lock of another name in a folder, for those who share the folder.
    pub fn acquire_as(files: &dyn FileSystem, folder: &Path, name: &str) -> Result<Self> {
        Self::take(files, folder, name, File::try_lock)
    }

    /// Takes a share in the lock of a folder: others may have one too, but nobody the lock alone.
    pub fn share_on(files: &dyn FileSystem, folder: &Path) -> Result<Self> {
        Self::take(files, folder, LOCK, File::try_lock_shared)
    }

    fn take(
        files: &dyn FileSystem,
        folder: &Path,
        name: &str,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Self> {
        let path = folder.join(name);
        let file = files.open_lock(&path).map_err(Error::io("create", &path))?;
        match lock(&file) {
            Ok(()) => Ok(Self { _file: file, folder: folder.to_owned() }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse { path: folder.to_owned() }),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &path)(source)),
        }
    }

    /// The folder that is locked.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_exclusive_and_ends_with_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let lock = OutputLock::acquire(folder.path()).unwrap();
        assert!(matches!(OutputLock::acquire(folder.path()), Err(Error::InUse { .. })));
        drop(lock);
        assert_eq!(OutputLock::acquire(folder.path()).unwrap().folder(), folder.path());
    }
}
