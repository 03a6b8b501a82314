//! A least-recently-used cache of objects on a disk, with a size limit in bytes.
//!
//! The name of a copy is the digest of its contents. A process checks the digest before it first uses a copy, so
//! several processes can share a folder. Files with other names are ignored.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::error::{Error, Result, is_absent};
use crate::source::open_stream;

/// Prefix of the name of a copy that is being written.
const UNFINISHED: &str = ".copy-";
/// Time without a write after which an incomplete copy is considered left by a killed process.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A folder with copies of objects.
#[derive(Clone, Debug)]
pub struct ObjectCache {
    folder: PathBuf,
    max_bytes: u64,
    /// Names of the copies whose digests this process has verified.
    verified: Arc<Mutex<BTreeSet<String>>>,
    _temporary: Option<Arc<TempDir>>,
}

impl ObjectCache {
    /// Creates a cache of at most `max_bytes` bytes in a folder, which need not exist yet.
    pub fn new(folder: &Path, max_bytes: u64) -> Self {
        Self { folder: folder.to_owned(), max_bytes, verified: Arc::default(), _temporary: None }
    }

    /// Creates a cache in a temporary folder that is removed with the last clone.
    ///
    /// # Errors
    /// Fails if the folder cannot be created.
    pub fn temporary(max_bytes: u64) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let cache = Self::new(folder.path(), max_bytes);
        Ok(Self { _temporary: Some(Arc::new(folder)), ..cache })
    }

    /// Returns a folder in the user's cache (`$XDG_CACHE_HOME/bert`, `~/.cache/bert`), or in the system's temporary
    /// folder if there is no home folder.
    pub fn user_folder(name: &str) -> PathBuf {
        let set =
            |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        caches.unwrap_or_else(std::env::temp_dir).join("bert").join(name)
    }

    /// Returns a copy of the object with this size in bytes and this BLAKE3 digest in hex. The file stays readable
    /// after the copy is removed from the cache.
    ///
    /// # Errors
    /// Fails when the object cannot be read or is larger than the cache, when the copy cannot be written, or when the
    /// object has a different digest.
    pub fn open(&self, url: &Path, bytes: u64, blake3: &str) -> Result<File> {
        let path = self.folder.join(blake3);
        if let Some(file) = self.valid_copy(&path, bytes, blake3)? {
            // This fails if the folder belongs to another user. Then the copy only seems less recently used.
            let _ = file.set_modified(SystemTime::now());
            return Ok(file);
        }
        if bytes > self.max_bytes {
            let message = format!("it has {bytes} bytes, but the cache holds at most {}", self.max_bytes);
            return Err(Error::io("cache", url)(io::Error::other(message)));
        }
        make_room(&self.folder, bytes, self.max_bytes).map_err(Error::io("write to", &self.folder))?;
        let copy = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder);
        let mut copy = copy.map_err(Error::io("write to", &self.folder))?;
        let from = open_stream(url).map_err(Error::io("open", url))?;
        let found = copy_digested(from, copy.as_file_mut(), url, &path)?;
        if found != blake3 {
            let text = format!("its BLAKE3 digest is {found}, expected {blake3}");
            return Err(Error::data(text).at(url));
        }
        copy.as_file().sync_all().map_err(|source| Error::write(&path, bytes, source))?;
        let mut file = copy.persist(&path).map_err(|error| Error::io("write", &path)(error.error))?;
        file.rewind().map_err(Error::io("read", &path))?;
        self.mark_verified(blake3);
        Ok(file)
    }

    /// Returns the copy with this name if it exists and matches its digest. Removes a corrupt copy.
    fn valid_copy(&self, path: &Path, bytes: u64, blake3: &str) -> Result<Option<File>> {
        let mut file = match File::open(path) {
            // A copy that another user does not share counts as missing.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                return Ok(None);
            }
            file => file.map_err(Error::io("open", path))?,
        };
        let length = file.metadata().map_err(Error::io("read", path))?.len();
        let is_verified = || self.verified.lock().unwrap_or_else(PoisonError::into_inner).contains(blake3);
        if length == bytes && is_verified() {
            return Ok(Some(file));
        }
        if length == bytes {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(&mut file).map_err(Error::io("read", path))?;
            if hasher.finalize().to_hex().as_str() == blake3 {
                file.rewind().map_err(Error::io("read", path))?;
                self.mark_verified(blake3);
                return Ok(Some(file));
            }
        }
        fs::remove_file(path).map_err(Error::io("remove", path))?;
        Ok(None)
    }

    fn mark_verified(&self, blake3: &str) {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert(blake3.to_owned());
    }
}

/// Removes the least recently used copies until there is room for `bytes` bytes, and incomplete copies of killed
/// processes.
pub(crate) fn make_room(folder: &Path, bytes: u64, max_bytes: u64) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut copies = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        // Another process may have removed it.
        let Ok(metadata) = entry.metadata() else { continue };
        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if name.starts_with(UNFINISHED) {
            if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(path);
            }
        } else if is_copy(&name) && metadata.is_file() {
            copies.push((used, metadata.len(), path));
        }
    }
    copies.sort_unstable();
    let mut cached: u64 = copies.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in copies {
        if cached + bytes <= max_bytes {
            break;
        }
        // A copy that cannot be removed still counts, so the next ones are removed for it.
        match fs::remove_file(path) {
            Err(error) if !is_absent(&error) => {}
            _ => cached -= length,
        }
    }
    Ok(())
}

/// Returns whether a name is the name of a copy: a digest in hex.
fn is_copy(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Copies an object to the file for `path` and returns the digest of its bytes.
fn copy_digested(mut from: impl Read, to: &mut File, url: &Path, path: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    let mut written = 0;
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(Error::io("read", url))?,
        };
        hasher.update(&buffer[..read]);
        written += read as u64;
        to.write_all(&buffer[..read]).map_err(|source| Error::write(path, written, source))?;
    }
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::digest_bytes;

    /// Returns an object, its size, its digest and a cache with a copy of it.
    fn with_a_copy(folder: &Path) -> (PathBuf, u64, String, ObjectCache) {
        let object = folder.join("object");
        let text = b"some bytes";
        fs::write(&object, text).unwrap();
        let cache = ObjectCache::new(&folder.join("cache"), 15);
        let digest = digest_bytes(text);
        cache.open(&object, 10, &digest).unwrap();
        (object, 10, digest, cache)
    }

    #[test]
    fn a_corrupt_copy_is_downloaded_again() {
        let folder = tempfile::tempdir().unwrap();
        let (object, bytes, digest, _) = with_a_copy(folder.path());
        let path = folder.path().join("cache").join(&digest);
        for damaged in ["some bytez", "some"] {
            fs::write(&path, damaged).unwrap();
            // Simulates another process, which has not checked any digest yet.
            let cache = ObjectCache::new(&folder.path().join("cache"), 15);
            let mut text = String::new();
            cache.open(&object, bytes, &digest).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "some bytes");
        }
        fs::remove_file(&object).unwrap();
        let cache = ObjectCache::new(&folder.path().join("cache"), 15);
        let mut text = String::new();
        cache.open(&object, bytes, &digest).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "some bytes", "a verified copy is read from its beginning");
    }

    #[test]
    fn foreign_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (_, _, digest, cache) = with_a_copy(folder.path());
        let at = |name: &str| folder.path().join("cache").join(name);
        for name in ["thesis.tex", ".copy-of-another-process", ".copy-of-a-kill"] {
            fs::write(at(name), "0123456789").unwrap();
        }
        let old = File::options().write(true).open(at(".copy-of-a-kill")).unwrap();
        old.set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        fs::write(folder.path().join("other"), "other byte").unwrap();
        cache.open(&folder.path().join("other"), 10, &digest_bytes(b"other byte")).unwrap();
        let found = ["thesis.tex", ".copy-of-another-process", ".copy-of-a-kill", &digest]
            .map(|name| at(name).exists());
        assert_eq!(found, [true, true, false, false]);
    }
}
