//! File systems that fail on purpose, for tests only.
//!
//! [`Faulty`] fails the n-th operation, or the n-th read; a test raises n until nothing fails any more. [`PowerCut`]
//! loses what was not synced. Both work on real folders. Neither really syncs: that is slow, and a test gains nothing
//! from it.

mod power_cut;

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::system::{Disk, Durable, FileSystem};
pub use power_cut::{PowerCut, Survival};

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error of the device (`EIO`), once.
    Io,
    /// No room (`ENOSPC`), for whatever creates or writes from then on.
    Full,
    /// A write that takes half of what it is given, and then no room as in [`Fault::Full`].
    Torn,
    /// An error of the device (`EIO`), once, of an operation that only reads. These have numbers of their own.
    Read,
}

/// A real file system whose n-th operation fails.
#[derive(Clone, Debug)]
pub struct Faulty {
    fault: Fault,
    nth: u64,
    count: Arc<AtomicU64>,
    reads: Arc<AtomicU64>,
}

/// The kind of an operation, as far as it matters to a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Needs room on the disk.
    Growing,
    Other,
}

impl Faulty {
    /// Fails operation number `nth`, counted from 1, and for a full disk those after it that need room; for
    /// [`Fault::Read`] read number `nth`.
    #[must_use]
    pub fn new(fault: Fault, nth: u64) -> Self {
        Self { fault, nth, count: Arc::default(), reads: Arc::default() }
    }

    /// Never fails.
    #[must_use]
    pub fn never() -> Self {
        Self::new(Fault::Io, u64::MAX)
    }

    /// Whether there were operations enough for the fault to happen.
    #[must_use]
    pub fn struck(&self) -> bool {
        match self.fault {
            Fault::Read => self.reads.load(Ordering::SeqCst) >= self.nth,
            _ => self.operations() >= self.nth,
        }
    }

    /// How many operations were tried, reads apart.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Counts an operation; the error that it has to end with, if any.
    fn step(&self, kind: Kind) -> io::Result<()> {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fault {
            Fault::Io if number == self.nth => Err(device_error()),
            Fault::Full if number >= self.nth && kind == Kind::Growing => Err(no_room()),
            Fault::Torn if number > self.nth && kind == Kind::Growing => Err(no_room()),
            _ => Ok(()),
        }
    }

    /// Counts a read; the error that it has to end with, if any.
    fn step_read(&self) -> io::Result<()> {
        let number = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        if self.fault == Fault::Read && number == self.nth { Err(device_error()) } else { Ok(()) }
    }
}

fn device_error() -> io::Error {
    if cfg!(unix) { io::Error::from_raw_os_error(5) } else { io::Error::other("input/output error") }
}

fn no_room() -> io::Error {
    if cfg!(unix) { io::Error::from_raw_os_error(28) } else { io::ErrorKind::StorageFull.into() }
}

struct FaultyFile {
    file: Box<dyn Durable>,
    faults: Faulty,
}

impl Write for FaultyFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.faults.step(Kind::Growing)?;
        let torn = self.faults.fault == Fault::Torn && self.faults.operations() == self.faults.nth;
        let taken = if torn { buffer.len() / 2 } else { buffer.len() };
        if taken == 0 && !buffer.is_empty() {
            return Err(no_room());
        }
        self.file.write_all(&buffer[..taken])?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Durable for FaultyFile {
    fn sync(&mut self) -> io::Result<()> {
        self.faults.step(Kind::Other)
    }
}

impl FileSystem for Faulty {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.step_read()?;
        Disk.read(path, limit)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.step_read()?;
        Disk.metadata(path)
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.step_read()?;
        Disk.symlink_metadata(path)
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.step_read()?;
        Disk.names(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>> {
        self.step(Kind::Growing)?;
        Ok(Box::new(FaultyFile { file: Disk.create(path)?, faults: self.clone() }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Durable>> {
        self.step(Kind::Growing)?;
        Ok(Box::new(FaultyFile { file: Disk.append(path)?, faults: self.clone() }))
    }

    fn open_lock(&self, path: &Path) -> io::Result<File> {
        self.step(if path.exists() { Kind::Other } else { Kind::Growing })?;
        Disk.open_lock(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Kind::Other)?;
        Disk.rename(from, to)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Other)?;
        std::fs::metadata(path).map(drop)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Other)?;
        Disk.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Growing)?;
        Disk.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Other)?;
        Disk.remove_dir(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Other)?;
        Disk.remove_dir_all(path)
    }
}
