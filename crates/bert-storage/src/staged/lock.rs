//! Locks of output folders: one process writes a folder at a time.
//!
//! [`is_held`] returns whether a process holds the lock of a folder, for programs that only watch the folder.
//!
//! On Linux it reads `/proc/locks` and takes no lock, so a process that starts at the same moment never finds the
//! folder in use because of this check. On other systems a shared lock is taken and released at once.

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

/// Returns whether a process holds a lock on the file; false if the file does not exist or cannot be examined. On Linux
/// this finds processes of the same machine only, and in a container only processes of this container.
#[cfg(target_os = "linux")]
pub(super) fn is_held(lock_file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(file), Ok(locks)) = (std::fs::metadata(lock_file), std::fs::read_to_string("/proc/locks")) else {
        return false;
    };
    locks.lines().any(|line| is_lock_of(line, file.ino()))
}

/// Returns whether a line of `/proc/locks` describes a lock taken by `flock` on the file with this inode number.
///
/// The device is not compared: file systems such as overlayfs show a different one here than in the file's metadata.
#[cfg(target_os = "linux")]
fn is_lock_of(line: &str, inode: u64) -> bool {
    // 1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF; a waiting process has "->" after the number.
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = words.get(5).and_then(|file| file.rsplit(':').next()).and_then(|text| text.parse().ok());
    words.get(1) == Some(&"FLOCK") && number == Some(inode)
}

/// Returns whether a process holds a lock on the file; false if the file does not exist or cannot be examined.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_held(lock_file: &Path) -> bool {
    File::open(lock_file).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_lock_on_a_removed_file_is_detected() {
        use crate::system::Disk;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK);
        let file = Disk.open_lock(&path).unwrap();
        assert!(still_has_its_name(&file, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!still_has_its_name(&file, &path));
        let _other = Disk.open_lock(&path).unwrap();
        assert!(!still_has_its_name(&file, &path));
    }

    #[test]
    fn held_lock_is_seen_until_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        assert!(!is_held(&path), "there is no file");
        let file = File::create(&path).unwrap();
        assert!(!is_held(&path));
        file.try_lock().unwrap();
        assert!(is_held(&path));
        file.unlock().unwrap();
        assert!(!is_held(&path));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn lines_of_proc_locks_are_parsed() {
        assert!(is_lock_of("1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF", 5678));
        assert!(!is_lock_of("1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF", 678));
        assert!(!is_lock_of("2: POSIX  ADVISORY  WRITE 1234 fd:00:5678 0 EOF", 5678));
        assert!(!is_lock_of("2: -> FLOCK ADVISORY WRITE 1234 fd:00:5678 0 EOF", 5678));
    }
}
