//! A folder that one process fills step by step, and that is complete once its last file exists.
//!
//! All outputs use this protocol: data sets and their parts, runs, checkpoints, exports, and results of fine-tuning.
//!
//! 1. [`StagedFolder::create`] creates the folder and [`StagedFolder::lock`] locks it for one process, which then
//!    removes the leftovers of killed processes.
//! 2. Files appear complete under their names ([`StagedFolder::write`]), or are written in a hidden folder next to them
//!    and then moved ([`StagedFolder::move_into`]).
//! 3. The last file marks the folder as complete. A folder is renamed before it is removed ([`StagedFolder::discard`]),
//!    so that a half-removed folder is never taken for a complete one.

mod lock;

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic::{AtomicFile, FileDigest, is_temporary, json};
use crate::checksummed_json::{MAX_BYTES, checksummed_json_within, verify_checksum};
use crate::error::{Error, Result, is_absent};
use crate::objects::url::is_url;
use crate::source::if_found;
use crate::system::{FileSystem, exists_on, folder_of};

pub use lock::{LOCK, OutputLock};

/// A folder, with the file system used to write it.
#[derive(Clone, Debug)]
pub struct StagedFolder<'a> {
    files: &'a dyn FileSystem,
    path: PathBuf,
}

impl<'a> StagedFolder<'a> {
    /// Returns a handle for a folder, which need not exist yet.
    pub fn new(files: &'a dyn FileSystem, path: &Path) -> Self {
        Self { files, path: path.to_owned() }
    }

    /// Returns a handle for a subfolder.
    pub fn inside(&self, name: &str) -> Self {
        Self { files: self.files, path: self.path_of(name) }
    }

    /// Returns the file system used to write the folder.
    pub fn files(&self) -> &'a dyn FileSystem {
        self.files
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a name in the folder.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns whether a name exists in the folder.
    ///
    /// # Errors
    /// Fails when the folder is a URL, or when the file system cannot tell.
    pub fn has(&self, name: &str) -> Result<bool> {
        self.path_exists(&self.path_of(name))
    }

    /// Returns whether the folder exists.
    ///
    /// # Errors
    /// Fails when the folder is a URL, or when the file system cannot tell.
    pub fn exists(&self) -> Result<bool> {
        self.path_exists(&self.path)
    }

    fn path_exists(&self, path: &Path) -> Result<bool> {
        reject_url(&self.path)?;
        exists_on(self.files, path)
    }

    /// Returns the names of all files and folders in the folder, sorted; empty if the folder does not exist.
    ///
    /// # Errors
    /// Fails when the folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let names = if_found(self.files.names(&self.path)).map_err(Error::io("read folder", &self.path))?;
        let mut names: Vec<_> = names.iter().flatten().map(|name| name.to_string_lossy().into()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Creates the folder and its missing parents durably, so that they survive a power cut.
    ///
    /// # Errors
    /// Fails when the path is a URL, or when a folder cannot be created or synced; parents already created stay.
    pub fn create(&self) -> Result<()> {
        let path = &self.path;
        reject_url(path)?;
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let above = Self::new(self.files, folder_of(path));
        above.create()?;
        match self.files.create_dir(path) {
            // Another process may have created it in the meantime.
            Err(_) if path.is_dir() => Ok(()),
            Err(source) => Err(Error::io("create folder", path)(source)),
            Ok(()) => above.sync(),
        }
    }

    /// Takes the exclusive lock with this name, without waiting. The usual name is [`LOCK`].
    ///
    /// # Errors
    /// Fails when another process holds the lock ([`Class::InUse`](crate::Class::InUse)), when the lock file cannot be
    /// created, or when the file system does not support locks.
    pub fn lock(&self, name: &str) -> Result<OutputLock> {
        self.lock_by(File::try_lock, name)
    }

    /// Takes a shared lock on [`LOCK`]: other processes may share it, but none can take it exclusively.
    ///
    /// # Errors
    /// Fails as [`StagedFolder::lock`] does.
    pub fn lock_shared(&self) -> Result<OutputLock> {
        self.lock_by(File::try_lock_shared, LOCK)
    }

    fn lock_by(&self, lock: fn(&File) -> Result<(), TryLockError>, name: &str) -> Result<OutputLock> {
        lock::take(self.files, &self.path, lock, name)
    }

    /// Fails if another process is using the folder. If the lock file exists, its lock is taken for a moment;
    /// otherwise the folder is not in use.
    ///
    /// # Errors
    /// Fails as [`StagedFolder::lock`] does.
    pub fn check_not_in_use(&self) -> Result<()> {
        if self.has(LOCK)? { self.lock(LOCK).map(drop) } else { Ok(()) }
    }

    /// Returns whether a process holds the lock of the folder; a shared lock counts on Linux only. Unlike
    /// [`Self::check_not_in_use`] this takes no lock on Linux, so it cannot disturb a process that starts.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        lock::is_held(&self.path_of(LOCK))
    }

    /// Removes temporary files of [`AtomicFile`] left by a killed process. The caller must hold the folder's lock,
    /// because a file that is being written looks the same.
    ///
    /// # Errors
    /// Fails when the folder cannot be read, or when a file cannot be removed.
    pub fn remove_temporaries(&self) -> Result<()> {
        self.clear(|name| is_temporary(name) && !self.path_of(name).is_dir())
    }

    /// Writes a file atomically.
    ///
    /// # Errors
    /// Fails as [`AtomicFile::fill`] does.
    pub fn write(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<FileDigest> {
        self.begin(name)?.fill(write)
    }

    /// Begins to write a file that appears when it is committed.
    ///
    /// # Errors
    /// Fails as [`AtomicFile::create`] does.
    pub fn begin(&self, name: &str) -> Result<AtomicFile<'a>> {
        AtomicFile::create(self.files, &self.path_of(name))
    }

    /// Writes bytes to a file atomically.
    ///
    /// # Errors
    /// Fails as [`AtomicFile::fill`] does.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<FileDigest> {
        self.write(name, |out| out.write_all(bytes))
    }

    /// Writes a value atomically, as indented JSON with a final newline.
    ///
    /// # Errors
    /// Fails as [`AtomicFile::fill`] does.
    pub fn write_json<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<FileDigest> {
        self.write(name, json(value))
    }

    /// Writes a value as [checksummed JSON](mod@crate::checksummed_json), atomically. A value whose text is too large
    /// to be read back is an error.
    ///
    /// # Errors
    /// Fails as [`AtomicFile::fill`] does.
    ///
    /// # Panics
    /// Panics if [`checksummed_json`](fn@crate::checksummed_json::checksummed_json) does.
    pub fn write_checksummed<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<FileDigest> {
        let text =
            checksummed_json_within(value, MAX_BYTES).map_err(Error::io("write", &self.path_of(name)))?;
        self.write_bytes(name, text.as_bytes())
    }

    /// Writes a value as checksummed JSON, atomically but without an fsync: a power cut may lose it.
    ///
    /// # Errors
    /// Fails when the value is too large to be read back, or when the file cannot be written.
    ///
    /// # Panics
    /// Panics if [`checksummed_json`](fn@crate::checksummed_json::checksummed_json) does.
    pub fn write_checksummed_unsynced<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<()> {
        let path = self.path_of(name);
        let temporary = self.path_of(&format!("{name}.new"));
        let text = checksummed_json_within(value, MAX_BYTES).map_err(Error::io("write", &path))?;
        let write = || {
            let mut file = self.files.create(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.flush()
        };
        write().map_err(|source| Error::write(&path, text.len() as u64, source))?;
        self.move_into(&temporary, name)
    }

    /// Reads a value from checksummed JSON. Returns `None` if the name does not exist, or if the file is corrupt or has
    /// a different format.
    ///
    /// # Errors
    /// Fails when the file exists and cannot be read.
    pub fn read_checksummed<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path_of(name);
        match self.files.read(&path, MAX_BYTES) {
            Ok(bytes) => Ok(verify_checksum(bytes).ok().and_then(|json| serde_json::from_slice(&json).ok())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(source) => Err(Error::io("read", &path)(source)),
        }
    }

    /// Moves the file or folder at the path `from` into this folder under this name; replaces an existing one.
    ///
    /// # Errors
    /// Fails when the file or folder cannot be renamed.
    pub fn move_into(&self, from: &Path, name: &str) -> Result<()> {
        let to = self.path_of(name);
        self.files.rename(from, &to).map_err(Error::io("rename to", &to))
    }

    /// Syncs the folder, so that its names survive a power cut.
    ///
    /// # Errors
    /// Fails when the folder cannot be synced.
    pub fn sync(&self) -> Result<()> {
        self.files.sync_folder(&self.path).map_err(Error::io("sync", &self.path))
    }

    /// Removes a file or a folder with its contents. Returns whether it existed.
    ///
    /// # Errors
    /// Fails when the file or folder cannot be removed.
    pub fn remove(&self, name: &str) -> Result<bool> {
        let path = self.path_of(name);
        let removed = match self.files.symlink_metadata(&path) {
            Err(error) if is_absent(&error) => return Ok(false),
            Err(source) => return Err(Error::io("read", &path)(source)),
            Ok(found) if found.is_dir() => self.files.remove_dir_all(&path),
            Ok(_) => self.files.remove_file(&path),
        };
        removed.map(|()| true).map_err(Error::io("remove", &path))
    }

    /// Removes a file or folder if it exists. It is durably renamed to `hidden` first, so that a half-removed folder is
    /// never taken for a complete one. Also removes what an earlier, killed process left under that name.
    ///
    /// # Errors
    /// Fails when the file or folder cannot be renamed or removed, or when this folder cannot be synced.
    pub fn discard(&self, name: &str, hidden: &str) -> Result<()> {
        self.remove(hidden)?;
        if self.has(name)? {
            self.move_into(&self.path_of(name), hidden)?;
            self.sync()?;
            self.remove(hidden)?;
        }
        Ok(())
    }

    /// Removes all names in the folder for which `is_removed` returns true.
    ///
    /// # Errors
    /// Fails when the folder cannot be read, or when a name cannot be removed.
    pub fn clear(&self, is_removed: impl Fn(&str) -> bool) -> Result<()> {
        self.names()?.iter().filter(|name| is_removed(name)).try_for_each(|name| self.remove(name).map(drop))
    }

    /// Removes the folder with its contents.
    ///
    /// # Errors
    /// Fails when the folder cannot be removed.
    pub fn remove_all(&self) -> Result<()> {
        self.files.remove_dir_all(&self.path).map_err(Error::io("remove", &self.path))
    }

    /// Removes the folder if it is empty. Returns whether it no longer exists.
    ///
    /// # Errors
    /// Fails when the folder cannot be removed although it is empty.
    pub fn remove_if_empty(&self) -> Result<bool> {
        match self.files.remove_dir(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(true),
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(source) => Err(Error::io("remove", &self.path)(source)),
        }
    }

    /// Removes the folder with its contents and releases the locks taken in it. The lock files are removed last and
    /// closed before the folder is removed, because NFS keeps an open file under a different name. The folder stays if
    /// another process has just begun to use it.
    ///
    /// # Errors
    /// Fails when the folder cannot be read, or when it or a name in it cannot be removed.
    pub fn remove_unlocking(&self, locks: Vec<OutputLock>) -> Result<()> {
        self.clear(|name| locks.iter().all(|lock| lock.name != name))?;
        for lock in &locks {
            self.remove(&lock.name)?;
        }
        drop(locks);
        self.remove_if_empty().map(drop)
    }
}

/// Rejects a URL as an output on a disk. Only data sets can be in an object store.
///
/// # Errors
/// Fails when the path is a URL.
pub fn reject_url(path: &Path) -> Result<()> {
    if !is_url(path) {
        return Ok(());
    }
    Err(Error::usage("this must be a path on a disk: only data sets can be in an object store").at(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class;
    use crate::system::Disk;

    #[test]
    fn a_lock_is_exclusive_and_ends_with_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let staged = StagedFolder::new(&Disk, folder.path());
        let lock = staged.lock(LOCK).unwrap();
        assert_eq!(staged.lock(LOCK).unwrap_err().class(), Class::InUse);
        drop(lock);
        staged.lock(LOCK).unwrap();
    }

    #[test]
    fn urls_are_no_folders_on_a_disk() {
        let staged = StagedFolder::new(&Disk, Path::new("s3://bucket/run"));
        for refused in [staged.create(), staged.exists().map(|_| ()), staged.has("run.json").map(|_| ())] {
            assert_eq!(refused.unwrap_err().class(), Class::Usage);
        }
    }

    #[test]
    fn a_locked_folder_is_removed_with_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let staged = StagedFolder::new(&Disk, &folder.path().join("a"));
        staged.create().unwrap();
        let locks = vec![staged.lock_shared().unwrap(), staged.lock("other").unwrap()];
        staged.write_bytes("file", b"x").unwrap();
        staged.remove_unlocking(locks).unwrap();
        assert!(!staged.exists().unwrap());
    }
}
