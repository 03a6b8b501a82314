//! Saves an unfinished fine-tuning on disk, so that `--resume` reproduces an uninterrupted run bit for bit.
//!
//! ```text
//! OUTPUT/.runs/run.json                      settings and digests (fingerprint.rs), with a checksum
//! OUTPUT/.runs/cell-1-seed-2/checkpoints/    the current run: weights, moments, the best state so far
//! OUTPUT/.runs/cell-1-seed-1/finished.json   a finished run: its report and answers, with a checksum
//! OUTPUT/.runs/cell-1-seed-1/best.safetensors  its model, for the best run only; with --keep-seeds for every run
//! ```
//!
//! Sample order and dropout are functions of seed and step and need no saving. The folder is removed when the report is
//! written. `serde_json` can be off by one in the last place when it reads a fraction, so fractions are stored as strings,
//! which the standard library parses exactly.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bert_inference::checkpoint::{Checkpoint, CheckpointFolder, ValidCheckpoint};
use bert_inference::environment::environment_of_run;
use bert_inference::{RetentionPolicy, StopFlag};
use bert_model::{
    Architecture, LoadPolicy, Snapshot, WEIGHTS, load_named_tensors, load_pretrained_weights,
    named_tensors_from_bytes, read_safetensors, to_safetensors_bytes,
};
use bert_storage::checksummed_json::read_checksummed;
use bert_storage::{Class, Error, StagedFolder, digest_bytes, exists};
use bert_training::identity::{RUN, compare, saved};
use bert_training::{corrupt, damaged, output_exists, stopped, trainer_state};
use burn::module::Module;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use crate::data::datasets::Part;
use crate::events::{FinetuneEvent, LiveLog};
use crate::kinds::FinetuneTask;
use crate::run::run_report::{EpochReport, FinishedRun, RunReport};
use crate::run::step::TrainState;

/// Folder of the saved runs in the output folder.
pub const FOLDER: &str = ".runs";
const REMOVED: &str = ".runs-removed";
const FINISHED: &str = "finished.json";
const BEST: &str = "best.safetensors";

/// Minimum time between checkpoints at the ends of epochs; small runs finish before the first.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);

/// The saved runs of an unfinished fine-tuning.
pub(crate) struct SavedRuns<'a> {
    output: StagedFolder<'a>,
    keeps_finished: bool,
}

/// The progress of a run, without weights and moments.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Finished steps.
    pub(crate) step: u64,
    /// The progress on each task.
    pub(crate) tasks: Vec<TaskProgress>,
    /// Scored epochs since the best one.
    pub(crate) epochs_without_improvement: u64,
    /// The epoch of the best state, if there is one.
    pub(crate) best_epoch: Option<f64>,
}

/// The progress on one task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TaskProgress {
    /// Finished steps on the task.
    pub(crate) steps: u64,
    /// Losses of the steps on the task since the last epoch.
    pub(crate) losses: Vec<f64>,
    /// Finished epochs.
    pub(crate) history: Vec<EpochReport>,
    /// Whether the loss of the last epoch was far above the loss of a uniform prediction.
    pub(crate) diverged: bool,
}

/// A finished run on disk.
#[derive(Serialize, Deserialize)]
struct FinishedRunFile<A> {
    report: RunReport,
    answers: A,
    /// Digest of the run's model.
    model: String,
}

/// Returns the identity of the unfinished fine-tuning in an output folder; `None` if there is none.
///
/// # Errors
/// Fails when its file is damaged.
pub(crate) fn saved_identity(output: &Path) -> Result<Option<Value>, Error> {
    let folder = output.join(FOLDER);
    Ok(if exists(&folder.join(RUN))? { Some(saved(&folder, RUN)?["identity"].take()) } else { None })
}

/// Removes the saved runs of an output folder.
pub(crate) fn remove_saved_runs(output: &StagedFolder<'_>) -> Result<(), Error> {
    output.discard(FOLDER, REMOVED)
}

/// The start of a fine-tuning, as its folder records it.
pub(crate) struct RunStart<'a> {
    pub(crate) identity: &'a Value,
    /// The model; the name of a model on the Hub includes its commit.
    pub(crate) checkpoint: &'a Path,
}

impl<'a> SavedRuns<'a> {
    /// Opens the saved runs in a locked output folder. With `resume`, existing runs are kept.
    ///
    /// # Errors
    /// Fails when the existing runs have a different identity, or, without `resume`, when a run has finished or has a
    /// checkpoint.
    pub(crate) fn open(
        output: StagedFolder<'a>,
        resume: bool,
        start: &RunStart<'_>,
        keeps_finished: bool,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<Self, Error> {
        let folder = output.inside(FOLDER);
        let saved = Self { output, keeps_finished };
        let mut warnings = Vec::new();
        if Self::are_of(&saved.output, start.identity, &mut |event| warnings.push(event))? && resume {
            warnings.into_iter().for_each(on_event);
            return Ok(saved);
        }
        if !resume && folder.names()?.iter().any(|name| name.starts_with("cell-")) {
            let hint = "continue it with `.resume`, choose another `.output`, or remove its folder .runs to start again";
            return Err(output_exists(saved.output.path(), "an unfinished fine-tuning", hint));
        }
        saved.remove()?;
        folder.create()?;
        let RunStart { identity, checkpoint } = start;
        let whole =
            json!({ "identity": identity, "checkpoint": checkpoint, "environment": environment_of_run() });
        folder.write_checksummed(RUN, &whole)?;
        Ok(saved)
    }

    /// Returns whether an output folder has saved runs with this identity.
    ///
    /// # Errors
    /// Fails when the saved runs have a different identity.
    pub(crate) fn are_of(
        output: &StagedFolder<'_>,
        identity: &Value,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<bool, Error> {
        let folder = output.inside(FOLDER);
        if !folder.has(RUN)? {
            return Ok(false);
        }
        let environment_changes = compare(folder.path(), identity, |changed| {
            Error::model(format!(
                "this folder has an unfinished fine-tuning with another configuration, other weights or other data: {}. \
                 Finish it with the same flags and `.resume`, or choose another `.output`",
                changed.join("; ")
            ))
            .at(output.path())
        })?;
        if !environment_changes.is_empty() {
            on_event(FinetuneEvent::Warning(format!(
                "this fine-tuning began on another machine or with another program: {}. It continues, but its result \
                 may differ in the last bits",
                environment_changes.join("; ")
            )));
        }
        Ok(true)
    }

    /// Removes the saved runs. Callers do this when the output is complete, and before training restarts.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        remove_saved_runs(&self.output)
    }

    /// Opens the log for `bert watch`.
    pub(crate) fn live_log(&self) -> LiveLog {
        LiveLog::open(&self.output.inside(FOLDER))
    }

    /// Returns the saved run of a grid cell, counted from 0, and a seed.
    pub(crate) fn run(&self, cell: usize, seed: u64) -> SavedRun<'a> {
        let folder = self.output.inside(FOLDER).inside(&format!("cell-{}-seed-{seed}", cell + 1));
        SavedRun { folder, seed, keeps_finished: self.keeps_finished, last_checkpoint: Instant::now() }
    }
}

/// One run in [`FOLDER`], and the time of its last checkpoint.
pub(crate) struct SavedRun<'a> {
    folder: StagedFolder<'a>,
    pub(crate) seed: u64,
    keeps_finished: bool,
    last_checkpoint: Instant,
}

/// A training state and its progress from a checkpoint, if there is one.
pub(crate) struct RestoredState<M> {
    pub(crate) state: TrainState<M>,
    pub(crate) progress: Option<Progress>,
    /// The checkpoint's folder.
    folder: Option<PathBuf>,
}

/// The contents of a checkpoint.
pub(crate) struct RunSnapshot<'a, M, B> {
    pub(crate) progress: &'a Progress,
    pub(crate) state: &'a TrainState<M>,
    /// The best model so far.
    pub(crate) best: Option<&'a B>,
}

impl<M> RestoredState<M> {
    /// Returns the best model of the checkpoint without autodiff; `None` without a checkpoint. `shape` is a model with
    /// the same shapes.
    ///
    /// # Errors
    /// Fails when the file of the model cannot be read, or when its tensors have other names or shapes.
    pub(crate) fn best_model<B: Architecture>(&self, shape: B) -> Result<Option<B>, Error> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let tensors = read_safetensors(&folder.join(BEST))?;
        Ok(Some(load_named_tensors(shape, tensors, LoadPolicy::Exact)?.0.valid()))
    }
}

impl SavedRun<'_> {
    /// Returns the weights, moments and progress of the newest checkpoint, if there is one, else the given state.
    pub(crate) fn restore<M: Module>(
        &self,
        TrainState { model, mut optimizer }: TrainState<M>,
        device: &Device,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<RestoredState<M>, Error> {
        let found = CheckpointFolder::on(&self.folder).newest_good(&mut |error| {
            on_event(FinetuneEvent::Warning(format!("{error}; an older checkpoint is used instead")));
        })?;
        let Some(found) = found else {
            return Ok(RestoredState {
                state: TrainState { model, optimizer },
                progress: None,
                folder: None,
            });
        };
        optimizer.restore_from(&found, &device.clone().inner())?;
        let ValidCheckpoint { path, state } = found;
        let progress = serde_json::from_value(decode(state.run)).map_err(|e| corrupt(&path, e))?;
        let (model, _) = load_pretrained_weights(model, &path, LoadPolicy::Exact)?;
        on_event(FinetuneEvent::Resumed { seed: self.seed, step: Some(state.step) });
        let state = TrainState { model, optimizer };
        Ok(RestoredState { state, progress: Some(progress), folder: Some(path) })
    }

    /// Writes a checkpoint if one is due at the end of an epoch or was requested, and stops if that was requested.
    ///
    /// # Errors
    /// Fails when a stop is requested, or as [`CheckpointFolder::write`] does.
    pub(crate) fn pause<M: Module, B: Module>(
        &mut self,
        stop: &StopFlag,
        epoch_ends: bool,
        snapshot: RunSnapshot<'_, M, B>,
    ) -> Result<(), Error> {
        let RunSnapshot { progress, state: TrainState { model, optimizer }, best } = snapshot;
        let step = progress.step;
        let signal = stop.requested();
        let is_due = epoch_ends && self.last_checkpoint.elapsed() >= CHECKPOINT_INTERVAL;
        if is_due || signal.is_some() || stop.take_checkpoint_request() {
            let run = encode(serde_json::to_value(progress).expect("plain data"));
            let state = trainer_state(step, optimizer, run);
            let mut weights = vec![(WEIGHTS, Snapshot::new(model))];
            weights.extend(best.map(|best| (BEST, Snapshot::new(best))));
            let checkpoint = Checkpoint { state, weights, optimizer: optimizer.snapshot(), files: vec![] };
            CheckpointFolder::on(&self.folder).write(checkpoint, RetentionPolicy::newest(1))?;
            self.last_checkpoint = Instant::now();
        }
        match signal {
            Some(signal) => Err(stopped(signal, step)),
            None => Ok(()),
        }
    }

    /// Returns the run if it had finished before, with its model if that was saved; `shape` is a model with the same
    /// shapes.
    pub(crate) fn finished<T: FinetuneTask>(
        &self,
        shape: &T::Model,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<Option<FinishedRun<T>>, Error> {
        let path = self.folder.path_of(FINISHED);
        if !exists(&path)? {
            return Ok(None);
        }
        let json = read_checksummed(&path).map_err(|error| match error.class() {
            Class::Data => damaged(&path, error.text()),
            _ => error,
        })?;
        let json = serde_json::from_slice(&json).map_err(|e| damaged(&path, e))?;
        let saved: FinishedRunFile<BTreeMap<Part, T::Answers>> =
            serde_json::from_value(decode(json)).map_err(|e| damaged(&path, e))?;
        let best = self.folder.path_of(BEST);
        let mut model = None;
        if exists(&best)? {
            let bytes = fs::read(&best).map_err(Error::io("read", &best))?;
            if digest_bytes(&bytes) != saved.model {
                return Err(damaged(&best, format!("not the file that {FINISHED} describes")));
            }
            let tensors = named_tensors_from_bytes(&bytes, &best)?;
            model = Some(load_named_tensors(shape.clone(), tensors, LoadPolicy::Exact)?.0.valid());
        }
        on_event(FinetuneEvent::Resumed { seed: self.seed, step: None });
        Ok(Some(FinishedRun { report: saved.report, answers: saved.answers, model }))
    }

    /// Saves a finished run and removes its checkpoints; does nothing if it is the only run. With `keeps_model` the
    /// model is saved too, otherwise only its digest.
    pub(crate) fn finish<T: FinetuneTask>(
        &self,
        run: &FinishedRun<T>,
        keeps_model: bool,
    ) -> Result<(), Error> {
        let (true, Some(model)) = (self.keeps_finished, &run.model) else { return Ok(()) };
        self.folder.create()?;
        let bytes = to_safetensors_bytes(model);
        if keeps_model {
            self.folder.write_bytes(BEST, &bytes)?;
        }
        let report = run.report.clone();
        let answers = run.answers.clone();
        let file = FinishedRunFile { report, answers, model: digest_bytes(&bytes) };
        self.folder.write_checksummed(FINISHED, &encode(serde_json::to_value(file).expect("plain data")))?;
        self.folder.remove("checkpoints")?;
        Ok(())
    }

    /// Returns the saved model of a finished run, if there is one; `shape` is a model without autodiff.
    ///
    /// # Errors
    /// Fails when the file of the model cannot be read.
    pub(crate) fn model<M: Architecture>(&self, shape: M) -> Result<Option<M>, Error> {
        if !self.folder.has(BEST)? {
            return Ok(None);
        }
        let tensors = read_safetensors(&self.folder.path_of(BEST))?;
        Ok(Some(load_named_tensors(shape, tensors, LoadPolicy::Exact)?.0))
    }

    /// Removes the saved model of a finished run, because another run is better.
    pub(crate) fn remove_model(&self) -> Result<(), Error> {
        self.folder.remove(BEST)?;
        Ok(())
    }
}

/// Returns the value with every fraction as a string prefixed with `=`, and every string prefixed with `'`.
pub(crate) fn encode(value: Value) -> Value {
    map_leaves(value, &|value| match value {
        Value::Number(number) if number.is_f64() => {
            Value::String(format!("={}", number.as_f64().expect("checked above")))
        }
        Value::String(text) => Value::String(format!("'{text}")),
        other => other,
    })
}

/// Returns the value that [`encode`] turned into this one.
pub(crate) fn decode(value: Value) -> Value {
    map_leaves(value, &|value| match value {
        Value::String(text) => match text.strip_prefix('=') {
            Some(number) => number.parse().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number),
            None => Value::String(text.strip_prefix('\'').unwrap_or(&text).to_string()),
        },
        other => other,
    })
}

/// Returns the value with every number, string, Boolean and null replaced by `leaf`.
fn map_leaves(value: Value, leaf: &dyn Fn(Value) -> Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(|value| map_leaves(value, leaf)).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, map_leaves(value, leaf))).collect(),
        value => leaf(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_numbers_are_decoded_bit_for_bit() {
        let mut bits = 0x3fb9_9999_9999_9999u64;
        let numbers: Vec<f64> = (0..2000)
            .map(|_| {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                f64::from_bits(0x3000_0000_0000_0000 + (bits >> 3))
            })
            .collect();
        let value = json!({ "numbers": numbers, "texts": ["", "=1.5", "'", "a"], "whole": 7, "one": 1.0, "none": null });
        let text = encode(value.clone()).to_string();
        assert_eq!(decode(serde_json::from_str(&text).unwrap()), value);
    }
}
