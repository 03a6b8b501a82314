//! Writes, verifies and reads checkpoints: the complete state that a run needs to continue, committed atomically.
//!
//! A checkpoint is a folder:
//!
//! ```text
//! checkpoints/step-00001000/
//!   config.json  model.safetensors  vocab.txt  tokenizer files   what transformers loads
//!   optimizer.safetensors     <state>.<name> of every parameter, as first.<name> of AdamW
//!   trainer_state.json        step, updates, digests of data and vocabulary
//!   COMMITTED.json            written last: blake3 digest and size of every file above, under a seal
//! ```
//!
//! The folder is filled under a temporary name and renamed when it is complete. A checkpoint without its marker, or
//! with a file that does not match its digest, is never used. No random state is saved: dropout and sample order are
//! pure functions of seed and step.
//!
//! Selects the checkpoints to keep.

mod optimizer;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bert_model::Snapshot;
use bert_storage::checksummed_json::read_checksummed;
use bert_storage::{Disk, FileDigest, StagedFolder, digest_file};
pub use optimizer::{OptimizerState, OptimizerValues, read_optimizer, read_optimizer_tensors};
use serde::{Deserialize, Serialize};

use crate::error::{Error, corrupt};

/// File that commits a checkpoint.
pub const MARKER: &str = "COMMITTED.json";
/// File of the run's state.
pub const STATE: &str = "trainer_state.json";
/// File of the optimizer's states.
pub const OPTIMIZER: &str = "optimizer.safetensors";

/// The state of a run at a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerState {
    /// Number of finished steps.
    pub step: u64,
    /// Number of updates of the optimizer.
    pub updates: u64,
    /// Number of updates of each parameter that had fewer than `updates`, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fewer_updates: BTreeMap<String, u64>,
    /// Counts of the steps whose update was skipped because of a non-finite loss or gradient.
    pub skipped: SkippedSteps,
    /// Position of the data loader, if the number of samples alone does not determine it.
    #[serde(rename = "place", default, skip_serializing_if = "Option::is_none")]
    pub loader_position: Option<LoaderPosition>,
    /// The configuration that determines the results, compared when the run is resumed.
    pub run: serde_json::Value,
}

/// Position of a sample, for layouts in which the sample's number alone does not determine the position: with documents
/// on disk, the number of samples in a block is known only after the pairs of the block are generated. A checkpoint
/// stores the position that its run had reached, so a resumed run generates one block instead of counting through all
/// previous blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderPosition {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The block of documents in the epoch, from 0.
    pub block: u64,
    /// The index in the run of the block's first sample.
    pub first_sample: u64,
}

/// A committed checkpoint whose files all match their digests.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidCheckpoint {
    /// The folder of the checkpoint.
    pub path: PathBuf,
    /// The state of the training.
    pub state: TrainerState,
}

/// Counts of the steps whose update was skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkippedSteps {
    /// Number of skipped steps in the whole run.
    pub all: u64,
    /// Number of skipped steps since the last update.
    pub in_a_row: u64,
}

impl SkippedSteps {
    /// Returns the counts after a step, given whether its update was made.
    #[must_use]
    pub fn after(self, updated: bool) -> Self {
        if updated {
            Self { in_a_row: 0, ..self }
        } else {
            Self { all: self.all + 1, in_a_row: self.in_a_row + 1 }
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Committed {
    step: u64,
    files: BTreeMap<String, FileEntry>,
}

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    bytes: u64,
    blake3: String,
}

/// Prefixes of folders that are incomplete or being deleted, which a killed process may leave.
const PARTIAL: &str = ".partial-";
const REMOVED: &str = ".removed-";

/// The checkpoints of one run.
#[derive(Clone, Debug)]
pub struct CheckpointFolder<'a>(StagedFolder<'a>);

/// A complete checkpoint in memory, from one point in time. Training may continue while it is written.
#[derive(Debug)]
pub struct Checkpoint {
    /// State of the run.
    pub state: TrainerState,
    /// Weights by file name.
    pub weights: Vec<(&'static str, Snapshot)>,
    /// The states of the optimizer.
    pub optimizer: Snapshot,
    /// Other files.
    pub files: Vec<(&'static str, Vec<u8>)>,
}

impl Checkpoint {
    /// Returns the size of the weights, the optimizer's states and the other files in bytes, without the state of the
    /// run and the marker.
    fn bytes(&self) -> u64 {
        let weights = self.weights.iter().map(|(_, snapshot)| snapshot.file_bytes());
        let files = self.files.iter().map(|(_, bytes)| bytes.len() as u64);
        weights.sum::<u64>() + files.sum::<u64>() + self.optimizer.file_bytes()
    }
}

impl CheckpointFolder<'static> {
    /// Returns the checkpoints of a run's folder.
    pub fn in_run(run: &Path) -> Self {
        Self::on(&StagedFolder::new(&Disk, run))
    }
}

impl<'a> CheckpointFolder<'a> {
    /// Returns the checkpoints of a run's folder that is being written; see [`CheckpointFolder::in_run`].
    pub fn on(run: &StagedFolder<'a>) -> Self {
        Self(run.inside("checkpoints"))
    }

    /// Returns the steps of all committed checkpoints, oldest first, corrupt ones included; empty if the folder is
    /// missing.
    ///
    /// # Errors
    /// Fails when the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>, Error> {
        let step = |name: &str| name.strip_prefix("step-")?.parse().ok();
        let mut steps = Vec::new();
        for name in self.0.names()? {
            if let Some(step) = step(&name)
                && self.0.inside(&name).has(MARKER)?
            {
                steps.push(step);
            }
        }
        steps.sort_unstable();
        Ok(steps)
    }

    /// Returns the folder of the checkpoint after `step` steps.
    pub fn path(&self, step: u64) -> PathBuf {
        self.0.path_of(&name(step))
    }

    /// Writes and commits a checkpoint. Then deletes the checkpoints that `retention` does not keep, and all later
    /// ones, which are corrupt.
    ///
    /// # Errors
    /// Fails when a file cannot be written; if the disk is full, the error says how many bytes the checkpoint needs.
    /// Committed checkpoints are then untouched, and the partial files are deleted.
    pub fn write(&self, checkpoint: Checkpoint, retention: RetentionPolicy) -> Result<PathBuf, Error> {
        let step = checkpoint.state.step;
        let needed = checkpoint.bytes();
        let target = self.path(step);
        let partial = self.0.inside(&format!("{PARTIAL}{}", name(step)));
        self.remove_leftovers()?;
        partial.create()?;
        if let Err(error) = fill(&partial, checkpoint) {
            // The removal may fail for the same reason; in this case, the next checkpoint deletes the files.
            let _ = partial.remove_all();
            return Err(with_needed_bytes(error, &target, needed));
        }
        // A corrupt checkpoint of the same step is replaced.
        self.discard(step)?;
        self.0.move_into(partial.path(), &name(step))?;
        self.0.sync()?;
        self.prune(step, retention)?;
        // A newer, corrupt checkpoint was skipped when the run was opened; delete it now, because it would otherwise
        // count as the newest.
        let later = self.steps()?.into_iter().filter(|&other| other > step);
        later.into_iter().try_for_each(|step| self.discard(step))?;
        Ok(target)
    }

    /// Deletes the partly written or partly deleted checkpoints that a killed process has left. Call this only with the
    /// run's lock held.
    pub fn remove_leftovers(&self) -> Result<(), Error> {
        for name in self.0.names()? {
            let is_hidden = name.starts_with(PARTIAL) || name.starts_with(REMOVED);
            if is_hidden || (name.starts_with("step-") && !self.0.inside(&name).has(MARKER)?) {
                self.0.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Deletes the checkpoints up to step `newest` that `retention` does not keep. Later checkpoints are corrupt. They
    /// are not counted, because they would displace good ones.
    pub fn prune(&self, newest: u64, retention: RetentionPolicy) -> Result<(), Error> {
        let steps = self.steps()?;
        let counted = steps.partition_point(|&step| step <= newest);
        retention.expired(&steps[..counted]).into_iter().try_for_each(|step| self.discard(step))
    }

    /// Deletes a checkpoint, if it exists.
    fn discard(&self, step: u64) -> Result<(), Error> {
        self.0.discard(&name(step), &format!("{REMOVED}{}", name(step)))
    }

    /// Returns the newest checkpoint whose files all match their digests, and calls `warn` with the error of every
    /// newer checkpoint. Returns `None` if the run has no checkpoints.
    ///
    /// # Errors
    /// Fails when all checkpoints are corrupt, or when the folder cannot be read.
    pub fn newest_good(&self, warn: &mut dyn FnMut(&Error)) -> Result<Option<ValidCheckpoint>, Error> {
        let steps = self.steps()?;
        let mut corrupt = Vec::new();
        for &step in steps.iter().rev() {
            let path = self.path(step);
            match verify(&path) {
                Ok(state) => {
                    corrupt.iter().for_each(warn);
                    return Ok(Some(ValidCheckpoint { path, state }));
                }
                Err(error) => corrupt.push(error),
            }
        }
        let Some(newest) = corrupt.first() else { return Ok(None) };
        let count = steps.len();
        Err(Error::model(format!("all {count} checkpoints are corrupt; the newest: {newest}"))
            .at(self.0.path()))
    }
}

/// Returns the folder name of the checkpoint after `step` steps.
pub(crate) fn name(step: u64) -> String {
    format!("step-{step:08}")
}

/// Writes all files, the marker last.
fn fill(folder: &StagedFolder<'_>, checkpoint: Checkpoint) -> Result<(), Error> {
    let Checkpoint { state, weights, optimizer, mut files } = checkpoint;
    let mut committed = Committed { step: state.step, files: BTreeMap::new() };
    let mut add = |name: &str, written: FileDigest| {
        let entry = FileEntry { bytes: written.bytes, blake3: written.blake3 };
        committed.files.insert(name.to_string(), entry);
    };
    // Write all files before the first sync, so that snapshots can be freed before the disk has finished.
    let mut large = Vec::new();
    for (name, snapshot) in weights.into_iter().chain([(OPTIMIZER, optimizer)]) {
        let mut file = folder.begin(name)?;
        file.add(|out| snapshot.write(out))?;
        large.push((name, file));
    }
    for (name, file) in large {
        add(name, file.commit()?);
    }
    files.push((STATE, serde_json::to_vec_pretty(&state).expect("plain data")));
    for (name, bytes) in files {
        add(name, folder.write_bytes(name, &bytes)?);
    }
    folder.write_checksummed(MARKER, &committed)?;
    Ok(())
}

/// Returns a disk-full error with the size of the whole checkpoint added; returns other errors unchanged.
fn with_needed_bytes(error: Error, target: &Path, needed: u64) -> Error {
    if !bert_storage::is_disk_full(&error) {
        return error;
    }
    let free = bert_storage::free_space(target.parent().unwrap_or(target)).unwrap_or(0);
    let full = Error::failed(format!(
        "the disk is full: the checkpoint needs about {needed} bytes, {free} are free; all committed checkpoints are \
         intact; free space, then continue with `.resume`"
    ))
    .at(target);
    match error.into_cause() {
        Some(cause) => full.because(cause),
        None => full,
    }
}

/// Checks every file of a checkpoint against its marker, and returns the state of the run.
///
/// # Errors
/// Fails when a file cannot be read or does not match its digest; the error names the first such file.
pub fn verify(path: &Path) -> Result<TrainerState, Error> {
    let corrupt = |reason: String| corrupt(path, reason);
    let marker = read_checksummed(&path.join(MARKER)).map_err(|error| {
        let cause = error.cause().map(std::io::Error::to_string);
        corrupt(format!("{MARKER}: {}", cause.as_deref().unwrap_or(error.text())))
    })?;
    let committed: Committed =
        serde_json::from_slice(&marker).map_err(|e| corrupt(format!("{MARKER}: {e}")))?;
    for (name, entry) in &committed.files {
        if Path::new(name).components().count() != 1 || name.contains("..") {
            return Err(corrupt(format!("{MARKER} names a file outside the folder: {name:?}")));
        }
        let file = path.join(name);
        let bytes = fs::metadata(&file).map_err(|e| corrupt(format!("{name}: {e}")))?.len();
        if bytes != entry.bytes {
            return Err(corrupt(format!("{name} has {bytes} bytes, but {} were committed", entry.bytes)));
        }
        let blake3 = digest_file(&file)?;
        if blake3 != entry.blake3 {
            return Err(corrupt(format!(
                "{name} has BLAKE3 digest {blake3}, but {} was committed",
                entry.blake3
            )));
        }
    }
    let state = fs::read(path.join(STATE)).map_err(|e| corrupt(format!("{STATE}: {e}")))?;
    let state: TrainerState = serde_json::from_slice(&state).map_err(|e| corrupt(format!("{STATE}: {e}")))?;
    if state.step != committed.step {
        return Err(corrupt(format!(
            "{STATE} says step {}, but {MARKER} says {}",
            state.step, committed.step
        )));
    }
    Ok(state)
}

/// A policy that selects the checkpoints to keep when a new one is written.
#[derive(Clone, Copy, Debug)]
pub struct RetentionPolicy {
    /// Number of most recent checkpoints to keep; at least one is always kept.
    pub newest: usize,
    /// Distance in steps of the checkpoints that are averaged.
    pub averaged_interval: u64,
    /// Number of most recent checkpoints at multiples of `averaged_interval` to keep.
    pub averaged_count: usize,
}

impl RetentionPolicy {
    /// Returns the policy that keeps only the `newest` most recent checkpoints.
    pub fn newest(newest: usize) -> Self {
        Self { newest, averaged_interval: 1, averaged_count: 0 }
    }

    /// Returns the checkpoint steps to delete; `steps` must be sorted.
    pub(crate) fn expired(self, steps: &[u64]) -> Vec<u64> {
        let old = &steps[..steps.len().saturating_sub(self.newest.max(1))];
        let regular: Vec<u64> =
            steps.iter().copied().filter(|step| step.is_multiple_of(self.averaged_interval)).collect();
        let averaged = &regular[regular.len().saturating_sub(self.averaged_count)..];
        old.iter().copied().filter(|step| !averaged.contains(step)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_resets_consecutive_skipped_steps() {
        let skipped = |all, in_a_row| SkippedSteps { all, in_a_row };
        let steps =
            [(false, skipped(1, 1)), (false, skipped(2, 2)), (true, skipped(2, 0)), (false, skipped(3, 1))];
        let mut now = SkippedSteps::default();
        for (updated, after) in steps {
            now = now.after(updated);
            assert_eq!(now, after);
        }
    }

    #[test]
    fn marker_with_a_foreign_path_is_corrupt() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../x", "..", "a/b", "/x", "a/../b"] {
            let marker = serde_json::json!({ "step": 1, "files": { name: { "bytes": 0, "blake3": "" } } });
            fs::write(folder.path().join(MARKER), bert_storage::checksummed_json::checksummed_json(&marker))
                .unwrap();
            let message = verify(folder.path()).unwrap_err().to_string();
            assert!(message.contains("names a file outside the folder"), "{name}: {message}");
        }
    }

    #[test]
    fn averaged_checkpoints_are_kept() {
        let steps = [10, 20, 30, 34, 40, 41, 42];
        assert_eq!(RetentionPolicy::newest(2).expired(&steps), [10, 20, 30, 34, 40]);
        assert_eq!(
            RetentionPolicy { newest: 2, averaged_interval: 10, averaged_count: 3 }.expired(&steps),
            [10, 34]
        );
        assert_eq!(
            RetentionPolicy { newest: 0, averaged_interval: 10, averaged_count: 9 }.expired(&steps),
            [34, 41]
        );
        assert!(RetentionPolicy::newest(9).expired(&steps).is_empty());
    }
}
