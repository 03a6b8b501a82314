//! The file operations that writing consists of ([`FileSystem`]), and the real ones ([`Disk`]).
//!
//! The feature `faults` has file systems that fail on purpose.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::source::read_limited;

/// A file being written: bytes first, then [`Durable::sync`].
pub trait Durable: Write + Send {
    /// Makes what was written survive a power cut.
    fn sync(&mut self) -> io::Result<()>;
}

impl Durable for File {
    fn sync(&mut self) -> io::Result<()> {
        match self.sync_all() {
            Err(error) if has_no_fsync(&error) => Ok(()),
            synced => synced,
        }
    }
}

/// The file operations that an output folder is written with, and those whose answer decides what is kept or removed in
/// it. Other reads go to the standard library.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Returns the bytes of a regular file that has no more than `limit` of them.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        read_limited(path, limit)
    }
    /// Returns the metadata of a file or folder; links are followed.
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::metadata(path)
    }
    /// Returns the metadata of a name; links are not followed.
    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::symlink_metadata(path)
    }
    /// Returns the names in a folder.
    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }
    /// Creates or empties a file.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>>;
    /// Opens a file to write at its end; creates it if need be.
    fn append(&self, path: &Path) -> io::Result<Box<dyn Durable>>;
    /// Opens a file to take a lock on; creates it if need be, and changes nothing in it. The file can be read and, where
    /// its permissions allow that, written: on NFS a shared lock needs the first, an exclusive one the second.
    fn open_lock(&self, path: &Path) -> io::Result<File>;
    /// Moves a file over another one in the same file system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names in a folder survive a power cut.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Creates one folder, in a folder that is there. See [`crate::StagedFolder::create`].
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
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
        let mut both = File::options();
        both.read(true).write(true);
        match both.clone().create_new(true).open(path) {
            Ok(file) => {
                share_like_its_folder(&file, path);
                Ok(file)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match both.open(path) {
                // The file of another user. Most file systems lock a file that is open to read.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => File::open(path),
                opened => opened,
            },
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // Only Unix can open a folder to sync it; elsewhere a rename is durable enough.
        if !cfg!(unix) {
            return Ok(());
        }
        match File::open(path)?.sync_all() {
            Err(error) if has_no_fsync(&error) || error.raw_os_error() == Some(BAD_DESCRIPTOR) => Ok(()),
            synced => synced,
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}

/// The folder that a path is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The answer of some file systems to an fsync of a folder, which is open to read.
const BAD_DESCRIPTOR: i32 = 9;

/// Whether the file system has no fsync, as some mounts of FUSE and SMB have none for folders. There is nothing more that
/// a program can do, and no data was lost. PostgreSQL ignores the same errors of folders.
fn has_no_fsync(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

/// Lets those write a new lock file who may write to its folder, whatever the umask is: another user who shares the
/// folder needs it to take the lock.
#[cfg(unix)]
fn share_like_its_folder(file: &File, path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    const WRITE: u32 = 0o222;
    let folder = fs::metadata(folder_of(path));
    if let (Ok(folder), Ok(own)) = (folder, file.metadata()) {
        let (own, shared) = (own.permissions().mode(), folder.permissions().mode() & WRITE);
        // Who may write may read: locks need both on some file systems. Without it, this user can work as before.
        let _ = file.set_permissions(PermissionsExt::from_mode((own | shared | shared << 1) & 0o777));
    }
}

#[cfg(not(unix))]
fn share_like_its_folder(_: &File, _: &Path) {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_lock_file_is_open_to_read_and_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        for _ in 0..2 {
            let mut file = Disk.open_lock(&path).unwrap();
            // NFS refuses a shared lock on a file that cannot be read.
            assert_eq!(io::Read::read(&mut file, &mut [0; 1]).unwrap(), 0);
            assert_eq!(file.write(&[]).unwrap(), 0);
            file.set_len(0).unwrap();
        }
    }

    #[test]
    fn a_lock_file_is_shared_like_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        for (of_folder, of_file) in [(0o777, 0o666), (0o775, 0o664), (0o755, 0o644)] {
            fs::set_permissions(folder.path(), PermissionsExt::from_mode(of_folder)).unwrap();
            let path = folder.path().join(format!("{of_folder:o}"));
            Disk.open_lock(&path).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode & of_file, of_file, "{mode:o} in a folder of mode {of_folder:o}");
        }
    }

    #[test]
    fn only_a_missing_fsync_is_ignored() {
        for (code, ignored) in
            [(22, true), (95, cfg!(target_os = "linux")), (5, false), (28, false), (116, false)]
        {
            assert_eq!(has_no_fsync(&io::Error::from_raw_os_error(code)), ignored, "{code}");
        }
    }
}
