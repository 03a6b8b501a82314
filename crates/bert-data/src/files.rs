//! The one place that writes files that matter.
//!
//! In goes a path and what to write; out comes a complete file under its final name, or no change at all: temporary
//! name in the same folder, fsync, rename, fsync of the folder. [`OutputLock`] keeps two writers apart. All
//! operations go through the small trait [`FileSystem`], so that a test can make any of them fail.
//!
//! Not for scratch files, which may be lost, and not for reading. Nothing here is from the reference.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};

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

/// The file operations that atomic writing is made of.
pub trait FileSystem: Send + Sync {
    /// Creates or empties a file.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>>;
    /// Moves a file over another one in the same file system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names in a folder survive a power cut.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl FileSystem for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>> {
        Ok(Box::new(File::create(path)?))
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
        })
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
                return Err(Error::io("write", &self.path)(source));
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
    write(&mut file).map_err(Error::io("write", path))?;
    file.commit()
}

/// Writes a value as indented JSON with a final newline, all or nothing.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_json_atomic<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<Written> {
    write_atomic(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
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
        let path = folder.join(LOCK);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(Error::io("create", &path))?;
        match file.try_lock() {
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A file system whose n-th operation fails.
    struct Failing {
        left: std::sync::Arc<AtomicUsize>,
    }

    fn step(left: &AtomicUsize) -> io::Result<()> {
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(left.saturating_sub(1))) {
            Ok(1) => Err(io::Error::from(io::ErrorKind::StorageFull)),
            _ => Ok(()),
        }
    }

    struct FailingFile(File, std::sync::Arc<AtomicUsize>);

    impl Write for FailingFile {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            step(&self.1)?;
            self.0.write(buffer)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl Durable for FailingFile {
        fn sync(&mut self) -> io::Result<()> {
            step(&self.1)?;
            self.0.sync_all()
        }
    }

    impl FileSystem for Failing {
        fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>> {
            step(&self.left)?;
            Ok(Box::new(FailingFile(File::create(path)?, self.left.clone())))
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            step(&self.left)?;
            Disk.rename(from, to)
        }

        fn sync_folder(&self, path: &Path) -> io::Result<()> {
            step(&self.left)?;
            Disk.sync_folder(path)
        }

        fn remove_file(&self, path: &Path) -> io::Result<()> {
            Disk.remove_file(path)
        }
    }

    #[test]
    fn a_failure_leaves_the_old_file_or_the_new_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        let new = vec![b'n'; 200_000];
        let mut failures = 0;
        for nth in 1.. {
            write_atomic(&path, |out| out.write_all(b"old")).unwrap();
            let files = Failing { left: std::sync::Arc::new(AtomicUsize::new(nth)) };
            let result = write_atomic_on(&files, &path, |out| {
                new.chunks(1000).try_for_each(|part| out.write_all(part))
            });
            let found = std::fs::read(&path).unwrap();
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
            match result {
                Err(error) => {
                    failures += 1;
                    assert_eq!(error.exit_code(), 1);
                    assert!(
                        error.to_string().contains("file.json") || error.to_string().contains("sync"),
                        "{error}"
                    );
                    assert!(found == b"old" || found == new);
                }
                Ok(written) => {
                    assert!(found == new);
                    assert_eq!((written.bytes, written.blake3), (200_000, digest_bytes(&new)));
                    break;
                }
            }
        }
        // create, at least two writes, fsync, rename, fsync of the folder
        assert!(failures >= 6, "{failures}");
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
