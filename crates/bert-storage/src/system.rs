//! The file operations that writing consists of ([`FileSystem`]), and the real ones ([`Disk`]).
//!
//! The feature `faults` has file systems that fail on purpose.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

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
    /// Creates one folder, in a folder that is there. See [`crate::StagedFolder::create`].
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
