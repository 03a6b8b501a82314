//! Locks of output folders: one process writes a folder at a time.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Class, Error, Result, is_absent};
use crate::objects::url::shown;
use crate::system::FileSystem;

/// Name of the lock file in an output folder.
pub const LOCK: &str = ".lock";

/// Exclusive use of an output folder, until dropped. The operating system holds the lock and releases it when the
/// process ends; the lock file stays.
#[derive(Debug)]
pub struct OutputLock {
    #[expect(dead_code, reason = "closing it ends the lock")]
    file: File,
    pub(super) name: String,
}

/// Takes the lock with this name in a folder, without waiting.
pub(super) fn take(
    files: &dyn FileSystem,
    folder: &Path,
    lock: fn(&File) -> Result<(), TryLockError>,
    name: &str,
) -> Result<OutputLock> {
    let path = folder.join(name);
    loop {
        let file = files.open_lock(&path).map_err(Error::io("create", &path))?;
        let locked = loop {
            match lock(&file) {
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                locked => break locked,
            }
        };
        match locked {
            // A process that removes a lock file holds its lock. A lock on a file without a name excludes nobody,
            // so try again.
            Ok(()) if !still_has_its_name(&file, &path) => {}
            Ok(()) => return Ok(OutputLock { file, name: name.to_owned() }),
            Err(TryLockError::WouldBlock) => return Err(in_use(folder)),
            Err(TryLockError::Error(cause)) => return Err(no_locks(&path).because(cause)),
        }
    }
}

fn in_use(folder: &Path) -> Error {
    let text = "is in use by another process: wait until it ends, or choose another folder";
    Error::new(Class::InUse, format!("{} {text}", shown(folder)))
}

fn no_locks(path: &Path) -> Error {
    Error::failed(format!(
        "cannot lock {}: its file system may not support locks; mount it with locks (NFS: lockd, Lustre: -o flock), or \
         choose a folder on another file system",
        path.display()
    ))
}

/// Returns whether an open file is the file at a path, as far as the system can tell.
#[cfg(unix)]
fn still_has_its_name(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(file), Ok(named)) => inode(file) == inode(named),
        (Ok(_), Err(error)) => !is_absent(&error),
        _ => true,
    }
}

#[cfg(not(unix))]
fn still_has_its_name(_: &File, _: &Path) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::system::Disk;

    #[test]
    fn a_lock_on_a_removed_file_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK);
        let file = Disk.open_lock(&path).unwrap();
        assert!(still_has_its_name(&file, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!still_has_its_name(&file, &path));
        let _other = Disk.open_lock(&path).unwrap();
        assert!(!still_has_its_name(&file, &path));
    }
}
