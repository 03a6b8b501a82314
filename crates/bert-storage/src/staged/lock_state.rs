//! Tells whether a process holds the lock of a folder, for programs that only watch it.
//!
//! On Linux this reads `/proc/locks` and takes no lock, so a process that starts at the same moment never finds the
//! folder in use because of it. On other systems a shared lock is taken and released at once.

use std::path::Path;

/// Returns whether a process holds a lock on the file; false if the file does not exist or cannot be examined. On Linux
/// this finds processes of the same machine only, and in a container only processes of this container.
pub(super) fn is_held(lock_file: &Path) -> bool {
    imp::is_held(lock_file)
}

#[cfg(target_os = "linux")]
mod imp {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    pub(super) fn is_held(lock_file: &Path) -> bool {
        let (Ok(file), Ok(locks)) = (std::fs::metadata(lock_file), std::fs::read_to_string("/proc/locks"))
        else {
            return false;
        };
        locks.lines().any(|line| is_lock_of(line, file.ino()))
    }

    /// Returns whether a line of `/proc/locks` is a lock of `flock` on the file with this number.
    ///
    /// The device is not compared: file systems such as overlayfs show another one here than in the file's metadata.
    pub(super) fn is_lock_of(line: &str, inode: u64) -> bool {
        // 1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF; a waiting process has "->" after the number.
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = words.get(5).and_then(|file| file.rsplit(':').next()).and_then(|text| text.parse().ok());
        words.get(1) == Some(&"FLOCK") && number == Some(inode)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::fs::{File, TryLockError};
    use std::path::Path;

    pub(super) fn is_held(lock_file: &Path) -> bool {
        File::open(lock_file)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

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
        assert!(imp::is_lock_of("1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF", 5678));
        assert!(!imp::is_lock_of("1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF", 678));
        assert!(!imp::is_lock_of("2: POSIX  ADVISORY  WRITE 1234 fd:00:5678 0 EOF", 5678));
        assert!(!imp::is_lock_of("2: -> FLOCK ADVISORY WRITE 1234 fd:00:5678 0 EOF", 5678));
    }
}
