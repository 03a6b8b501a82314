//! The folder of a training run whose model another crate defines: lock, settings, metrics and checkpoints.
//!
//! [`TrainingRun`] has the guarantees of a pre-training run. `run.json` records every setting that determines the
//! results (`identity`), and a run continues only with equal settings. Checkpoints are committed, `metrics.jsonl` is
//! cut to the checkpoint that the run continues from, and one process at a time writes to the folder.

use std::path::{Path, PathBuf};

use bert_inference::RetentionPolicy;
use bert_inference::checkpoint::{Checkpoint, CheckpointFolder, SkippedSteps, TrainerState, ValidCheckpoint};
use bert_inference::environment::environment_of_run;
use bert_model::Snapshot;
use bert_storage::{Disk, FileSystem, LOCK, OutputLock, StagedFolder};
use burn::module::Module;
use burn::tensor::Device;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Error, nothing_to_resume, output_exists, run_differs};
use crate::optimizer::Optimizer;
use crate::run_dir::identity::{RUN, compare, with_settings};
use crate::run_dir::incomplete_output::is_visible;
use crate::run_dir::metrics_log::MetricsLog;

/// The choice between a run that starts in a new folder and a run that continues in its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The output folder is new or empty.
    No,
    /// The run in the output folder continues, bit for bit as if it had not been stopped.
    Yes,
}

impl From<bool> for Resume {
    fn from(resume: bool) -> Self {
        if resume { Self::Yes } else { Self::No }
    }
}

/// The locked folder of a run with its `run.json`. No other process can open it until this value is dropped.
pub(crate) struct LockedRun<'a> {
    pub(crate) folder: StagedFolder<'a>,
    /// Differences between the present and the original environment that may change bits.
    pub(crate) environment_changes: Vec<String>,
    _lock: OutputLock,
}

impl<'a> LockedRun<'a> {
    /// Starts a run in a new or empty folder or, with `resume`, opens the run in it. `run` is the content of `run.json`
    /// without the environment; its member `identity` is compared. An existing but empty folder is resumed from the
    /// start: a run killed in its first moments leaves one.
    ///
    /// # Errors
    /// Fails as [`check_free`] does, or when the existing run has a different identity.
    pub(crate) fn open(
        files: &'a dyn FileSystem,
        path: &Path,
        resume: bool,
        mut run: Value,
    ) -> Result<Self, Error> {
        let folder = StagedFolder::new(files, path);
        check_free(&folder, resume)?;
        folder.create()?;
        let lock = folder.lock(LOCK)?;
        folder.remove_temporaries()?;
        let mut environment_changes = Vec::new();
        // Check again under the lock: another process may have started and finished a run in the meantime.
        if !folder.has(RUN)? {
            run["environment"] = environment_of_run();
            folder.write_checksummed(RUN, &run)?;
        } else if resume {
            environment_changes = compare(path, &run["identity"], |changed| {
                run_differs(path, &with_settings(changed, &run["config"]))
            })?;
        } else {
            return Err(holds_a_run(path));
        }
        Ok(Self { folder, environment_changes, _lock: lock })
    }
}

/// An open run. No other process can open it until this value is dropped.
pub struct TrainingRun {
    run: LockedRun<'static>,
    identity: Value,
    metrics: MetricsLog,
    /// The checkpoint that the run continues from.
    pub start: Option<ValidCheckpoint>,
    /// Warnings: corrupt checkpoints that were skipped, and changes of the environment that may change bits.
    pub warnings: Vec<String>,
}

impl TrainingRun {
    /// Starts a run in a new or empty folder or, with `resume`, opens the run in it. `run.json` records `identity`,
    /// and, for human readers, `config`.
    ///
    /// # Errors
    /// Fails when the folder has other files, is in use, or has a run and `resume` is off; when the run has a different
    /// identity; with `resume`, when the folder does not exist or all its checkpoints are corrupt.
    pub fn open(
        path: &Path,
        resume: Resume,
        identity: Value,
        config: &impl Serialize,
    ) -> Result<Self, Error> {
        let described = json!({ "identity": identity, "config": config });
        let run = LockedRun::open(&Disk, path, resume == Resume::Yes, described)?;
        let changes = run.environment_changes.iter();
        let mut warnings: Vec<String> =
            changes.map(|change| format!("bits may differ, because {change}")).collect();
        let checkpoints = CheckpointFolder::on(&run.folder);
        let start = checkpoints.newest_good(&mut |error| warnings.push(error.to_string()))?;
        let metrics = MetricsLog::open(&run.folder, "metrics.jsonl", start.as_ref().map(|at| at.state.step))?;
        Ok(Self { run, identity, metrics, start, warnings })
    }

    /// Restores the optimizer of the checkpoint that the run continues from.
    ///
    /// # Errors
    /// Fails when the optimizer's file is corrupt or names an unknown parameter.
    pub fn restore(&self, optimizer: &mut Optimizer, device: &Device) -> Result<(), Error> {
        let Some(start) = &self.start else { return Ok(()) };
        optimizer.restore_from(start, device)
    }

    /// Appends a record to `metrics.jsonl`. It must have the field `step`, the number of finished steps.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn record(&mut self, record: &impl Serialize) -> Result<(), Error> {
        self.metrics.append(record)
    }

    /// Writes a checkpoint after `step` steps with `files` next to the weights, and deletes older checkpoints. Returns
    /// the folder of the new checkpoint.
    ///
    /// # Errors
    /// Fails when a file cannot be written; the older checkpoint is then untouched.
    pub fn save<M: Module>(
        &mut self,
        model: &M,
        optimizer: &Optimizer,
        step: u64,
        files: Vec<(&'static str, Vec<u8>)>,
    ) -> Result<PathBuf, Error> {
        self.metrics.sync()?;
        let state = trainer_state(step, optimizer, self.identity.clone());
        let weights = vec![(bert_model::WEIGHTS, Snapshot::new(model))];
        let checkpoint = Checkpoint { state, weights, optimizer: optimizer.snapshot(), files };
        CheckpointFolder::on(&self.run.folder).write(checkpoint, RetentionPolicy::newest(1))
    }
}

/// Returns the state of a run without skipped steps and without a loader position.
pub fn trainer_state(step: u64, optimizer: &Optimizer, run: Value) -> TrainerState {
    TrainerState {
        step,
        updates: optimizer.updates(),
        fewer_updates: optimizer.fewer_updates(),
        skipped: SkippedSteps::default(),
        loader_position: None,
        run,
    }
}

/// Checks that a run can start in a folder or, with `resume`, continue there. It writes nothing and is fast, so it is
/// called before all other work.
///
/// # Errors
/// Fails when another process has locked the folder, when it has a run and `resume` is off, when it has other files,
/// or, with `resume`, when it does not exist.
pub(crate) fn check_free(folder: &StagedFolder<'_>, resume: bool) -> Result<(), Error> {
    let path = folder.path();
    folder.check_not_in_use()?;
    let has_run = folder.has(RUN)?;
    if resume && !folder.exists()? {
        return Err(nothing_to_resume(path));
    }
    if !has_run && folder.names()?.iter().any(|name| is_visible(name)) {
        let hint = "choose another `.output`";
        return Err(output_exists(path, "other files", hint));
    }
    if has_run && !resume { Err(holds_a_run(path)) } else { Ok(()) }
}

/// Returns the error for a folder with a run that would be overwritten.
fn holds_a_run(path: &Path) -> Error {
    let hint = "continue it with `.resume` or choose another `.output`";
    output_exists(path, "a run", hint)
}
