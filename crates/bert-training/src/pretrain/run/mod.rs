//! Writes the logs and checkpoints of a run, and decides when a checkpoint or an evaluation is due: everything around
//! the training loop.
//!
//! Writes a checkpoint on a background thread while training continues, one at a time.

mod evaluation;
pub(super) mod open;

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread::{Scope, ScopedJoinHandle};

use bert_inference::checkpoint::{
    Checkpoint, CheckpointFolder, LoaderPosition, SkippedSteps, TrainerState, ValidCheckpoint,
};
use bert_inference::{Error, StopFlag};
use bert_model::{BertForPreTraining, Snapshot, WEIGHTS, files_except_weights};
use bert_storage::{Class, StagedFolder};
use burn::module::Module;
use serde::{Deserialize, Serialize};

use crate::data_loader::data_tokenizer;
use crate::evaluation::{Evaluation, EvaluationRecord};
use crate::group::Group;
use crate::optimizer::Optimizer;
use crate::optimizer::snapshot_throttle::SnapshotThrottle;
use crate::pretrain::best_and_average::{BEST, SavedModel};
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::events::{PretrainEvent, PretrainOutcome, StepMetrics};
use crate::pretrain::run_folder::RunFolder;
use crate::pretrain::setup::inputs::RunInputs;
use crate::pretrain::step_runner::FinishedStep;
use crate::run_dir::metrics_log::{Divergence, MetricsLog};

/// A run in progress, without model and optimizer.
pub(crate) struct Run<'a> {
    pub(crate) inputs: RunInputs<'a>,
    pub(crate) group: &'a mut Group,
    pub(crate) stop: StopFlag,
    /// The run's folder; `None` except on rank 0.
    pub(crate) files: Option<RunFiles<'a>>,
    pub(crate) step: u64,
    /// Position at which the data loader of a resumed run starts.
    pub(crate) position: Option<LoaderPosition>,
    /// Whether the weights of `step` must be evaluated before the next step: they are the initial weights, or a stop
    /// skipped their evaluation.
    pub(crate) evaluation_pending: bool,
    pub(crate) last_evaluation: Option<Evaluation>,
    skipped: SkippedSteps,
    divergence: Divergence,
    last_metrics: Option<StepMetrics>,
}

/// The point at which a run continues.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ResumePoint {
    /// Number of finished steps.
    pub(crate) step: u64,
    pub(crate) skipped: SkippedSteps,
    /// Position of the data loader.
    pub(crate) position: Option<LoaderPosition>,
    /// Whether the weights must be evaluated before the next step.
    pub(crate) evaluation_pending: bool,
}

/// The folder of a run: logs and checkpoints.
pub(crate) struct RunFiles<'a> {
    pub(crate) folder: RunFolder<'a>,
    pub(crate) logs: RunLogs,
    pub(crate) files_except_weights: Vec<(&'static str, Vec<u8>)>,
    last_saved: Option<SavedCheckpoint>,
}

impl<'a> RunFiles<'a> {
    /// Opens the logs of a run that continues after a step, from a checkpoint.
    pub(crate) fn open(
        folder: RunFolder<'a>,
        inputs: &RunInputs<'_>,
        step: Option<u64>,
        found: Option<&ValidCheckpoint>,
    ) -> Result<Self, Error> {
        let logs = RunLogs::open(&folder.run.folder, step)?;
        let tokenizer = data_tokenizer(inputs.data());
        // A resumed run need not find its --init-checkpoint any more.
        let base = found.map(|found| &found.path).or(inputs.start.folder.as_ref());
        let description = inputs.description(base.map(PathBuf::as_path))?;
        let vocabulary = description.tokenizer_files(&tokenizer, inputs.model_config());
        let files_except_weights =
            files_except_weights::<BertForPreTraining>(inputs.model_config(), Some(vocabulary))?;
        let saved =
            |found: &ValidCheckpoint| SavedCheckpoint { step: found.state.step, path: found.path.clone() };
        Ok(Self { folder, logs, files_except_weights, last_saved: found.map(saved) })
    }

    /// Returns the folder of the best model.
    pub(crate) fn best(&self) -> SavedModel<'a> {
        SavedModel::new(&self.folder.run.folder, BEST)
    }

    /// Returns whether `evaluations.jsonl` has no evaluation of the weights of `step`.
    pub(crate) fn lacks_evaluation(&self, step: u64) -> Result<bool, Error> {
        let evaluations: Vec<EvaluationRecord> = self.logs.evaluations.records()?;
        Ok(evaluations.iter().all(|record| record.step != step))
    }
}

/// The logs of a run.
pub(crate) struct RunLogs {
    metrics: MetricsLog,
    timing: MetricsLog,
    pub(crate) evaluations: MetricsLog,
}

impl RunLogs {
    /// Opens the logs of a run that continues after a step. Without a checkpoint the logs start over, and even step 0
    /// is evaluated again.
    fn open(folder: &StagedFolder<'_>, step: Option<u64>) -> Result<Self, Error> {
        let log = |name: &str| MetricsLog::open(folder, name, step);
        let metrics = log("metrics.jsonl")?;
        let evaluations = log("evaluations.jsonl")?;
        Ok(Self { metrics, timing: log("timing.jsonl")?, evaluations })
    }

    /// Rebuilds the divergence detector from the logged losses.
    fn divergence(&self) -> Result<Divergence, Error> {
        let mut divergence = Divergence::default();
        for step in self.metrics.records::<StepMetrics>()? {
            divergence.add(step.step, step.loss, step.predictions);
        }
        Ok(divergence)
    }

    fn sync(&mut self) -> Result<(), Error> {
        [&mut self.metrics, &mut self.timing, &mut self.evaluations]
            .into_iter()
            .try_for_each(MetricsLog::sync)
    }
}

impl<'a> Run<'a> {
    /// Creates a run that continues at a point.
    pub(crate) fn new(
        inputs: RunInputs<'a>,
        group: &'a mut Group,
        files: Option<RunFiles<'a>>,
        point: ResumePoint,
        stop: &StopFlag,
    ) -> Result<Self, Error> {
        let divergence = files.as_ref().map(|files| files.logs.divergence()).transpose();
        Ok(Self {
            divergence: group.agree(divergence)?.unwrap_or_default(),
            inputs,
            group,
            stop: stop.clone(),
            files,
            step: point.step,
            position: point.position,
            evaluation_pending: point.evaluation_pending,
            last_evaluation: None,
            skipped: point.skipped,
            last_metrics: None,
        })
    }

    pub(crate) fn config(&self) -> &'a PretrainConfig {
        self.inputs.config
    }

    /// Counts a step and logs it. Too many consecutive steps without an update end the run.
    pub(crate) fn record(
        &mut self,
        finished: FinishedStep,
        learning_rate: f64,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        let FinishedStep { report, skipped, predictions, timing } = finished;
        self.step = timing.step;
        let &[masked_lm_loss, next_sentence_loss] = report.parts.as_slice() else {
            panic!("not a step of pre-training")
        };
        let metrics = StepMetrics {
            step: self.step,
            loss: report.loss,
            masked_lm_loss,
            next_sentence_loss,
            learning_rate,
            gradient_norm: report.gradient_norm,
            predictions,
            precision: self.config().precision(),
            skipped,
        };
        if let Some(RunFiles { logs, .. }) = &mut self.files {
            logs.metrics.append(&metrics)?;
            logs.timing.append(&timing)?;
        }
        self.last_metrics = Some(metrics.clone());
        let rise = self.divergence.add(metrics.step, metrics.loss, metrics.predictions);
        on_event(PretrainEvent::Step { metrics: metrics.clone(), timing });
        if let Some(rise) = rise {
            let text = rise.text(self.config().peak_learning_rate(), self.config().warmup());
            on_event(PretrainEvent::Warning(text));
        }
        self.check_skipped(&metrics, on_event)
    }

    /// Counts consecutive steps without an update.
    fn check_skipped(
        &mut self,
        metrics: &StepMetrics,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        self.skipped = self.skipped.after(!metrics.skipped);
        if !metrics.skipped {
            return Ok(());
        }
        let &StepMetrics { step, loss, gradient_norm, .. } = metrics;
        let max = self.config().max_skipped_steps;
        let in_a_row = self.skipped.in_a_row;
        if in_a_row > max {
            return Err(Error::new(
                Class::Numerical,
                format!(
                    "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, like the {} steps before \
                     it (`.max_skipped_steps` {max}); use a lower `.learning_rate` or more warm-up; the last \
                     checkpoint is intact",
                    in_a_row - 1
                ),
            ));
        }
        on_event(PretrainEvent::Warning(format!(
            "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, so the update was skipped \
             ({in_a_row} in a row, maximum {max}; {} in total)",
            self.skipped.all
        )));
        Ok(())
    }

    /// Returns whether a checkpoint is due. While steps are skipped, the weights do not change, and a new checkpoint
    /// would displace an older valid one.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let regular = self.step.is_multiple_of(self.config().save_every) && self.skipped.in_a_row == 0;
        regular || self.step == self.config().total_steps()
    }

    pub(crate) fn evaluation_is_due(&self) -> bool {
        self.inputs.evaluation_is_due(self.step)
    }

    /// Starts to write a checkpoint, after the previous one is written.
    ///
    /// # Errors
    /// Fails when a rank is lost.
    pub(crate) fn save<'scope>(
        &mut self,
        model: &BertForPreTraining,
        optimizer: &mut Optimizer,
        loader_position: Option<LoaderPosition>,
        writer: &mut CheckpointWriter<'scope, '_>,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error>
    where
        'a: 'scope,
    {
        let Some(states) = self.group.gather_states(optimizer)? else { return Ok(()) };
        let started = self
            .report_saved(writer, true, on_event)
            .and_then(|()| self.start_writing(model, optimizer, states, loader_position, writer));
        self.group.hold(started)
    }

    /// Starts to write a checkpoint with the optimizer's states of all ranks. Only rank 0 calls this function.
    fn start_writing<'scope>(
        &mut self,
        model: &BertForPreTraining,
        optimizer: &mut Optimizer,
        states: Snapshot,
        loader_position: Option<LoaderPosition>,
        writer: &mut CheckpointWriter<'scope, '_>,
    ) -> Result<(), Error>
    where
        'a: 'scope,
    {
        let retention = self.config().retention();
        let files = self.files.as_mut().expect("rank 0 has the run's folder");
        // The records of all steps up to the checkpoint must be on disk before the checkpoint is.
        files.logs.sync()?;
        let state = TrainerState {
            step: self.step,
            updates: optimizer.updates(),
            fewer_updates: optimizer.fewer_updates(),
            skipped: self.skipped,
            loader_position,
            run: files.folder.identity.clone(),
        };
        let (throttle, [weights, states]) =
            SnapshotThrottle::over([Snapshot::new(&model.clone().valid()), states]);
        optimizer.throttle_on(throttle);
        let checkpoints = files.folder.checkpoints();
        let files = files.files_except_weights.clone();
        writer.start(self.step, move || {
            weights.check_finite()?;
            let weights = vec![(WEIGHTS, weights)];
            checkpoints.write(Checkpoint { state, weights, optimizer: states, files }, retention)
        });
        Ok(())
    }

    /// Reports a checkpoint once it is written; with `wait`, blocks until then.
    pub(crate) fn report_saved(
        &mut self,
        writer: &mut CheckpointWriter<'_, '_>,
        wait: bool,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        if let (Some(saved), Some(files)) = (writer.finished(wait)?, &mut self.files) {
            files.last_saved = Some(saved.clone());
            on_event(PretrainEvent::Saved { step: saved.step, path: saved.path });
        }
        Ok(())
    }

    /// Ends the run after its last step.
    pub(crate) fn finish(
        mut self,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<PretrainOutcome, Error> {
        self.group.agree(Ok(()))?;
        let average = self.config().average_last.map(|last| self.average(last, on_event)).transpose()?;
        let figures = self.final_figures();
        let (checkpoint, best) = self.group.agree(figures)?;
        Ok(PretrainOutcome {
            steps: self.step,
            checkpoint,
            skipped_steps: self.skipped.all,
            metrics: self.last_metrics,
            evaluation: self.last_evaluation,
            best,
            average: average.flatten(),
            diverged: self.divergence.rise().map(|rise| rise.step),
        })
    }

    /// Returns the last checkpoint and the scores of the best model, which only rank 0 reads.
    fn final_figures(&self) -> Result<(PathBuf, Option<EvaluationRecord>), Error> {
        let Some(files) = &self.files else {
            return Ok((CheckpointFolder::in_run(&self.config().output).path(self.step), None));
        };
        let best = if self.config().keep_best { files.best().evaluation()? } else { None };
        let none = || {
            Error::model(
                "no checkpoint here (looked for model.safetensors and checkpoints/step-*/COMMITTED.json)",
            )
            .at(&self.config().output)
        };
        Ok((files.last_saved.as_ref().ok_or_else(none)?.path.clone(), best))
    }
}

type Written = Result<PathBuf, Error>;

/// A committed checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct SavedCheckpoint {
    /// Number of finished steps.
    pub(crate) step: u64,
    /// The folder of the checkpoint.
    pub(crate) path: PathBuf,
}

/// The checkpoint that is being written, if any.
pub(crate) struct CheckpointWriter<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    writing: Option<(u64, ScopedJoinHandle<'scope, Written>)>,
}

impl<'scope, 'env> CheckpointWriter<'scope, 'env> {
    /// Creates the writer; its threads end with the scope.
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        Self { scope, writing: None }
    }

    /// Starts to write the checkpoint after a step. The previous one must have been taken by [`Self::finished`].
    pub(crate) fn start(&mut self, step: u64, write: impl FnOnce() -> Written + Send + 'scope) {
        assert!(self.writing.is_none(), "one at a time");
        self.writing = Some((step, self.scope.spawn(write)));
    }

    /// Returns the checkpoint once, when it has been written; `None` before and after. With `wait`, blocks
    /// until it has been written.
    pub(crate) fn finished(&mut self, wait: bool) -> Result<Option<SavedCheckpoint>, Error> {
        let Some((step, thread)) = self.writing.take_if(|(_, thread)| wait || thread.is_finished()) else {
            return Ok(None);
        };
        let path = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(Some(SavedCheckpoint { step, path }))
    }
}
