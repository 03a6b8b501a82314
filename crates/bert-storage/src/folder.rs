//! Creates folders whose names survive a power cut.

use std::path::Path;

use crate::error::{Error, Result};
use crate::system::FileSystem;

/// Creates a folder and those above it that are missing, and makes their names survive a power cut.
///
/// # Errors
/// [`Error::Io`]; folders above that were made stay.
pub(crate) fn create_folder(files: &dyn FileSystem, path: &Path) -> Result<()> {
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

pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{PowerCut, Survival};
    use crate::system::Disk;

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
