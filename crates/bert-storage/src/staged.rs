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

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic::{AtomicFile, Written, is_temporary, json};
use crate::error::{Error, Result};
use crate::sealed::{LARGEST, sealed_within, unsealed};
use crate::system::{FileSystem, folder_of};

/// The name of the lock file in an output folder.
pub const LOCK: &str = ".lock";

/// Exclusive use of an output folder, until dropped. The lock is the operating system's: it dies with the process; its
/// file stays.
#[derive(Debug)]
pub struct OutputLock {
    #[expect(dead_code, reason = "closing it ends the lock")]
    file: File,
    name: String,
}

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

    /// Returns whether something has this name.
    ///
    /// # Errors
    /// [`Error::Io`] when the file system does not say.
    pub fn has(&self, name: &str) -> Result<bool> {
        self.exists(&self.at(name))
    }

    /// Returns whether the folder exists.
    ///
    /// # Errors
    /// [`Error::Io`] when the file system does not say.
    pub fn is_there(&self) -> Result<bool> {
        self.exists(&self.path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match self.files.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(source) => Err(Error::io("read", path)(source)),
        }
    }

    /// Returns all names in it, sorted; none where there is no folder.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let names = match self.files.names(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.map_err(Error::io("read folder", &self.path))?,
        };
        let mut names: Vec<_> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
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
    /// [`Error::InUse`] when another process holds it, [`Error::Io`] when the lock file cannot be made, [`Error::Lock`]
    /// when the file system has no locks.
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
        loop {
            let file = self.files.open_lock(&path).map_err(Error::io("create", &path))?;
            let locked = loop {
                match lock(&file) {
                    Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                    locked => break locked,
                }
            };
            match locked {
                // Who removes a lock file holds its lock: a lock on a file without a name keeps nobody out.
                Ok(()) if !still_has_its_name(&file, &path) => {}
                Ok(()) => return Ok(OutputLock { file, name: name.to_owned() }),
                Err(TryLockError::WouldBlock) => return Err(Error::InUse { path: self.path.clone() }),
                Err(TryLockError::Error(source)) => return Err(Error::Lock { path, source }),
            }
        }
    }

    /// Refuses a folder in which another process works; it is in use before it is anything else. Changes nothing.
    ///
    /// # Errors
    /// As [`StagedFolder::lock`].
    pub fn refuse_if_in_use(&self) -> Result<()> {
        if self.has(LOCK)? { self.lock(LOCK).map(drop) } else { Ok(()) }
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
    /// As [`crate::sealed::sealed`].
    pub fn write_sealed<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<Written> {
        let text = sealed_within(value, LARGEST).map_err(Error::io("write", &self.at(name)))?;
        self.write_bytes(name, text.as_bytes())
    }

    /// Notes a value with its seal, in one step but without an fsync: a power cut may lose it.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Panics
    /// As [`crate::sealed::sealed`].
    pub fn note<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<()> {
        let (path, temporary) = (self.at(name), self.at(&format!("{name}.new")));
        let text = sealed_within(value, LARGEST).map_err(Error::io("write", &path))?;
        let write = || {
            let mut file = self.files.create(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.flush()
        };
        write().map_err(|source| Error::write(&path, text.len() as u64, source))?;
        self.take(&temporary, name)
    }

    /// Returns what was noted or written with a seal; `None` where nothing has the name, or what has it is damaged or
    /// of another form.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub fn noted<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.at(name);
        match self.files.read(&path, LARGEST) {
            Ok(bytes) => Ok(unsealed(bytes).ok().and_then(|json| serde_json::from_slice(&json).ok())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(source) => Err(Error::io("read", &path)(source)),
        }
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
        let removed = match self.files.symlink_metadata(&path) {
            Err(error) if is_absent(&error) => return Ok(false),
            Err(source) => return Err(Error::io("read", &path)(source)),
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
        if self.has(name)? {
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

    /// Removes the folder if it is empty; returns whether it is gone.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_if_empty(&self) -> Result<bool> {
        match self.files.remove_dir(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(true),
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(source) => Err(Error::io("remove", &self.path)(source)),
        }
    }

    /// Removes the folder with all that is in it, and ends the locks that were taken in it. Their files go last and are
    /// closed before the folder goes: NFS keeps a file that is open, under another name. A folder in which another
    /// process has just begun to work stays.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_unlocking(&self, locks: Vec<OutputLock>) -> Result<()> {
        self.clear(|name| locks.iter().all(|lock| lock.name != name))?;
        for lock in &locks {
            self.remove(&lock.name)?;
        }
        drop(locks);
        self.remove_if_empty().map(drop)
    }
}

/// Whether an error says that nothing has a name. Any other error leaves that open.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether an open file is the one at a path, as far as the system tells.
#[cfg(unix)]
fn still_has_its_name(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(file), Ok(named)) => place(file) == place(named),
        (Ok(_), Err(error)) => !is_absent(&error),
        _ => true,
    }
}

#[cfg(not(unix))]
fn still_has_its_name(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Fault, Faulty, PowerCut, Survival};
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

    #[test]
    fn a_failed_read_is_never_taken_for_absence() {
        let folder = tempfile::tempdir().unwrap();
        StagedFolder::new(&Disk, folder.path()).note("a", &serde_json::json!({ "b": 1 })).unwrap();
        let reads: [fn(&StagedFolder<'_>) -> Result<bool>; 4] = [
            |staged| staged.noted::<serde_json::Value>("a").map(|found| found.is_some()),
            |staged| staged.has("a"),
            |staged| staged.names().map(|names| !names.is_empty()),
            |staged| staged.remove("a"),
        ];
        for read in reads {
            let files = Faulty::new(Fault::Read, 1);
            let staged = StagedFolder::new(&files, folder.path());
            assert_eq!(read(&staged).unwrap_err().exit_code(), 1);
            assert!(read(&staged).unwrap(), "only the first read fails");
            assert!(!read(&StagedFolder::new(&Disk, &folder.path().join("none"))).unwrap());
        }
    }

    #[test]
    fn a_locked_folder_goes_with_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let staged = StagedFolder::new(&Disk, &folder.path().join("a"));
        staged.create().unwrap();
        let locks = vec![staged.share().unwrap(), staged.lock("other").unwrap()];
        staged.write_bytes("file", b"x").unwrap();
        staged.remove_unlocking(locks).unwrap();
        assert!(!staged.is_there().unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_on_a_removed_file_is_noticed() {
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
