//! Bytes that are held in memory or read from a file piece by piece, behind one interface.
//!
//! In goes a file's path and whether it fits in memory, out come ranges of its bytes. A [`Cursor`] keeps the piece it
//! read last, so that reading on from there needs no further call of the system, and the one file that it is in: so many
//! columns are read with few open files. [`ColumnWriter`] makes such a file, or its bytes in memory. Not for what must survive
//! a power cut: scratch data is checked by its digest instead.

use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use crate::error::{Error, Result, is_disk_full};
use crate::files::{Durable, FileSystem};

/// Fills `buffer` from a place in a file, whatever its own position is.
pub(crate) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset);
    #[cfg(windows)]
    {
        let mut done = 0;
        while done < buffer.len() {
            match std::os::windows::fs::FileExt::seek_read(file, &mut buffer[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => done += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Bytes, here or on disk.
#[derive(Debug)]
pub(crate) enum Column {
    /// All in memory.
    Resident(Vec<u8>),
    /// In a file that is read where it is needed.
    Paged(PathBuf),
}

impl Column {
    /// The column of a file, read whole where `resident`.
    pub(crate) fn open(path: &Path, resident: bool) -> Result<Self> {
        if resident {
            return std::fs::read(path).map(Self::Resident).map_err(Error::io("read", path));
        }
        Ok(Self::Paged(path.to_owned()))
    }
}

/// A reader of columns, one after another.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The file that was read last, and the number of its column.
    file: Option<(usize, File)>,
    start: u64,
    window: Vec<u8>,
    /// Bytes read at once, where a range is shorter.
    ahead: usize,
}

impl Clone for Cursor {
    /// One that has read nothing.
    fn clone(&self) -> Self {
        Self::new(self.ahead)
    }
}

impl Cursor {
    pub(crate) fn new(ahead: usize) -> Self {
        Self { file: None, start: 0, window: Vec::new(), ahead }
    }

    /// The bytes of a range that lies inside column `number`, which has `length` bytes.
    pub(crate) fn get<'a>(
        &'a mut self,
        (number, column): (usize, &'a Column),
        range: Range<u64>,
        length: u64,
    ) -> Result<&'a [u8]> {
        let path = match column {
            Column::Resident(bytes) => return Ok(&bytes[range.start as usize..range.end as usize]),
            Column::Paged(path) => path,
        };
        if self.file.as_ref().is_none_or(|(open, _)| *open != number) {
            self.window.clear();
            self.file = Some((number, File::open(path).map_err(Error::io("open", path))?));
        }
        let held = self.start..self.start + self.window.len() as u64;
        if range.start < held.start || range.end > held.end {
            let end = range.end.max((range.start + self.ahead as u64).min(length));
            self.window.resize((end - range.start) as usize, 0);
            self.start = range.start;
            let (_, file) = self.file.as_ref().expect("opened above");
            if let Err(source) = read_exact_at(file, &mut self.window, range.start) {
                self.window.clear();
                return Err(Error::io("read", path)(source));
            }
        }
        let from = (range.start - self.start) as usize;
        Ok(&self.window[from..from + (range.end - range.start) as usize])
    }
}

/// What a finished column holds, so that it can be known again.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnDigest {
    pub(crate) bytes: u64,
    pub(crate) xxh3: u64,
}

/// Digests bytes as they go by.
#[derive(Clone, Default)]
pub(crate) struct Digester {
    hasher: XxHash3_64,
    bytes: u64,
}

impl Digester {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn finish(&self) -> ColumnDigest {
        ColumnDigest { bytes: self.bytes, xxh3: self.hasher.finish() }
    }
}

/// The digest of a whole file; `None` when there is none.
pub(crate) fn digest_of(path: &Path) -> Result<Option<ColumnDigest>> {
    use std::io::Read;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::io("open", path)(source)),
    };
    let mut digester = Digester::default();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Some(digester.finish())),
            Ok(length) => digester.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::io("read", path)(source)),
        }
    }
}

/// A scratch file that is digested while it is written, in large pieces.
pub(crate) struct ScratchFile {
    path: PathBuf,
    out: Box<dyn Durable>,
    buffer: Vec<u8>,
    digester: Digester,
}

/// Bytes that a scratch file holds back.
const BUFFER: usize = 1 << 17;

impl ScratchFile {
    pub(crate) fn create(files: &dyn FileSystem, path: &Path) -> Result<Self> {
        let out = files.create(path).map_err(Error::io("create", path))?;
        Ok(Self { path: path.to_owned(), out, buffer: Vec::new(), digester: Digester::default() })
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Hands everything to the operating system, so that other handles see it.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.digester.update(&self.buffer);
        if let Err(source) = self.out.write_all(&self.buffer) {
            return Err(match is_disk_full(&source) {
                true => Error::DiskFull { path: self.path.clone(), needed: self.digester.bytes, source },
                false => Error::io("write", &self.path)(source),
            });
        }
        self.buffer.clear();
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn length(&self) -> u64 {
        self.digester.bytes + self.buffer.len() as u64
    }

    pub(crate) fn finish(mut self) -> Result<ColumnDigest> {
        self.flush()?;
        self.out.flush().map_err(Error::io("write", &self.path))?;
        Ok(self.digester.finish())
    }
}

/// Makes a column.
pub(crate) enum ColumnWriter {
    Memory(Vec<u8>),
    File(Box<ScratchFile>),
}

impl ColumnWriter {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Memory(all) => {
                all.extend_from_slice(bytes);
                Ok(())
            }
            Self::File(file) => file.push(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Disk;

    #[test]
    fn paged_bytes_are_the_resident_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("column");
        let bytes: Vec<u8> = (0..300_000u32).map(|n| (n * 7 % 251) as u8).collect();
        let mut file = ScratchFile::create(&Disk, &path).unwrap();
        bytes.chunks(999).for_each(|part| file.push(part).unwrap());
        let digest = file.finish().unwrap();
        assert_eq!(digest_of(&path).unwrap(), Some(digest));
        assert_eq!(digest_of(&folder.path().join("other")).unwrap(), None);
        let columns = [true, false].map(|resident| Column::open(&path, resident).unwrap());
        for (start, end) in
            [(0, 10), (5, 9), (8, 70), (299_990, 300_000), (0, 300_000), (7, 7), (300_000, 300_000)]
        {
            for column in &columns {
                let mut cursor = Cursor::new(64);
                cursor.get((0, column), 3..4, 300_000).unwrap();
                let found = cursor.get((0, column), start..end, 300_000).unwrap();
                assert_eq!(found, &bytes[start as usize..end as usize]);
            }
        }
        std::fs::write(&path, &bytes[..100]).unwrap();
        let cut = Cursor::new(64).get((0, &columns[1]), 90..200, 300_000).unwrap_err();
        assert!(cut.to_string().contains("column"), "{cut}");
    }
}
