//! Reads a file, or an object of a store, given by path or URL: as a stream, as a file, as bytes up to a limit, or as
//! its BLAKE3 digest (64 hex digits).
//!
//! `file://` URLs are paths. Other URLs need the feature `object-stores`.

pub(crate) mod object_cache;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, Result};
use crate::objects;
use crate::objects::url::{is_url, on_disk};

/// Opens a file or an object for sequential reading.
///
/// # Errors
/// Fails when the file cannot be opened, or when the store returns an error.
pub fn open_stream(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    open_stream_at(path, 0)
}

/// Opens a file or an object for sequential reading from an offset in bytes.
///
/// # Errors
/// Fails when the file cannot be opened at the offset, or when the store returns an error.
pub fn open_stream_at(path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
    if is_url(path) {
        return Ok(Box::new(objects::open(path, offset)?));
    }
    let mut file = File::open(on_disk(path))?;
    if offset > 0 {
        // Pipes cannot seek.
        file.seek(SeekFrom::Start(offset))?;
    }
    Ok(Box::new(file))
}

/// Opens a file for random access. An object is first copied to an unnamed temporary file.
///
/// # Errors
/// Fails when the file cannot be opened, when the store returns an error, or when the disk is full.
pub fn open_file(path: &Path) -> io::Result<File> {
    if !is_url(path) {
        return File::open(on_disk(path));
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut objects::open(path, 0)?, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// Returns the size of a file or an object in bytes.
///
/// # Errors
/// Fails when the size cannot be read, or when the store returns an error.
pub fn size(path: &Path) -> io::Result<u64> {
    if !is_url(path) {
        return Ok(fs::metadata(on_disk(path))?.len());
    }
    objects::size(path)
}

/// Returns the bytes of a regular file or an object, if there are at most `limit`. Pipes and devices are never opened.
///
/// # Errors
/// Fails if the file is not regular, is larger, or cannot be read.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if !is_url(path) {
        // Check before opening: opening a pipe without a writer would block forever.
        let metadata = fs::metadata(on_disk(path))?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
    }
    let mut bytes = Vec::new();
    open_stream(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Returns the result of a read, or `None` if the file or the object does not exist.
///
/// # Errors
/// Fails when the read has failed for another reason.
pub fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the BLAKE3 digest of bytes, in hex.
pub fn digest_bytes(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Returns the BLAKE3 digest of a file or an object, in hex.
///
/// # Errors
/// Fails when the file cannot be read.
pub fn digest_file(path: &Path) -> Result<String> {
    let file = open_stream(path).map_err(Error::io("open", path))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(Error::io("read", path))?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_limited_to_regular_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "123").unwrap();
        assert_eq!(read_limited(&path, 3).unwrap(), b"123");
        assert_eq!(read_limited(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_limited(&folder.path().join("b"), 2).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_ne!(read_limited(folder.path(), 2).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        // An empty device would otherwise count as an empty file.
        let device = Path::new("/dev/null");
        if device.exists() {
            assert_eq!(read_limited(device, 2).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn digests_cover_all_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(digest_file(&path).unwrap(), digest_bytes(&bytes));
        assert_eq!(digest_bytes(b"").len(), 64);
        if cfg!(unix) {
            // A folder can be opened, but not read.
            assert!(digest_file(folder.path()).unwrap_err().to_string().contains("cannot read"));
        }
    }
}
