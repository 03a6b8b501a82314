//! A cache of computed results on a disk, each under a key that names everything it depends on.
//!
//! A file begins with the digest of its bytes, so damage is detected. Several processes can share a folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::atomic::write_atomic;
use crate::error::{Error, Result};
use crate::source::digest_bytes;
use crate::source::object_cache::make_room;

/// Length of a digest in hexadecimal.
const DIGEST: usize = 64;

/// A folder with results.
#[derive(Clone, Debug)]
pub struct ResultCache {
    folder: PathBuf,
    max_bytes: u64,
}

/// The result of a lookup in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CachedResult<T> {
    /// The result.
    Valid(T),
    /// The cache has no result under this key.
    Absent,
    /// The file is incomplete or changed, or cannot be parsed.
    Damaged(PathBuf),
}

impl ResultCache {
    /// Creates a cache of at most `max_bytes` bytes in a folder, which need not exist yet.
    #[must_use]
    pub fn new(folder: &Path, max_bytes: u64) -> Self {
        Self { folder: folder.to_owned(), max_bytes }
    }

    /// Returns the path of the file for a key. A key is the digest of everything that the result depends on.
    #[must_use]
    pub fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key)
    }

    /// Returns the result under a key, parsed by `parse`. If `parse` returns `None`, the result counts as damaged.
    ///
    /// # Errors
    /// Fails when the file exists and cannot be read; a file without read permission counts as absent.
    pub fn load<T>(&self, key: &str, parse: impl FnOnce(&[u8]) -> Option<T>) -> Result<CachedResult<T>> {
        let path = self.path(key);
        let mut bytes = match fs::read(&path) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                return Ok(CachedResult::Absent);
            }
            bytes => bytes.map_err(Error::io("read", &path))?,
        };
        let result = bytes.split_off(bytes.len().min(DIGEST));
        let is_whole = bytes == digest_bytes(&result).into_bytes();
        let Some(result) = is_whole.then(|| parse(&result)).flatten() else {
            return Ok(CachedResult::Damaged(path));
        };
        // This fails if the file belongs to another user. Then the result only seems less recently used.
        let _ =
            File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(CachedResult::Valid(result))
    }

    /// Removes the least recently used results to make room, and saves a result. A result larger than the cache is not
    /// saved.
    ///
    /// # Errors
    /// Fails when the result cannot be written.
    pub fn store(&self, key: &str, result: &[u8]) -> Result<()> {
        let bytes = (DIGEST + result.len()) as u64;
        if bytes > self.max_bytes {
            return Ok(());
        }
        make_room(&self.folder, bytes, self.max_bytes).map_err(Error::io("write to", &self.folder))?;
        write_atomic(&self.path(key), |out| {
            out.write_all(digest_bytes(result).as_bytes())?;
            out.write_all(result)
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(source: &str) -> String {
        digest_bytes(source.as_bytes())
    }

    #[test]
    fn damaged_results_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ResultCache::new(&folder.path().join("new"), 1000);
        let load = || cache.load(&key("a"), |bytes| Some(bytes.to_vec())).unwrap();
        assert_eq!(load(), CachedResult::Absent);
        cache.store(&key("a"), b"result").unwrap();
        assert_eq!(load(), CachedResult::Valid(b"result".to_vec()));
        assert_eq!(
            cache.load(&key("a"), |_| None::<()>).unwrap(),
            CachedResult::Damaged(cache.path(&key("a")))
        );
        let path = cache.path(&key("a"));
        let whole = fs::read(&path).unwrap();
        let mut changed = whole.clone();
        changed[DIGEST] ^= 1;
        for damaged in [&whole[..whole.len() - 1], &whole[..10], b"", &changed] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(load(), CachedResult::Damaged(path.clone()));
        }
    }

    #[test]
    fn oldest_results_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ResultCache::new(folder.path(), 2 * (DIGEST as u64 + 4));
        cache.store(&key("a"), b"aaaa").unwrap();
        let old = File::options().append(true).open(cache.path(&key("a"))).unwrap();
        old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        cache.store(&key("b"), b"bbbb").unwrap();
        cache.store(&key("c"), b"cccc").unwrap();
        cache.store(&key("large"), &[0; 1000]).unwrap();
        let found = ["a", "b", "c", "large"]
            .map(|name| cache.load(&key(name), |_| Some(())).unwrap() != CachedResult::Absent);
        assert_eq!(found, [false, true, true, false]);
    }
}
