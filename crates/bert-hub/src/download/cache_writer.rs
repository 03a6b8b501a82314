//! Writes the files of the cache.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::cache::{Cache, commit_of};
use crate::error::Error;

impl Cache<'_> {
    /// Returns the path of the file with this digest.
    pub(super) fn blob(&self, digest: &str) -> PathBuf {
        self.folder.join("blobs").join(digest)
    }

    /// Returns the path of the lock of a file; `huggingface_hub` uses the same path.
    pub(super) fn lock(&self, digest: &str) -> PathBuf {
        let repository = self.folder.file_name().unwrap_or_default();
        self.folder.with_file_name(".locks").join(repository).join(format!("{digest}.lock"))
    }

    /// Records the commit of a branch or tag.
    pub(super) fn record_commit(&self, commit: &str) -> Result<(), Error> {
        let name = self.name;
        if name.commit().is_some() || commit_of(&self.folder, name.revision()).as_deref() == Some(commit) {
            return Ok(());
        }
        record(&self.folder.join("refs").join(name.revision()), commit)
    }

    /// Records that the needed files of a commit are complete.
    pub(super) fn record_complete(&self, commit: &str, files: &[String]) -> Result<(), Error> {
        record(&self.list(commit), &files.join("\n"))
    }

    /// Creates the file of a commit as a link to the file with its digest, or as a copy where links are impossible.
    pub(super) fn link(&self, commit: &str, file: &str, digest: &str) -> Result<(), Error> {
        let link = self.snapshot(commit).join(file);
        create_parent(&link)?;
        let up = "../".repeat(2 + file.matches('/').count());
        let target = format!("{up}blobs/{digest}");
        // A file has only one version in a commit, so a link with a different target is not needed: it may lead to a
        // file that was removed.
        if fs::read_link(&link).is_ok_and(|found| found != Path::new(&target)) {
            fs::remove_file(&link).map_err(Error::io("remove", &link))?;
        }
        match symlink(Path::new(&target), &link) {
            Err(_) if link.is_file() => Ok(()),
            Err(_) => {
                // The caller holds the lock of the file if the file system has locks, so no other process writes this
                // copy.
                let copy = link.with_added_extension("incomplete");
                fs::copy(self.blob(digest), &copy).map_err(Error::io("write", &copy))?;
                fs::rename(&copy, &link).map_err(Error::io("rename", &copy))
            }
            Ok(()) => Ok(()),
        }
    }
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    // Windows requires a privilege for links, so huggingface_hub makes copies there too.
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Creates the folder of a file.
pub(super) fn create_parent(path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(Error::io("create", folder))
}

/// Writes a record atomically. In a read-only cache nothing is recorded, so the next download asks the Hub again.
fn record(path: &Path, text: &str) -> Result<(), Error> {
    let written = create_parent(path).and_then(|()| {
        bert_storage::write_atomic(path, |out| out.write_all(text.as_bytes()))?;
        Ok(())
    });
    match written {
        Err(error) if error.cause().is_some_and(is_read_only) => Ok(()),
        written => written,
    }
}

fn is_read_only(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}
