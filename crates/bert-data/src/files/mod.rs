//! The one place that writes files that matter.
//!
//! In goes a path and what to write; out comes a complete file under its final name, or no change at all: temporary
//! name in the same folder, fsync, rename, fsync of the folder ([`AtomicFile`]). [`OutputLock`] keeps two writers
//! apart. All operations go through the small trait [`FileSystem`], so that a test can make any of them fail
//! ([`crate::faults`]).
//!
//! Not for scratch files, which may be lost. Nothing here is from the reference.

pub(crate) mod scratch;
pub mod sealed;

use std::path::Path;

use crate::error::{Error, Result};

mod atomic;
mod bytes;
mod lock;
mod system;

pub(crate) use atomic::is_temporary;
pub use atomic::{
    AtomicFile, Written, remove_temporaries, write_atomic, write_atomic_on, write_json_atomic,
    write_json_atomic_on,
};
pub use bytes::{digest_bytes, digest_file, read_limited};
pub use lock::{LOCK, OutputLock};
pub use system::{Disk, Durable, FileSystem};

/// Creates a folder and those above it that are missing, and makes their names survive a power cut.
///
/// # Errors
/// [`Error::Io`]; folders above that were made stay.
pub fn create_folder(files: &dyn FileSystem, path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    create_folder(files, above)?;
    match files.create_dir(path) {
        // Another process may have been faster.
        Err(_) if path.is_dir() => Ok(()),
        Err(source) => Err(Error::io("create folder", path)(source)),
        Ok(()) => files.sync_folder(above).map_err(Error::io("sync", above)),
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{PowerCut, Survival};

    #[test]
    fn folders_are_made_durably_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/c");
        let files = PowerCut::over(folder.path(), u64::MAX).unwrap();
        create_folder(&files, &deep).unwrap();
        files.restart(Survival::Nothing).unwrap();
        assert!(deep.is_dir());
        create_folder(&Disk, &deep).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(create_folder(&Disk, &folder.path().join("file/x")).unwrap_err().exit_code(), 1);
    }
}
