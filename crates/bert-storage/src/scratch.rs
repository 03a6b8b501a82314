//! Scratch files: written sequentially with a running digest, and readable at any offset.
//!
//! They are not synced and need not survive a power cut; the digest shows whether they are complete.

use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::source::if_found;
use crate::system::{Durable, FileSystem};

/// Fills `buffer` from an offset of a file, independent of the file's own position.
///
/// # Errors
/// Fails as [`std::io::Read::read_exact`] does.
pub fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
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

/// Size and digest of a finished scratch file, used to recognize it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScratchDigest {
    /// Size in bytes.
    pub bytes: u64,
    /// XXH3 digest.
    pub xxh3: u64,
}

/// A writer that computes the digest of the bytes written to it.
#[derive(Default)]
struct Digester {
    hasher: XxHash3_64,
    bytes: u64,
}

impl Digester {
    /// Returns the digest of all bytes so far.
    fn digest(&self) -> ScratchDigest {
        ScratchDigest { bytes: self.bytes, xxh3: self.hasher.finish() }
    }
}

impl Write for Digester {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.write(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the digest of a whole file, or `None` if the file does not exist.
///
/// # Errors
/// Fails when the file exists and cannot be read.
pub fn digest_of(path: &Path) -> Result<Option<ScratchDigest>> {
    let Some(file) = if_found(File::open(path)).map_err(Error::io("open", path))? else { return Ok(None) };
    let mut digester = Digester::default();
    io::copy(&mut BufReader::with_capacity(1 << 18, file), &mut digester).map_err(Error::io("read", path))?;
    Ok(Some(digester.digest()))
}

/// A scratch file with a running digest, written in large blocks.
pub struct ScratchFile {
    path: PathBuf,
    out: Box<dyn Durable>,
    buffer: Vec<u8>,
    digester: Digester,
}

/// Size of a scratch file's write buffer in bytes.
const BUFFER: usize = 1 << 17;

impl ScratchFile {
    /// Creates or truncates a file.
    ///
    /// # Errors
    /// Fails when the file cannot be created.
    pub fn create(files: &dyn FileSystem, path: &Path) -> Result<Self> {
        let out = files.create(path).map_err(Error::io("create", path))?;
        Ok(Self { path: path.to_owned(), out, buffer: Vec::new(), digester: Digester::default() })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Passes all buffered bytes to the operating system, so that other handles see them.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        let needed = self.length();
        let written = self.digester.write_all(&self.buffer).and_then(|()| self.out.write_all(&self.buffer));
        written.map_err(|source| Error::write(&self.path, needed, source))?;
        self.buffer.clear();
        Ok(())
    }

    /// Returns the number of bytes so far.
    pub fn length(&self) -> u64 {
        self.digester.bytes + self.buffer.len() as u64
    }

    /// Flushes the buffer and returns the digest of the whole file.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn finish(mut self) -> Result<ScratchDigest> {
        self.flush()?;
        self.out.flush().map_err(Error::io("write", &self.path))?;
        Ok(self.digester.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Disk;

    #[test]
    fn scratch_files_are_recognized_and_readable_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scratch");
        let bytes: Vec<u8> = (0..300_000u32).map(|n| (n * 7 % 251) as u8).collect();
        let mut file = ScratchFile::create(&Disk, &path).unwrap();
        bytes.chunks(999).for_each(|part| file.push(part).unwrap());
        assert_eq!(file.length(), 300_000);
        let digest = file.finish().unwrap();
        assert_eq!(digest_of(&path).unwrap(), Some(digest.clone()));
        assert_eq!(digest_of(&folder.path().join("other")).unwrap(), None);
        let open = File::open(&path).unwrap();
        for (start, end) in [(0, 10), (299_990, 300_000), (0, 300_000), (7, 7), (300_000, 300_000)] {
            let mut found = vec![0; end - start];
            read_exact_at(&open, &mut found, start as u64).unwrap();
            assert_eq!(found, &bytes[start..end]);
        }
        std::fs::write(&path, &bytes[..100]).unwrap();
        assert!(read_exact_at(&open, &mut [0; 110], 90).is_err());
        assert_ne!(digest_of(&path).unwrap(), Some(digest));
    }
}
