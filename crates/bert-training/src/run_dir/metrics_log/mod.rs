//! Writes `metrics.jsonl`: the metrics of each step, one JSON object per line.
//!
//! The file has only values that a repetition of the run reproduces (no times, no rates), so the file of a resumed run
//! equals the file of an uninterrupted one, byte for byte. Times go to `timing.jsonl`, a second file in the same
//! format.

pub mod tail;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use bert_storage::{Durable, StagedFolder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Error;

/// An append-only log of records with step numbers.
pub(crate) struct MetricsLog {
    path: PathBuf,
    file: Box<dyn Durable>,
}

/// Reads a number that may be `null`, which JSON uses for NaN and infinity, as NaN.
pub(crate) fn nan_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

#[derive(Deserialize)]
struct Stamp {
    step: u64,
}

impl MetricsLog {
    /// Opens the log for a run that continues after `step` updates, or starts (`None`). Records of later steps, which a
    /// killed run may have left, are removed, and so is a truncated line.
    pub(crate) fn open(folder: &StagedFolder<'_>, name: &str, step: Option<u64>) -> Result<Self, Error> {
        let path = folder.path_of(name);
        let old: Vec<(Stamp, Vec<u8>)> = step.map_or(Ok(Vec::new()), |_| records(&path))?;
        let mut kept = old.iter().filter(|(stamp, _)| Some(stamp.step) <= step);
        folder
            .write(name, |out| kept.try_for_each(|(_, line)| out.write_all(&[line, &b"\n"[..]].concat())))?;
        let file = folder.files().append(&path).map_err(Error::io("open", &path))?;
        Ok(Self { path, file })
    }

    /// Appends one record.
    pub(crate) fn append(&mut self, record: &impl Serialize) -> Result<(), Error> {
        let mut line = serde_json::to_string(record).expect("records are plain data");
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(Error::io("write", &self.path))
    }

    /// Reads the records of the log.
    pub(crate) fn records<T: DeserializeOwned>(&self) -> Result<Vec<T>, Error> {
        Ok(records(&self.path)?.into_iter().map(|(record, _)| record).collect())
    }

    /// Syncs all appended records to disk.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.file.sync().map_err(Error::io("write", &self.path))
    }
}

/// Returns the records of a log, each with its line. Invalid lines are skipped: they are left by a killed process or a
/// power failure, or are being written by a run. A missing log has no records.
pub fn records<T: DeserializeOwned>(path: &Path) -> Result<Vec<(T, Vec<u8>)>, Error> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let record = |line: &[u8]| Some((serde_json::from_slice(line).ok()?, line.to_vec()));
    Ok(bytes.split(|&byte| byte == b'\n').filter_map(record).collect())
}

#[cfg(test)]
mod tests {
    use bert_storage::Disk;

    use super::*;

    #[derive(Serialize)]
    struct Record {
        step: u64,
        loss: f64,
    }

    #[test]
    fn reopening_drops_records_after_the_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let name = "metrics.jsonl";
        let staged = StagedFolder::new(&Disk, folder.path());
        let mut log = MetricsLog::open(&staged, name, None).unwrap();
        for step in 1..=5 {
            log.append(&Record { step, loss: 0.1 * step as f64 }).unwrap();
        }
        log.sync().unwrap();
        let whole = std::fs::read(&path).unwrap();
        // A line truncated by a kill, and a block that was not written because of a power failure.
        let left = b"{\"step\":6,\xff\0\0";
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(left).unwrap();
        let mut log = MetricsLog::open(&staged, name, Some(3)).unwrap();
        for step in 4..=5 {
            log.append(&Record { step, loss: 0.1 * step as f64 }).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }
}
