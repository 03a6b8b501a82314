//! The one place that writes files that matter.
//!
//! In goes a path and what to write; out comes a complete file under its final name, or no change at all: temporary
//! name in the same folder, fsync, rename, fsync of the folder. [`OutputLock`] keeps two writers apart. All
//! operations go through the small trait [`FileSystem`], so that a test can make any of them fail ([`crate::faults`]).
//!
//! Not for scratch files, which may be lost, and not for reading. Nothing here is from the reference.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result, is_disk_full};

/// The name of the lock file in an output folder.
pub const LOCK: &str = ".lock";

/// A file being written: bytes first, then [`Durable::sync`].
pub trait Durable: Write + Send {
    /// Makes what was written survive a power cut.
    fn sync(&mut self) -> io::Result<()>;
}

impl Durable for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// The file operations that writing is made of. What only reads goes to the standard library.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Creates or empties a file.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>>;
    /// Opens a file to write at its end; creates it if need be.
    fn append(&self, path: &Path) -> io::Result<Box<dyn Durable>>;
    /// Opens a file to take a lock on; creates it if need be, and changes nothing in it.
    fn open_lock(&self, path: &Path) -> io::Result<File>;
    /// Moves a file over another one in the same file system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names in a folder survive a power cut.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Creates one folder, in a folder that is there. See [`create_folder`].
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder with all that is in it, in no certain order.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl FileSystem for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>> {
        Ok(Box::new(File::create(path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Durable>> {
        Ok(Box::new(File::options().create(true).append(true).open(path)?))
    }

    fn open_lock(&self, path: &Path) -> io::Result<File> {
        File::options().create(true).truncate(false).write(true).open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // Only Unix can open a folder to sync it; elsewhere a rename is durable enough.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}

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

/// Removes the temporary files of [`AtomicFile`] that a killed process left in a folder. Only for who holds the
/// folder's lock: a file that is being written looks the same.
///
/// # Errors
/// [`Error::Io`] when the folder cannot be read or a file not removed.
pub fn remove_temporaries(files: &dyn FileSystem, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("read folder", folder))? {
        let entry = entry.map_err(Error::io("read folder", folder))?;
        let path = entry.path();
        if entry.file_name().to_str().is_some_and(is_temporary) && !path.is_dir() {
            files.remove_file(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Whether a name is one that [`AtomicFile`] writes under: `.NAME.PID.tmp`.
pub(crate) fn is_temporary(name: &str) -> bool {
    let stem = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".tmp"));
    stem.and_then(|stem| stem.rsplit_once('.')).is_some_and(|(name, process)| {
        !name.is_empty() && !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// What a finished file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its size.
    pub bytes: u64,
    /// Its BLAKE3 digest in hex.
    pub blake3: String,
}

/// A file that appears under its name only when [`AtomicFile::commit`] has succeeded.
///
/// Dropped without commit, it removes what it wrote and leaves the old file as it was.
pub struct AtomicFile<'a> {
    files: &'a dyn FileSystem,
    path: PathBuf,
    temporary: PathBuf,
    out: Option<BufWriter<Box<dyn Durable>>>,
    hasher: blake3::Hasher,
    bytes: u64,
    /// Bytes of the file with the last write, whether or not that succeeded.
    tried: u64,
}

impl<'a> AtomicFile<'a> {
    /// Begins to write `path` under a temporary name beside it.
    ///
    /// # Errors
    /// [`Error::Io`] when the temporary file cannot be made.
    pub fn create(files: &'a dyn FileSystem, path: &Path) -> Result<Self> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = files.create(&temporary).map_err(Error::io("create", &temporary))?;
        Ok(Self {
            files,
            path: path.to_owned(),
            temporary,
            out: Some(BufWriter::with_capacity(1 << 16, file)),
            hasher: blake3::Hasher::new(),
            bytes: 0,
            tried: 0,
        })
    }

    /// An error of writing this file; a full disk is told with what the file needs.
    pub(crate) fn failed(&self, source: io::Error) -> Error {
        match is_disk_full(&source) {
            true => Error::DiskFull { path: self.path.clone(), needed: self.tried, source },
            false => Error::io("write", &self.path)(source),
        }
    }

    /// Puts the file in its place: flush, fsync, rename, fsync of the folder.
    ///
    /// # Errors
    /// [`Error::Io`]; the old file, if any, is then still there.
    pub fn commit(mut self) -> Result<Written> {
        if let Some(mut out) = self.out.take() {
            let synced = out.flush().and_then(|()| out.get_mut().sync());
            if let Err(source) = synced {
                drop(out);
                let _ = self.files.remove_file(&self.temporary);
                return Err(self.failed(source));
            }
        }
        if let Err(source) = self.files.rename(&self.temporary, &self.path) {
            let _ = self.files.remove_file(&self.temporary);
            return Err(Error::io("rename to", &self.path)(source));
        }
        let folder = folder_of(&self.path);
        self.files.sync_folder(folder).map_err(Error::io("sync", folder))?;
        Ok(Written { bytes: self.bytes, blake3: self.hasher.finalize().to_hex().to_string() })
    }
}

impl Write for AtomicFile<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let out = self.out.as_mut().ok_or_else(|| io::Error::other("written after commit"))?;
        self.tried = self.bytes + buffer.len() as u64;
        let written = out.write(buffer)?;
        self.hasher.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicFile<'_> {
    fn drop(&mut self) {
        if let Some(out) = self.out.take() {
            // Not flushed: the file goes away.
            drop(out.into_parts().0);
            let _ = self.files.remove_file(&self.temporary);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Writes a file all or nothing on the real file system.
///
/// # Errors
/// [`Error::Io`]; the old file, if any, is then unchanged.
pub fn write_atomic(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Written> {
    write_atomic_on(&Disk, path, write)
}

/// [`write_atomic`] on a file system of choice.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_atomic_on(
    files: &dyn FileSystem,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Written> {
    let mut file = AtomicFile::create(files, path)?;
    match write(&mut file) {
        Ok(()) => file.commit(),
        Err(source) => Err(file.failed(source)),
    }
}

/// Writes a value as indented JSON with a final newline, all or nothing.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_json_atomic<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<Written> {
    write_json_atomic_on(&Disk, path, value)
}

/// [`write_json_atomic`] on a file system of choice.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_json_atomic_on<T: Serialize + ?Sized>(
    files: &dyn FileSystem,
    path: &Path,
    value: &T,
) -> Result<Written> {
    write_atomic_on(files, path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// The bytes of a regular file that has no more than `limit` of them. A pipe or a device is never opened.
///
/// # Errors
/// When it is not regular, larger, or cannot be read.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Asked before opening: to open a pipe without a writer would wait for ever.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// The BLAKE3 digest of bytes, in hex.
#[must_use]
pub fn digest_bytes(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The BLAKE3 digest of a file, in hex.
///
/// # Errors
/// [`Error::Io`] when the file cannot be read.
pub fn digest_file(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize().to_hex().to_string()),
            Ok(length) => hasher.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(Error::io("read", path)(source)),
        };
    }
}

/// Exclusive use of an output folder, until dropped. The lock dies with the process; its file stays.
#[derive(Debug)]
pub struct OutputLock {
    _file: File,
    folder: PathBuf,
}

impl OutputLock {
    /// Takes the lock of an existing folder, at once or not at all.
    ///
    /// # Errors
    /// [`Error::InUse`] when another process holds it, [`Error::Io`] when the lock file cannot be made.
    pub fn acquire(folder: &Path) -> Result<Self> {
        Self::acquire_on(&Disk, folder)
    }

    /// [`OutputLock::acquire`] on a file system of choice.
    ///
    /// # Errors
    /// As [`OutputLock::acquire`].
    pub fn acquire_on(files: &dyn FileSystem, folder: &Path) -> Result<Self> {
        Self::acquire_as(files, folder, LOCK)
    }

    /// Takes a lock of another name in a folder, for those who share the folder.
    pub(crate) fn acquire_as(files: &dyn FileSystem, folder: &Path, name: &str) -> Result<Self> {
        Self::take(files, folder, name, File::try_lock)
    }

    /// Takes a share in the lock of a folder: others may have one too, but nobody the lock alone.
    pub(crate) fn share_on(files: &dyn FileSystem, folder: &Path) -> Result<Self> {
        Self::take(files, folder, LOCK, File::try_lock_shared)
    }

    fn take(
        files: &dyn FileSystem,
        folder: &Path,
        name: &str,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Self> {
        let path = folder.join(name);
        let file = files.open_lock(&path).map_err(Error::io("create", &path))?;
        match lock(&file) {
            Ok(()) => Ok(Self { _file: file, folder: folder.to_owned() }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse { path: folder.to_owned() }),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &path)(source)),
        }
    }

    /// The folder that is locked.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Fault, Faulty, PowerCut, Survival};

    fn write_new(files: &dyn FileSystem, path: &Path, new: &[u8]) -> Result<Written> {
        write_atomic_on(files, path, |out| new.chunks(1000).try_for_each(|part| out.write_all(part)))
    }

    #[test]
    fn a_failure_leaves_the_old_file_or_the_new_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        let new = vec![b'n'; 200_000];
        for fault in [Fault::Io, Fault::Full, Fault::Torn] {
            let mut failures = 0;
            for nth in 1.. {
                write_atomic(&path, |out| out.write_all(b"old")).unwrap();
                let files = Faulty::new(fault, nth);
                let result = write_new(&files, &path, &new);
                let found = std::fs::read(&path).unwrap();
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
                match result {
                    Err(error) => {
                        failures += 1;
                        assert_eq!(error.exit_code(), 1);
                        let text = error.to_string();
                        assert!(text.contains("file.json") || text.contains("sync"), "{text}");
                        assert!(found == b"old" || found == new);
                    }
                    Ok(written) => {
                        assert!(found == new);
                        assert_eq!((written.bytes, written.blake3), (200_000, digest_bytes(&new)));
                    }
                }
                if !files.struck() {
                    break;
                }
            }
            // A full disk fails create and at least two writes; an error also fsync, rename, fsync of the folder.
            assert!(failures >= if fault == Fault::Io { 6 } else { 3 }, "{fault:?}: {failures}");
        }
    }

    #[test]
    fn a_power_cut_leaves_the_old_file_or_the_new() {
        let new = vec![b'n'; 200_000];
        for cut in 1.. {
            let mut done = false;
            let survivals = [Survival::Nothing, Survival::Everything, Survival::NamesOnly];
            for survival in survivals.into_iter().chain((0..8).map(Survival::Random)) {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("file.json");
                std::fs::write(&path, "old").unwrap();
                let files = PowerCut::over(folder.path(), cut).unwrap();
                let result = write_new(&files, &path, &new);
                done = !files.is_off();
                files.restart(survival).unwrap();
                let found = std::fs::read(&path).unwrap();
                assert!(found == b"old" || found == new, "cut {cut}, {survival:?}: {} bytes", found.len());
                assert!(result.is_err() || found == new, "what was committed is there");
                remove_temporaries(&Disk, folder.path()).unwrap();
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
                write_new(&Disk, &path, &new).unwrap();
            }
            if done {
                break;
            }
        }
    }

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

    #[test]
    fn temporary_names_and_no_others() {
        for (name, expected) in [
            (".file.json.123.tmp", true),
            (".a.1.tmp", true),
            (".file.json.12a.tmp", false),
            ("file.json.123.tmp", false),
            (".123.tmp", false),
            (".file.json.123", false),
            (".lock", false),
        ] {
            assert_eq!(is_temporary(name), expected, "{name}");
        }
    }

    #[test]
    fn json_and_digests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let written = write_json_atomic(&path, &[1, 2]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[\n  1,\n  2\n]\n");
        assert_eq!(written.blake3, digest_file(&path).unwrap());
        assert_eq!(digest_file(&folder.path().join("b")).unwrap_err().exit_code(), 1);
    }

    #[test]
    fn a_dropped_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = AtomicFile::create(&Disk, &folder.path().join("a")).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_lock_is_exclusive_and_ends_with_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let lock = OutputLock::acquire(folder.path()).unwrap();
        assert!(matches!(OutputLock::acquire(folder.path()), Err(Error::InUse { .. })));
        drop(lock);
        assert_eq!(OutputLock::acquire(folder.path()).unwrap().folder(), folder.path());
    }
}
