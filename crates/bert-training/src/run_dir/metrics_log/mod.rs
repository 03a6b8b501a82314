//! Writes `metrics.jsonl`: the metrics of each step, one JSON object per line.
//!
//! The file has only values that a repetition of the run reproduces (no times, no rates), so the file of a resumed run
//! equals the file of an uninterrupted one, byte for byte. Times go to `timing.jsonl`, a second file in the same
//! format.
//!
//! Detects a diverged training run: its loss rose far above its earlier minimum.
//!
//! The mean loss of the last `WINDOW` steps is compared with the lowest such mean. A rise counts if it exceeds the
//! noise expected from the number of targets in the steps.
//!
//! Reads a growing log: each call reads only the bytes since the last one.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bert_storage::{Durable, StagedFolder, if_found};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Error;

/// An append-only log of records with step numbers.
pub(crate) struct MetricsLog {
    path: PathBuf,
    file: Box<dyn Durable>,
}

/// Reads a number. Reads `null`, which replaces NaN and infinity in JSON, as NaN.
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
    let bytes = if_found(std::fs::read(path)).map_err(Error::io("read", path))?.unwrap_or_default();
    let record = |line: &[u8]| Some((serde_json::from_slice(line).ok()?, line.to_vec()));
    Ok(bytes.split(|&byte| byte == b'\n').filter_map(record).collect())
}

/// Number of steps over which the loss is averaged.
const WINDOW: usize = 20;
/// A rise in nats that is large for any batch size.
const RISE: f64 = 1.0;
/// Five standard deviations of the loss of a single target, in nats. The standard deviation for a masked
/// token is about 2.5.
const NOISE_OF_TARGET: f64 = 5.0 * 2.5;

/// A rise of the training loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rise {
    /// The step at which it was detected.
    pub step: u64,
    /// The lowest mean loss before it.
    pub lowest: f64,
    /// The mean loss at that step.
    pub now: f64,
}

/// The mean loss of a window of steps, and its statistical uncertainty.
#[derive(Clone, Copy, Debug)]
struct Level {
    mean: f64,
    noise: f64,
}

/// A detector of divergence, fed with the loss of every step.
#[derive(Clone, Debug, Default)]
pub struct Divergence {
    /// Loss and number of targets of the last steps.
    recent: VecDeque<(f64, u64)>,
    lowest: Option<Level>,
    rise: Option<Rise>,
}

impl Divergence {
    /// Adds the loss of a step over `targets` targets; returns the rise if this step is the first to show it. Steps
    /// without a finite loss are ignored.
    pub fn add(&mut self, step: u64, loss: f64, targets: u64) -> Option<Rise> {
        if !loss.is_finite() || targets == 0 {
            return None;
        }
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back((loss, targets));
        let now = self.level();
        let lowest = *self.lowest.get_or_insert(now);
        if now.mean + now.noise < lowest.mean + lowest.noise {
            self.lowest = Some(now);
        }
        let above = now.mean - lowest.mean - now.noise - lowest.noise;
        if self.rise.is_some() {
            // The run has recovered if the loss has fallen by at least half of the rise.
            self.rise = self.rise.filter(|rise| now.mean > (rise.lowest + rise.now) / 2.0);
            return None;
        }
        self.rise = (above > RISE).then_some(Rise { step, lowest: lowest.mean, now: now.mean });
        self.rise
    }

    /// Returns the rise, unless the loss has recovered since.
    pub fn rise(&self) -> Option<Rise> {
        self.rise
    }

    fn level(&self) -> Level {
        let targets = self.recent.iter().map(|(_, targets)| *targets as f64).sum::<f64>();
        let sum = self.recent.iter().map(|(loss, targets)| loss * *targets as f64).sum::<f64>();
        Level { mean: sum / targets, noise: NOISE_OF_TARGET / targets.sqrt() }
    }
}

impl Rise {
    /// Describes the rise and suggests a remedy for a run with this learning rate and number of warm-up steps.
    pub fn text(&self, learning_rate: f64, warmup_steps: u64) -> String {
        let Self { step, lowest, now } = self;
        format!(
            "the run has diverged: at step {step} the mean training loss is {now:.2}, after a minimum of {lowest:.2}. \
             Use a lower `.learning_rate` (now {learning_rate}) or more `.warmup_steps` (now {warmup_steps})"
        )
    }
}

/// A log of JSON lines, and how far it has been read.
pub struct LogTail {
    path: PathBuf,
    read: u64,
    /// Inode number of the file, which changes when a resumed run replaces the log.
    number: u64,
}

impl LogTail {
    /// Creates a tail at the start of a log, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), read: 0, number: 0 }
    }

    /// Appends the records that were written since the last call, and returns whether `records` may have changed. If
    /// the log was replaced or has become shorter, `records` is cleared and read again. Invalid lines are skipped, as
    /// they are by `records`.
    ///
    /// # Errors
    /// Fails when the log exists but cannot be read.
    pub fn read_into<T: DeserializeOwned>(&mut self, records: &mut Vec<T>) -> Result<bool, Error> {
        let failed = |error| Error::io("read", &self.path)(error);
        let Some(mut file) = if_found(File::open(&self.path)).map_err(failed)? else { return Ok(false) };
        let metadata = file.metadata().map_err(failed)?;
        let is_replaced = metadata.len() < self.read || metadata.ino() != self.number;
        if is_replaced {
            records.clear();
            (self.read, self.number) = (0, metadata.ino());
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.read)).map_err(failed)?;
        file.take(metadata.len() - self.read).read_to_end(&mut bytes).map_err(failed)?;
        // The last line may be incomplete.
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let lines = bytes[..whole].split(|&byte| byte == b'\n');
        records.extend(lines.filter_map(|line| serde_json::from_slice(line).ok()));
        Ok(is_replaced || whole > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    fn watch(losses: impl Iterator<Item = f64>, targets: u64) -> (Vec<u64>, Option<Rise>) {
        let mut divergence = Divergence::default();
        let found = (1..).zip(losses).filter_map(|(step, loss)| divergence.add(step, loss, targets));
        let found = found.map(|rise| rise.step).collect();
        (found, divergence.rise())
    }

    #[test]
    fn exploding_loss_is_detected_at_once() {
        let exploding = (0..60).map(|step| 9.7 * 2f64.powi(step));
        let (found, rise) = watch(exploding, 640);
        assert_eq!(found, [2]);
        assert!((rise.unwrap().lowest - 9.7).abs() < 1e-9);
    }

    #[test]
    fn noise_is_not_a_rise() {
        let noisy = |step: u64| 9.0 - step as f64 / 500.0 + if step.is_multiple_of(3) { 1.5 } else { -0.7 };
        assert_eq!(watch((0..2000).map(noisy), 20), (vec![], None));
    }

    #[test]
    fn recovered_loss_is_not_a_rise() {
        let spike = |step: u64| if (300..400).contains(&step) { 8.0 } else { 4.0 };
        let (found, rise) = watch((0..600).map(spike), 640);
        assert!(found.len() == 1 && (305..320).contains(&found[0]), "{found:?}");
        assert_eq!(rise, None);
        let stays = |step: u64| if step >= 300 { 8.0 } else { 4.0 };
        assert!(watch((0..600).map(stays), 640).1.is_some());
    }

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
