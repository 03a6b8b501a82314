//! Atomic file writes: a file appears complete under its name, or not at all.
//!
//! A write returns the size and the digest of the file. If a write fails, the old file stays unchanged.
//!
//! [`check_writable`] checks that an output can be written, before the work for it begins.

use std::io;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::objects::url::shown;
use crate::system::{Disk, Durable, FileSystem, folder_of};

/// Size and digest of a finished file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 digest in hex.
    pub blake3: String,
}

/// A file that appears under its name only after [`AtomicFile::commit`] has succeeded.
///
/// Dropping it without a commit removes the temporary file and leaves the old file unchanged.
pub struct AtomicFile<'a> {
    files: &'a dyn FileSystem,
    path: PathBuf,
    temporary: PathBuf,
    out: Option<BufWriter<Box<dyn Durable>>>,
    hasher: blake3::Hasher,
    bytes: u64,
    /// Size of the file including the last write, even if that write failed.
    attempted: u64,
}

impl<'a> AtomicFile<'a> {
    /// Creates a temporary file next to `path`. Its name cannot be predicted.
    ///
    /// # Errors
    /// Fails when the temporary file cannot be created.
    pub fn create(files: &'a dyn FileSystem, path: &Path) -> Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other).map_err(Error::io("create", path))?;
        let random = format!("{:016x}", u64::from_le_bytes(random));
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{random}{}.tmp", check_of(&random)));
        let temporary = path.with_file_name(name);
        let file = files.create(&temporary).map_err(Error::io("create", path))?;
        Ok(Self {
            files,
            path: path.to_owned(),
            temporary,
            out: Some(BufWriter::with_capacity(1 << 16, file)),
            hasher: blake3::Hasher::new(),
            bytes: 0,
            attempted: 0,
        })
    }

    /// Writes the whole file and commits it.
    ///
    /// # Errors
    /// Fails when the file cannot be written; if the disk is full, the error gives the size of the file. The old file,
    /// if any, is then unchanged, unless only the last step, the fsync of the folder, failed.
    pub fn fill(mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<FileDigest> {
        self.add(write)?;
        self.commit()
    }

    /// Appends to the file.
    ///
    /// # Errors
    /// Fails when the file cannot be written; if the disk is full, the error gives the size of the file.
    pub fn add(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        write(self).map_err(|source| self.failed(source))
    }

    /// Returns the path of the temporary file.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::write(&self.path, self.attempted, source)
    }

    /// Commits the file: flush, fsync, rename, fsync of the folder.
    ///
    /// # Errors
    /// Fails when the file cannot be written or renamed. The old file, if any, is then still there, unless only the
    /// last step, the fsync of the folder, failed.
    pub fn commit(mut self) -> Result<FileDigest> {
        if let Some(mut out) = self.out.take() {
            let synced = out.flush().and_then(|()| out.get_mut().sync());
            if let Err(source) = synced {
                drop(out);
                // If this fails, `remove_temporaries` removes the file later.
                let _ = self.files.remove_file(&self.temporary);
                return Err(self.failed(source));
            }
        }
        if let Err(source) = self.files.rename(&self.temporary, &self.path) {
            // If this fails, `remove_temporaries` removes the file later.
            let _ = self.files.remove_file(&self.temporary);
            return Err(Error::io("rename to", &self.path)(source));
        }
        let folder = folder_of(&self.path);
        self.files.sync_folder(folder).map_err(Error::io("sync", folder))?;
        Ok(FileDigest { bytes: self.bytes, blake3: self.hasher.finalize().to_hex().to_string() })
    }
}

impl Write for AtomicFile<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let out = self.out.as_mut().ok_or_else(|| io::Error::other("written after commit"))?;
        self.attempted = self.bytes + buffer.len() as u64;
        let written = match out.write(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            // The error must name the file and its size here, because the caller of `write` knows neither.
            written => written.map_err(|source| self.failed(source).carry())?,
        };
        self.hasher.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.as_mut().map_or(Ok(()), Write::flush);
        flushed.map_err(|source| self.failed(source).carry())
    }
}

impl Drop for AtomicFile<'_> {
    fn drop(&mut self) {
        if let Some(out) = self.out.take() {
            // Nothing is flushed, because the file is removed. If that fails, `remove_temporaries` removes it later.
            drop(out.into_parts().0);
            let _ = self.files.remove_file(&self.temporary);
        }
    }
}

/// Writes a file atomically on the real file system.
///
/// # Errors
/// Fails when the file cannot be written. The old file, if any, is then unchanged, unless only the last step, the fsync
/// of the folder, failed.
pub fn write_atomic(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<FileDigest> {
    AtomicFile::create(&Disk, path)?.fill(write)
}

/// Writes a value atomically, as indented JSON with a final newline.
///
/// # Errors
/// Fails as [`write_atomic`] does.
pub fn write_json_atomic<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<FileDigest> {
    write_atomic(path, json(value))
}

/// Writes a value as indented JSON with a final newline.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> impl FnOnce(&mut dyn Write) -> io::Result<()> {
    move |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    }
}

/// Number of digits of the random part of a temporary name.
const RANDOM_DIGITS: usize = 16;

/// Returns the check digits that follow the random part of a temporary name. The name of a user's file does not contain
/// them by chance.
fn check_of(random: &str) -> String {
    blake3::derive_key("bert-storage temporary name", random.as_bytes())[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns whether a name is a temporary name of [`AtomicFile`]: `.NAME.RANDOM.tmp`, where `RANDOM` consists of random
/// digits and of check digits computed from them.
pub fn is_temporary(name: &str) -> bool {
    let stem = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".tmp"));
    stem.and_then(|stem| stem.rsplit_once('.')).is_some_and(|(name, digits)| {
        let halves = digits.split_at_checked(RANDOM_DIGITS);
        !name.is_empty() && halves.is_some_and(|(random, check)| check == check_of(random))
    })
}

/// Checks that files can be created in a folder, or in the nearest existing folder above it. Nothing is left on disk.
///
/// # Errors
/// Fails when no file can be created there; the error names the folder.
pub fn check_writable(files: &dyn FileSystem, folder: &Path) -> Result<()> {
    let mut nearest = folder;
    while files.metadata(nearest).is_err() && nearest != folder_of(nearest) {
        nearest = folder_of(nearest);
    }
    let probe = AtomicFile::create(files, &nearest.join("writable"));
    probe.map(drop).map_err(|error| error.with_text(format!("cannot write to {}", shown(folder))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::digest_file;

    #[test]
    fn a_dropped_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = AtomicFile::create(&Disk, &folder.path().join("a")).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_temporary_names_are_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let file = AtomicFile::create(&Disk, &folder.path().join("file.json")).unwrap();
        let ours = file.temporary().file_name().unwrap().to_str().unwrap();
        let other = AtomicFile::create(&Disk, &folder.path().join("file.json")).unwrap();
        assert_ne!(file.temporary(), other.temporary());
        assert!(is_temporary(ours), "{ours}");
        for name in [
            &ours[1..],
            &ours[..ours.len() - 4],
            &ours.replace(".file.json", ""),
            &format!("{}0.tmp", &ours[..ours.len() - 5]),
            &format!("{}1.tmp", &ours[..ours.len() - 5]),
            ".draft.2024.tmp",
            ".draft.0123456789abcdef01234567.tmp",
            ".lock",
        ] {
            assert!(name == ours || !is_temporary(name), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("victim"), "mine").unwrap();
        std::os::unix::fs::symlink("victim", at("link")).unwrap();
        Disk.create(&at("link")).unwrap().write_all(b"ours").unwrap();
        assert_eq!(std::fs::read_to_string(at("victim")).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(at("link")).unwrap(), "ours");
    }

    #[test]
    fn json_and_digests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let written = write_json_atomic(&path, &[1, 2]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[\n  1,\n  2\n]\n");
        assert_eq!(written.blake3, digest_file(&path).unwrap());
        assert_eq!(digest_file(&folder.path().join("b")).unwrap_err().exit_code(), 1);
    }

    #[test]
    fn nearest_existing_folder_must_be_writable() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "new", "new/deep/deeper"] {
            check_writable(&Disk, &folder.path().join(name)).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::write(folder.path().join("file"), "").unwrap();
        let below = folder.path().join("file/out");
        let error = check_writable(&Disk, &below).unwrap_err().to_string();
        assert!(error.contains(&format!("write to {}", below.display())), "{error}");
        check_writable(&Disk, Path::new("relative/new")).unwrap();
    }
}
