//! Keeps copies of objects on a disk, up to a limit of bytes: those that were used last.
//!
//! A copy has the digest of its contents as its name, so it needs no other check than its size, and any number of
//! processes may share a folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::source::open_stream;

/// A folder with copies of objects.
#[derive(Clone, Debug)]
pub struct ObjectCache {
    folder: PathBuf,
    most: u64,
    _temporary: Option<Arc<TempDir>>,
}

impl ObjectCache {
    /// A folder, which need not be there yet, for so many bytes.
    #[must_use]
    pub fn new(folder: &Path, most: u64) -> Self {
        Self { folder: folder.to_owned(), most, _temporary: None }
    }

    /// A folder that goes with the last clone.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn temporary(most: u64) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let cache = Self::new(folder.path(), most);
        Ok(Self { _temporary: Some(Arc::new(folder)), ..cache })
    }

    /// A folder of the user's cache (`$XDG_CACHE_HOME/bert`, `~/.cache/bert`); where there is no home, of the system's
    /// temporary files.
    #[must_use]
    pub fn user_folder(name: &str) -> PathBuf {
        let set =
            |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        caches.unwrap_or_else(std::env::temp_dir).join("bert").join(name)
    }

    /// A copy of the object, which has so many bytes and this BLAKE3 digest in hex. The file stays readable when the
    /// copy is removed.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Differs`].
    pub fn open(&self, url: &Path, bytes: u64, blake3: &str) -> Result<File> {
        let path = self.folder.join(blake3);
        if let Ok(file) = File::open(&path)
            && file.metadata().is_ok_and(|metadata| metadata.len() == bytes)
        {
            // Where the folder belongs to somebody else, the copy only seems older.
            let _ = file.set_modified(SystemTime::now());
            return Ok(file);
        }
        if bytes > self.most {
            let said = format!("it has {bytes} bytes, more than the {} of the cache", self.most);
            return Err(Error::io("keep a copy of", url)(io::Error::other(said)));
        }
        self.make_room(bytes).map_err(Error::io("write to", &self.folder))?;
        let copy = tempfile::Builder::new().prefix(".copy-").tempfile_in(&self.folder);
        let mut copy = copy.map_err(Error::io("write to", &self.folder))?;
        let mut hasher = blake3::Hasher::new();
        let mut from = open_stream(url).map_err(Error::io("open", url))?;
        let (mut buffer, mut written) = (vec![0; 1 << 16], 0);
        loop {
            let read = from.read(&mut buffer).map_err(Error::io("read", url))?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            written += read as u64;
            copy.write_all(&buffer[..read]).map_err(|source| Error::write(&path, written, source))?;
        }
        let (found, expected) = (hasher.finalize().to_hex().to_string(), blake3.to_owned());
        if found != expected {
            return Err(Error::Differs { path: url.to_owned(), found, expected });
        }
        copy.persist(&path).map_err(|error| Error::io("write", &path)(error.error))
    }

    /// Removes the copies that were not used for longest until so many bytes have room, and what a kill left.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut copies = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another process may have removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            copies.push((
                metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                metadata.len(),
                entry.path(),
            ));
        }
        copies.sort_unstable();
        let mut held: u64 = copies.iter().map(|(_, length, _)| length).sum();
        for (_, length, path) in copies {
            if held + bytes <= self.most {
                break;
            }
            let _ = fs::remove_file(path);
            held -= length;
        }
        Ok(())
    }
}
