//! A folder that one process fills step by step, and that is whole when its last file is there.
//!
//! This is the one protocol of every output: data sets and their parts, runs, checkpoints, exports, fine-tunings.
//!
//! 1. [`StagedFolder::create`] makes the folder, [`StagedFolder::lock`] gives it to one process, and what a kill left
//!    is removed under the lock.
//! 2. Files appear whole under their names ([`StagedFolder::write`]), or are made in a hidden folder beside them and
//!    then moved ([`StagedFolder::take`]).
//! 3. The last file says that all are there. What goes away again loses its name first ([`StagedFolder::discard`]), so
//!    that nothing half removed is taken for whole.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic::{AtomicFile, Written, folder_of, is_temporary, json};
use crate::error::{Error, Result};
use crate::sealed::{read_sealed, sealed};
use crate::system::FileSystem;

/// The name of the lock file in an output folder.
pub const LOCK: &str = ".lock";

/// Exclusive use of an output folder, until dropped. The lock is the operating system's: it dies with the process; its
/// file stays.
#[derive(Debug)]
pub struct OutputLock(#[expect(dead_code, reason = "closing it ends the lock")] File);

/// A folder, and the file system by which it is written.
#[derive(Clone, Debug)]
pub struct StagedFolder<'a> {
    files: &'a dyn FileSystem,
    path: PathBuf,
}

impl<'a> StagedFolder<'a> {
    /// A folder that need not be there yet.
    #[must_use]
    pub fn new(files: &'a dyn FileSystem, path: &Path) -> Self {
        Self { files, path: path.to_owned() }
    }

    /// A folder in it.
    #[must_use]
    pub fn inside(&self, name: &str) -> Self {
        Self { files: self.files, path: self.at(name) }
    }

    /// By what it is written.
    #[must_use]
    pub fn files(&self) -> &'a dyn FileSystem {
        self.files
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a name in it.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether something has this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.at(name).exists()
    }

    /// All names in it, sorted; none where there is no folder.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let failed = || Error::io("read folder", &self.path);
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed())?,
        };
        let name =
            |entry: io::Result<fs::DirEntry>| entry.map(|e| e.file_name().to_string_lossy().into_owned());
        let mut names = entries.map(name).collect::<io::Result<Vec<_>>>().map_err(failed())?;
        names.sort_unstable();
        Ok(names)
    }

    /// Makes the folder, and those above it that are missing; their names survive a power cut.
    ///
    /// # Errors
    /// [`Error::Io`]; folders above that were made stay.
    pub fn create(&self) -> Result<()> {
        let path = &self.path;
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let above = Self::new(self.files, folder_of(path));
        above.create()?;
        match self.files.create_dir(path) {
            // Another process may have been faster.
            Err(_) if path.is_dir() => Ok(()),
            Err(source) => Err(Error::io("create folder", path)(source)),
            Ok(()) => above.sync(),
        }
    }

    /// Takes the lock of this name in the folder, at once or not at all; most call it [`LOCK`].
    ///
    /// # Errors
    /// [`Error::InUse`] when another process holds it, [`Error::Io`] when the lock file cannot be made.
    pub fn lock(&self, name: &str) -> Result<OutputLock> {
        self.lock_by(File::try_lock, name)
    }

    /// Takes a share in [`LOCK`]: others may have one too, but nobody the lock alone.
    ///
    /// # Errors
    /// As [`StagedFolder::lock`].
    pub fn share(&self) -> Result<OutputLock> {
        self.lock_by(File::try_lock_shared, LOCK)
    }

    fn lock_by(&self, lock: fn(&File) -> Result<(), TryLockError>, name: &str) -> Result<OutputLock> {
        let path = self.at(name);
        let file = self.files.open_lock(&path).map_err(Error::io("create", &path))?;
        match lock(&file) {
            Ok(()) => Ok(OutputLock(file)),
            Err(TryLockError::WouldBlock) => Err(Error::InUse { path: self.path.clone() }),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &path)(source)),
        }
    }

    /// Refuses a folder in which another process works; it is in use before it is anything else. Changes nothing.
    ///
    /// # Errors
    /// As [`StagedFolder::lock`].
    pub fn refuse_if_in_use(&self) -> Result<()> {
        if self.has(LOCK) { self.lock(LOCK).map(drop) } else { Ok(()) }
    }

    /// Removes the temporary files of [`AtomicFile`] that a killed process left. Only for who holds the folder's lock:
    /// a file that is being written looks the same.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_temporaries(&self) -> Result<()> {
        self.clear(|name| is_temporary(name) && !self.at(name).is_dir())
    }

    /// Writes a file all or nothing.
    ///
    /// # Errors
    /// As [`AtomicFile::fill`].
    pub fn write(&self, name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Written> {
        self.begin(name)?.fill(write)
    }

    /// Begins to write a file that appears when it is committed.
    ///
    /// # Errors
    /// As [`AtomicFile::create`].
    pub fn begin(&self, name: &str) -> Result<AtomicFile<'a>> {
        AtomicFile::create(self.files, &self.at(name))
    }

    /// Writes these bytes all or nothing.
    ///
    /// # Errors
    /// As [`AtomicFile::fill`].
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<Written> {
        self.write(name, |out| out.write_all(bytes))
    }

    /// Writes a value as indented JSON with a final newline, all or nothing.
    ///
    /// # Errors
    /// As [`AtomicFile::fill`].
    pub fn write_json<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<Written> {
        self.write(name, json(value))
    }

    /// Writes a value with its [seal](crate::sealed), all or nothing.
    ///
    /// # Errors
    /// As [`AtomicFile::fill`].
    ///
    /// # Panics
    /// As [`sealed`].
    pub fn write_sealed<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<Written> {
        self.write_bytes(name, sealed(value).as_bytes())
    }

    /// Notes a value with its seal, in one step but without an fsync: a power cut may lose it.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Panics
    /// As [`sealed`].
    pub fn note<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<()> {
        let (path, temporary) = (self.at(name), self.at(&format!("{name}.new")));
        let write = || {
            let mut file = self.files.create(&temporary)?;
            file.write_all(sealed(value).as_bytes())?;
            file.flush()
        };
        write().map_err(Error::io("write", &path))?;
        self.take(&temporary, name)
    }

    /// What was noted or written with a seal; `None` where there is none that holds.
    #[must_use]
    pub fn noted<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&read_sealed(&self.at(name)).ok()?).ok()
    }

    /// Moves what has this name in another folder here, over what has it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn take(&self, from: &Path, name: &str) -> Result<()> {
        let to = self.at(name);
        self.files.rename(from, &to).map_err(Error::io("rename to", &to))
    }

    /// Makes the names in it survive a power cut.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<()> {
        self.files.sync_folder(&self.path).map_err(Error::io("sync", &self.path))
    }

    /// Removes a file, or a folder with all that is in it; says whether it was there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, name: &str) -> Result<bool> {
        let path = self.at(name);
        let removed = match fs::symlink_metadata(&path) {
            Err(_) => return Ok(false),
            Ok(found) if found.is_dir() => self.files.remove_dir_all(&path),
            Ok(_) => self.files.remove_file(&path),
        };
        removed.map(|()| true).map_err(Error::io("remove", &path))
    }

    /// Removes what has this name, if it is there. It becomes `hidden` first and for certain, so that one half removed
    /// is never taken for whole; what a kill left under that name goes too.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn discard(&self, name: &str, hidden: &str) -> Result<()> {
        self.remove(hidden)?;
        if self.has(name) {
            self.take(&self.at(name), hidden)?;
            self.sync()?;
            self.remove(hidden)?;
        }
        Ok(())
    }

    /// Removes all of it for which `goes` holds.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn clear(&self, goes: impl Fn(&str) -> bool) -> Result<()> {
        self.names()?.iter().filter(|name| goes(name)).try_for_each(|name| self.remove(name).map(drop))
    }

    /// Removes the folder with all that is in it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_all(&self) -> Result<()> {
        self.files.remove_dir_all(&self.path).map_err(Error::io("remove", &self.path))
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
        StagedFolder::new(&files, &deep).create().unwrap();
        files.restart(Survival::Nothing).unwrap();
        assert!(deep.is_dir());
        StagedFolder::new(&Disk, &deep).create().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let inside = folder.path().join("file/x");
        assert_eq!(StagedFolder::new(&Disk, &inside).create().unwrap_err().exit_code(), 1);
    }

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
