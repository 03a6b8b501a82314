//! Saves an unfinished fine-tuning on disk, so that `--resume` reproduces an uninterrupted run bit for bit.
//!
//! ```text
//! OUTPUT/.runs/run.json                      settings and digests (identity.rs), with a checksum
//! OUTPUT/.runs/cell-1-seed-2/checkpoints/    the current run: weights, moments, the best state so far
//! OUTPUT/.runs/cell-1-seed-1/finished.json   a finished run: its report and answers, with a checksum
//! OUTPUT/.runs/cell-1-seed-1/best.safetensors  its model, for the best run only
//! ```
//!
//! Sample order and dropout are functions of seed and step and need no saving. The folder is removed when the report is
//! written.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bert_model::{
    Architecture, LoadPolicy, Snapshot, WEIGHTS, load_named_tensors, load_pretrained_weights,
    named_tensors_from_bytes, read_safetensors, to_safetensors_bytes,
};
use bert_storage::checksummed_json::{ChecksumError, read_checksummed};
use bert_storage::{Locate, StagedFolder, digest_bytes};
use burn::module::Module;
use burn::tensor::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::compute::environment::environment;
use crate::error::{Error, FolderProblem};
use crate::finetune::events::FinetuneEvent;
use crate::finetune::objectives::{Answered, Objective};
use crate::finetune::output::report::{EpochReport, RunReport};
use crate::finetune::run::lossless_json::{exact, inexact};
use crate::run_dir::checkpoint::{Checkpoint, CheckpointFolder, SkippedSteps, TrainerState, read_optimizer};
use crate::run_dir::identity::{RUN, compare};
use crate::run_dir::json_file::exists;
use crate::run_dir::retention::RetentionPolicy;
use crate::training::adamw::AdamW;
use crate::training::stop_flag::StopFlag;

const FOLDER: &str = ".runs";
const REMOVED: &str = ".runs-removed";
const FINISHED: &str = "finished.json";
const BEST: &str = "best.safetensors";

/// Minimum time between checkpoints at the ends of epochs; small runs finish before the first.
const APART: Duration = Duration::from_secs(60);

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
    /// Losses of the steps since the last epoch.
    pub(crate) losses: Vec<f64>,
    /// Finished epochs.
    pub(crate) history: Vec<EpochReport>,
    /// Epochs since the best one.
    pub(crate) waited: u64,
    /// Epochs trained at the best state, if there is one.
    pub(crate) best_epoch: Option<f64>,
    /// Whether the loss of the last epoch was far above the loss of a uniform prediction.
    #[serde(default)]
    pub(crate) diverged: bool,
}

/// A finished run on disk.
#[derive(Serialize, Deserialize)]
struct FinishedRun<A> {
    report: RunReport,
    answers: A,
    /// Digest of the run's model.
    model: String,
}

impl<'a> SavedRuns<'a> {
    /// Opens the saved runs in a locked output folder. With `resume`, existing runs are kept; without it, they are
    /// removed if they have the same identity.
    ///
    /// # Errors
    /// [`FolderProblem::TuningDiffers`] when the existing runs have another identity.
    pub(crate) fn open(
        output: StagedFolder<'a>,
        resume: bool,
        identity: &Value,
        keeps_finished: bool,
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<Self, Error> {
        let folder = output.inside(FOLDER);
        let saved = Self { output, keeps_finished };
        let mut told = Vec::new();
        if Self::are_of(&saved.output, identity, &mut |event| told.push(event))? && resume {
            told.into_iter().for_each(tell);
            return Ok(saved);
        }
        saved.remove()?;
        folder.create()?;
        folder.write_checksummed(RUN, &json!({ "identity": identity, "environment": environment() }))?;
        Ok(saved)
    }

    /// Returns whether an output folder has saved runs with this identity.
    ///
    /// # Errors
    /// [`FolderProblem::TuningDiffers`] when the saved runs have another identity.
    pub(crate) fn are_of(
        output: &StagedFolder<'_>,
        identity: &Value,
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<bool, Error> {
        let folder = output.inside(FOLDER);
        if !folder.has(RUN)? {
            return Ok(false);
        }
        let environment_changes = compare(folder.path(), identity).map_err(|error| match error {
            Error::RunDiffers { differences, .. } => {
                FolderProblem::TuningDiffers(differences).located(output.path()).into()
            }
            other => other,
        })?;
        if !environment_changes.is_empty() {
            tell(FinetuneEvent::Warning(format!(
                "this fine-tuning began on another machine or with another program: {}. It continues, but its result \
                 may differ in the last bits",
                environment_changes.join("; ")
            )));
        }
        Ok(true)
    }

    /// Removes the saved runs, when the output is complete or training restarts.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        Ok(self.output.discard(FOLDER, REMOVED)?)
    }

    /// Returns the location of a run.
    pub(crate) fn run(&self, cell: usize, seed: u64) -> SavedRun<'a> {
        let folder = self.output.inside(FOLDER).inside(&format!("cell-{}-seed-{seed}", cell + 1));
        SavedRun { folder, seed, keeps_finished: self.keeps_finished, last: Instant::now() }
    }
}

/// The location of one run.
pub(crate) struct SavedRun<'a> {
    folder: StagedFolder<'a>,
    seed: u64,
    keeps_finished: bool,
    last: Instant,
}

/// A run that had finished before: its report, its answers, and its model if it is the best.
pub(crate) type Before<O> = (RunReport, Answered<O>, Option<<O as Objective>::Model>);

/// The best weights so far, and the epochs trained at that point.
type Best<M> = (M, f64);

impl SavedRun<'_> {
    /// Returns the run's newest checkpoint, or its start: weights, progress and the best state so far, without
    /// autodiff.
    ///
    /// # Errors
    /// When all of its checkpoints are corrupt.
    pub(crate) fn restore<M: Architecture>(
        &self,
        model: M,
        optimizer: &mut AdamW,
        device: &Device,
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<(M, Progress, Option<Best<M>>), Error> {
        let (model, found) = self.restore_from::<M, Progress>(model, optimizer, device, tell)?;
        let Some((path, progress)) = found else { return Ok((model, Progress::default(), None)) };
        let best = progress.best_epoch.map(|epoch| -> Result<_, Error> {
            let tensors = read_safetensors(&path.join(BEST))?;
            Ok((load_named_tensors(model.clone(), tensors, LoadPolicy::Exact)?.0.valid(), epoch))
        });
        let best = best.transpose()?;
        Ok((model, progress, best))
    }

    /// Returns the newest checkpoint's weights, state and folder, if there is one.
    ///
    /// # Errors
    /// When all checkpoints are corrupt.
    pub(crate) fn restore_from<M: Module, P: DeserializeOwned>(
        &self,
        model: M,
        optimizer: &mut AdamW,
        device: &Device,
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<(M, Option<(PathBuf, P)>), Error> {
        let found = CheckpointFolder::on(&self.folder).newest_good(&mut |error| {
            tell(FinetuneEvent::Warning(format!("{error}; an older checkpoint is used instead")));
        })?;
        let Some((path, state)) = found else { return Ok((model, None)) };
        let progress = serde_json::from_value(inexact(state.run)).map_err(|e| Error::corrupt(&path, e))?;
        optimizer.restore(
            state.updates,
            &state.fewer_updates,
            read_optimizer(&path)?,
            &device.clone().inner(),
        )?;
        let (model, _) = load_pretrained_weights(model, &path, LoadPolicy::Exact)?;
        tell(FinetuneEvent::Resumed { seed: self.seed, step: Some(state.step) });
        Ok((model, Some((path, progress))))
    }

    /// Writes a checkpoint if one is due at the end of an epoch or was requested, and stops if that was requested.
    ///
    /// # Errors
    /// [`Error::Stopped`]; otherwise as [`CheckpointFolder::write`].
    pub(crate) fn pause<M: Module>(
        &mut self,
        stop: &StopFlag,
        epoch_ends: bool,
        (step, progress): (u64, &impl Serialize),
        (model, optimizer): (&M, &AdamW),
        best: Option<&M>,
    ) -> Result<(), Error> {
        let (signal, is_due) = (stop.requested(), epoch_ends && self.last.elapsed() >= APART);
        if is_due || signal.is_some() || stop.take_checkpoint_request() {
            let state = TrainerState {
                step,
                updates: optimizer.updates(),
                fewer_updates: optimizer.fewer_updates(),
                skipped: SkippedSteps::default(),
                place: None,
                run: exact(serde_json::to_value(progress).expect("plain data")),
            };
            let mut weights = vec![(WEIGHTS, Snapshot::of(model))];
            weights.extend(best.map(|best| (BEST, Snapshot::of(best))));
            let checkpoint = Checkpoint { state, weights, moments: optimizer.snapshot(), files: vec![] };
            CheckpointFolder::on(&self.folder).write(checkpoint, RetentionPolicy::newest(1))?;
            self.last = Instant::now();
        }
        match signal {
            Some(signal) => Err(Error::Stopped { signal, step }),
            None => Ok(()),
        }
    }

    /// Returns the run if it had finished before, and its model if it is the best; `shape` is a model with the same
    /// shapes.
    ///
    /// # Errors
    /// When a file cannot be read or is corrupt.
    pub(crate) fn finished<O: Objective>(
        &self,
        shape: &O::Model,
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<Option<Before<O>>, Error> {
        let path = self.folder.path_of(FINISHED);
        if !exists(&path)? {
            return Ok(None);
        }
        let json = read_checksummed(&path).map_err(|error| match error {
            ChecksumError::Io(source) => Error::io(&path, source),
            other => Error::corrupt(&path, other),
        })?;
        let json = serde_json::from_slice(&json).map_err(|e| Error::corrupt(&path, e))?;
        let saved: FinishedRun<Answered<O>> =
            serde_json::from_value(inexact(json)).map_err(|e| Error::corrupt(&path, e))?;
        let best = self.folder.path_of(BEST);
        let model = match exists(&best)? {
            false => None,
            true => {
                let bytes = fs::read(&best).map_err(|e| Error::io(&best, e))?;
                if digest_bytes(&bytes) != saved.model {
                    return Err(Error::corrupt(&best, format!("not the file that {FINISHED} describes")));
                }
                let tensors = named_tensors_from_bytes(&bytes, &best)?;
                Some(load_named_tensors(shape.clone(), tensors, LoadPolicy::Exact)?.0.valid())
            }
        };
        tell(FinetuneEvent::Resumed { seed: self.seed, step: None });
        Ok(Some((saved.report, saved.answers, model)))
    }

    /// Saves a finished run, unless it is the only one, and removes its checkpoints.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn finish<O: Objective>(
        &self,
        report: &RunReport,
        answers: &Answered<O>,
        model: &O::Model,
        is_best: bool,
    ) -> Result<(), Error> {
        if !self.keeps_finished {
            return Ok(());
        }
        self.folder.create()?;
        let bytes = to_safetensors_bytes(model);
        if is_best {
            self.folder.write_bytes(BEST, &bytes)?;
        }
        let (report, answers) = (report.clone(), answers.clone());
        let run = FinishedRun { report, answers, model: digest_bytes(&bytes) };
        let run = exact(serde_json::to_value(run).expect("plain data"));
        self.folder.write_checksummed(FINISHED, &run)?;
        self.folder.remove("checkpoints")?;
        Ok(())
    }

    /// Removes the model of a finished run when another run is better.
    ///
    /// # Errors
    /// When the model cannot be removed.
    pub(crate) fn forget_model(&self) -> Result<(), Error> {
        self.folder.remove(BEST)?;
        Ok(())
    }
}
