//! Checks that an output can be written, before the work for it begins.

use std::path::Path;

use crate::atomic::AtomicFile;
use crate::error::Result;
use crate::objects::url::shown;
use crate::system::{FileSystem, folder_of};

/// Checks that files can be created in a folder, or in the nearest existing folder above it. Nothing is left on disk.
///
/// # Errors
/// Fails when no file can be created there; the error names the folder.
pub fn check_writable(files: &dyn FileSystem, folder: &Path) -> Result<()> {
    let mut nearest = folder;
    while files.metadata(nearest).is_err() && nearest != folder_of(nearest) {
        nearest = folder_of(nearest);
    }
    let probe = AtomicFile::create(files, &nearest.join("writable"));
    probe.map(drop).map_err(|error| error.with_text(format!("cannot write to {}", shown(folder))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Disk;

    #[test]
    fn nearest_existing_folder_must_be_writable() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "new", "new/deep/deeper"] {
            check_writable(&Disk, &folder.path().join(name)).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::write(folder.path().join("file"), "").unwrap();
        let below = folder.path().join("file/out");
        let error = check_writable(&Disk, &below).unwrap_err().to_string();
        assert!(error.contains(&format!("write to {}", below.display())), "{error}");
        check_writable(&Disk, Path::new("relative/new")).unwrap();
    }
}
