//! Reads a growing log: each call reads only the bytes since the last one.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::Error;

/// A log of JSON lines, and how far it has been read.
pub struct LogTail {
    path: PathBuf,
    read: u64,
    /// Number of the file, which changes when a resumed run replaces the log.
    number: u64,
}

impl LogTail {
    /// Creates a tail at the start of a log, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), read: 0, number: 0 }
    }

    /// Appends the records since the last call, and returns whether there are any. If the log was replaced or has become
    /// shorter, `records` is cleared and read again. Invalid lines are skipped, as they are by
    /// `records`.
    ///
    /// # Errors
    /// Fails when the log exists but cannot be read.
    pub fn read_into<T: DeserializeOwned>(&mut self, records: &mut Vec<T>) -> Result<bool, Error> {
        let failed = |error| Error::io("read", &self.path)(error);
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        let metadata = file.metadata().map_err(failed)?;
        let is_replaced = metadata.len() < self.read || number(&metadata) != self.number;
        if is_replaced {
            records.clear();
            (self.read, self.number) = (0, number(&metadata));
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.read)).map_err(failed)?;
        file.take(metadata.len() - self.read).read_to_end(&mut bytes).map_err(failed)?;
        // The last line may not be complete.
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let lines = bytes[..whole].split(|&byte| byte == b'\n');
        records.extend(lines.filter_map(|line| serde_json::from_slice(line).ok()));
        Ok(is_replaced || whole > 0)
    }
}

#[cfg(unix)]
fn number(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn number(_: &Metadata) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn growing_and_replaced_logs_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut tail = LogTail::new(&path);
        let mut records = Vec::<u64>::new();
        assert!(!tail.read_into(&mut records).unwrap());
        fs::write(&path, "1\n2\n3").unwrap();
        assert!(tail.read_into(&mut records).unwrap());
        assert_eq!(records, [1, 2], "the last line is not complete");
        assert!(!tail.read_into(&mut records).unwrap());
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"4\n\xff\n5\n").unwrap();
        assert!(tail.read_into(&mut records).unwrap());
        assert_eq!(records, [1, 2, 34, 5]);
        let other = folder.path().join("other");
        fs::write(&other, "1\n2\n7\n8\n9\n10\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(tail.read_into(&mut records).unwrap());
        assert_eq!(records, [1, 2, 7, 8, 9, 10], "a resumed run replaces its log");
    }
}
