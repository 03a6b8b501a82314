//! The file operations needed to write outputs ([`FileSystem`]), and their implementation on the real file system
//! ([`Disk`]).

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::error::{Error, Result, is_absent};
use crate::source::read_limited;

/// A file being written, which can be synced.
pub trait Durable: Write + Send {
    /// Syncs the written bytes, so that they survive a power cut.
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

/// The file operations used to write an output folder, and the reads that decide which files are kept or removed. All
/// other reads use the standard library.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Returns the bytes of a regular file with at most `limit` bytes.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        read_limited(path, limit)
    }
    /// Returns the metadata of a file or folder and follows links.
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::metadata(path)
    }
    /// Returns the metadata of a name and does not follow links.
    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::symlink_metadata(path)
    }
    /// Returns the names of the files and folders in a folder.
    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }
    /// Creates a file. Replaces a file or a link of this name, and does not follow the link.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>>;
    /// Opens a file for appending and creates it if necessary.
    fn append(&self, path: &Path) -> io::Result<Box<dyn Durable>>;
    /// Opens a file to lock it and creates it if necessary, without changing its contents. The file is open for reading
    /// and, if permissions allow, for writing: NFS requires the former for a shared lock and the latter for an
    /// exclusive lock.
    fn open_lock(&self, path: &Path) -> io::Result<File>;
    /// Renames a file within one file system and replaces the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Syncs a folder, so that its names survive a power cut.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Creates one folder whose parent exists. See [`crate::StagedFolder::create`].
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder with its contents, in no defined order.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl FileSystem for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>> {
        let create = || File::options().write(true).create_new(true).open(path);
        let file = match create() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                fs::remove_file(path)?;
                create()?
            }
            created => created?,
        };
        Ok(Box::new(file))
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
                // The file belongs to another user. Most file systems can lock a file that is open only for reading.
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
        // Only Unix can open a folder to sync it; on other systems a rename is durable enough.
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

/// Returns the parent folder of a path.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the number of bytes that the user may still write to the file system of a path; `None` if the system does
/// not tell.
#[must_use]
pub fn free_space(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    return rustix::fs::statvfs(path).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Error that some file systems return for an fsync of a folder that is open for reading.
const BAD_DESCRIPTOR: i32 = 9;

/// Returns whether an error means that the file system does not support fsync; some FUSE and SMB mounts do not support
/// it for folders. A program cannot do more, and no data was lost. PostgreSQL ignores the same errors for folders.
fn has_no_fsync(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

/// Gives a new lock file the write permissions of its folder, whatever the umask is: another user who shares the folder
/// needs them to take the lock.
#[cfg(unix)]
fn share_like_its_folder(file: &File, path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    const WRITE: u32 = 0o222;
    let folder = fs::metadata(folder_of(path));
    if let (Ok(folder), Ok(own)) = (folder, file.metadata()) {
        let own = own.permissions().mode();
        let shared = folder.permissions().mode() & WRITE;
        // Grant read access with write access: some file systems need both for locks. If this fails, the current user
        // is not affected.
        let _ = file.set_permissions(PermissionsExt::from_mode((own | shared | shared << 1) & 0o777));
    }
}

#[cfg(not(unix))]
fn share_like_its_folder(_: &File, _: &Path) {}

/// Returns whether a path exists. Links are followed.
///
/// # Errors
/// Fails when the system returns an error other than "not found", such as a missing permission or a loop of links.
pub fn exists(path: &Path) -> Result<bool> {
    exists_on(&Disk, path)
}

/// Returns whether a path exists on a file system.
pub(crate) fn exists_on(files: &dyn FileSystem, path: &Path) -> Result<bool> {
    match files.metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

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
            // NFS rejects a shared lock on a file that is not open for reading.
            assert_eq!(io::Read::read(&mut file, &mut [0; 1]).unwrap(), 0);
            assert_eq!(file.write(&[]).unwrap(), 0);
            file.set_len(0).unwrap();
        }
    }

    #[test]
    fn a_lock_file_is_shared_like_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        for (folder_mode, file_mode) in [(0o777, 0o666), (0o775, 0o664), (0o755, 0o644)] {
            fs::set_permissions(folder.path(), PermissionsExt::from_mode(folder_mode)).unwrap();
            let path = folder.path().join(format!("{folder_mode:o}"));
            Disk.open_lock(&path).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode & file_mode, file_mode, "{mode:o} in a folder of mode {folder_mode:o}");
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

    #[test]
    fn only_absent_files_do_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "{}").unwrap();
        std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
        assert!(exists(&at("file")).unwrap());
        assert!(!exists(&at("missing")).unwrap());
        assert!(!exists(&at("file/inside")).unwrap());
        let error = exists(&at("loop")).unwrap_err();
        assert!(error.to_string().contains(&*at("loop").to_string_lossy()), "{error}");
    }
}
