//! Reads a file, or an object of a store whose URL is given instead of a path: opens it, gives its bytes up to a
//! limit, or its BLAKE3 digest as 64 hex digits.
//!
//! `file://` URLs are paths. Other URLs need the feature `object-stores`.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;

use crate::error::{Error, Result};
use crate::objects;
use crate::url::{is_url, on_disk};

/// Opens a file or an object to read it from its beginning to its end.
///
/// # Errors
/// As [`File::open`]; what the store says.
pub fn open_stream(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if !is_url(path) {
        return Ok(Box::new(File::open(on_disk(path))?));
    }
    Ok(Box::new(objects::open(path)?))
}

/// Opens a file to read it in any order; an object is copied to a file without a name first.
///
/// # Errors
/// As [`File::open`]; what the store says; a full disk.
pub fn open_file(path: &Path) -> io::Result<File> {
    if !is_url(path) {
        return File::open(on_disk(path));
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut objects::open(path)?, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// The size of a file or an object in bytes.
///
/// # Errors
/// As [`fs::metadata`]; what the store says.
pub fn size(path: &Path) -> io::Result<u64> {
    if !is_url(path) {
        return Ok(fs::metadata(on_disk(path))?.len());
    }
    objects::size(path)
}

/// The bytes of a regular file or an object that has no more than `limit` of them. A pipe or a device is never opened.
///
/// # Errors
/// When it is not regular, larger, or cannot be read.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if !is_url(path) {
        // Asked before opening: to open a pipe without a writer would wait for ever.
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

/// The BLAKE3 digest of bytes, in hex.
#[must_use]
pub fn digest_bytes(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The BLAKE3 digest of a file or an object, in hex.
///
/// # Errors
/// [`Error::Io`] when the file cannot be read.
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
    fn no_more_than_the_limit_and_of_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "123").unwrap();
        assert_eq!(read_limited(&path, 3).unwrap(), b"123");
        assert_eq!(read_limited(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_limited(&folder.path().join("b"), 2).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_ne!(read_limited(folder.path(), 2).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        // A device that holds nothing would pass for an empty file.
        let device = Path::new("/dev/null");
        if device.exists() {
            assert_eq!(read_limited(device, 2).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn digests_are_of_all_bytes_and_errors_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(digest_file(&path).unwrap(), digest_bytes(&bytes));
        assert_eq!(digest_bytes(b"").len(), 64);
        if cfg!(unix) {
            // A folder can be opened and not be read.
            assert!(digest_file(folder.path()).unwrap_err().to_string().contains("cannot read"));
        }
    }
}
