//! Locks a folder for one writer at a time.
//!
//! [`StagedFolder::lock`](crate::StagedFolder::lock) gives the right to write in a folder, or [`Error::InUse`] at once.
//! The lock is the operating system's, so it ends with the process, however that ends.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::error::{Error, Result};
use crate::system::FileSystem;

/// The name of the lock file in an output folder.
pub const LOCK: &str = ".lock";

/// Exclusive use of an output folder, until dropped. The lock dies with the process; its file stays.
#[derive(Debug)]
pub struct OutputLock(#[expect(dead_code, reason = "closing it ends the lock")] File);

impl OutputLock {
    /// Takes the lock of this name in an existing folder, at once or not at all.
    pub(crate) fn take(
        files: &dyn FileSystem,
        folder: &Path,
        name: &str,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Self> {
        let path = folder.join(name);
        let file = files.open_lock(&path).map_err(Error::io("create", &path))?;
        match lock(&file) {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::InUse { path: folder.to_owned() }),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &path)(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staged::StagedFolder;
    use crate::system::Disk;

    #[test]
    fn a_lock_is_exclusive_and_ends_with_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let staged = StagedFolder::new(&Disk, folder.path());
        let lock = staged.lock(LOCK).unwrap();
        assert!(matches!(staged.lock(LOCK), Err(Error::InUse { .. })));
        drop(lock);
        staged.lock(LOCK).unwrap();
    }
}
