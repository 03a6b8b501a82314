//! File systems that fail on purpose.
//!
//! [`Faulty`] fails the n-th operation or the n-th read; a test increases n until no operation fails. [`PowerCut`]
//! loses data that was not synced. Both work on real folders. Neither actually syncs, because that is slow and does not
//! improve the test.

mod power_cut;

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bert_storage::{Disk, Durable, FileSystem};

pub use power_cut::{PowerCut, Survival};

/// Kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A device error (`EIO`), once.
    Io,
    /// A full disk (`ENOSPC`), for every creating or writing operation from then on.
    Full,
    /// A write that stores half of its bytes, followed by a full disk as in [`Fault::Full`].
    Torn,
    /// A device error (`EIO`), once, of a read-only operation. Reads are numbered separately.
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

/// Kind of an operation, as far as it matters for a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Needs disk space.
    Growing,
    Other,
}

impl Faulty {
    /// Creates a file system that fails operation `nth`, counted from 1; a full disk also fails all later operations
    /// that need space. [`Fault::Read`] fails read `nth`.
    pub fn new(fault: Fault, nth: u64) -> Self {
        Self { fault, nth, count: Arc::default(), reads: Arc::default() }
    }

    /// Creates a file system that never fails.
    pub fn never() -> Self {
        Self::new(Fault::Io, u64::MAX)
    }

    /// Returns whether enough operations were tried for the fault to happen.
    pub fn triggered(&self) -> bool {
        match self.fault {
            Fault::Read => self.reads.load(Ordering::SeqCst) >= self.nth,
            _ => self.operations() >= self.nth,
        }
    }

    /// Returns the number of operations tried, without reads.
    pub fn operations(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Counts an operation and returns its error, if it must fail.
    fn step(&self, kind: Kind) -> io::Result<()> {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fault {
            Fault::Io if number == self.nth => Err(device_error()),
            Fault::Full if number >= self.nth && kind == Kind::Growing => Err(no_room()),
            Fault::Torn if number > self.nth && kind == Kind::Growing => Err(no_room()),
            _ => Ok(()),
        }
    }

    /// Counts a read and returns its error, if it must fail.
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
        self.step_read().and_then(|()| Disk.read(path, limit))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.step_read().and_then(|()| Disk.metadata(path))
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.step_read().and_then(|()| Disk.symlink_metadata(path))
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.step_read().and_then(|()| Disk.names(path))
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
        self.step(if path.exists() { Kind::Other } else { Kind::Growing }).and_then(|()| Disk.open_lock(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Kind::Other).and_then(|()| Disk.rename(from, to))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Other)?;
        std::fs::metadata(path).map(drop)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Other).and_then(|()| Disk.remove_file(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Growing).and_then(|()| Disk.create_dir(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Other).and_then(|()| Disk.remove_dir(path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.step(Kind::Other).and_then(|()| Disk.remove_dir_all(path))
    }
}
