//! Files that the user names as output.

use std::path::Path;

use anyhow::Context;
use bert_storage::{AtomicFile, Disk, write_atomic};

/// Creates the parent folders of a file named by the user.
pub fn make_parents(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Checks that a file can be written before the work for it begins. Creates its parent folders.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(!path.is_dir(), "cannot write {}: this is a folder; name a file in it", path.display());
    make_parents(path)?;
    // The file is dropped without a commit, so nothing is left on disk.
    AtomicFile::create(&Disk, path)?;
    Ok(())
}

/// Writes a page or a text file and creates its parent folders.
pub fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    make_parents(path)?;
    write_atomic(path, |out| out.write_all(text.as_bytes()))?;
    Ok(())
}
