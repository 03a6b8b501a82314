//! Opens a run, writes its logs and checkpoints, and decides when a checkpoint or an evaluation is due: everything
//! around the training loop.

use bert_model::{BertForPreTraining, Snapshot, WEIGHTS, files_except_weights};
use bert_storage::{FileSystem, Locate, StagedFolder};
use burn::module::Module;

use super::events::{PretrainEvent, PretrainOutcome, StepMetrics};
use super::objective::PretrainingParts;
use super::step_runner::FinishedStep;
use crate::compute::stop_flag::StopFlag;
use crate::data_loader::LoaderPosition;
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::{Error, FolderProblem};
use crate::evaluation::{Evaluation, EvaluationRecord};
use crate::initialization::FreshWeights;
use crate::pretrain::best_and_average::{BEST, SavedModel};
use crate::pretrain::checkpoint_writer::{CheckpointWriter, SavedCheckpoint};
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::run_folder::{RunFolder, held_out, identity};
use crate::pretrain::setup::inputs::RunInputs;
use crate::run_dir::checkpoint::{Checkpoint, SkippedSteps, TrainerState, ValidCheckpoint, read_optimizer};
use crate::run_dir::metrics_log::MetricsLog;
use crate::training::adamw::AdamW;
use crate::training::divergence::Divergence;
use crate::training::snapshot_throttle::SnapshotThrottle;

/// An open run with its model and optimizer.
pub(super) struct OpenRun<'a> {
    pub(super) run: Run<'a>,
    pub(super) model: BertForPreTraining,
    pub(super) optimizer: AdamW,
}

/// A run in progress, without model and optimizer.
pub(super) struct Run<'a> {
    pub(super) inputs: RunInputs<'a>,
    pub(super) stop: StopFlag,
    pub(super) folder: RunFolder<'a>,
    pub(super) files_except_weights: Vec<(&'static str, Vec<u8>)>,
    pub(super) step: u64,
    /// Position at which the data loader of a resumed run starts.
    pub(super) position: Option<LoaderPosition>,
    pub(super) logs: RunLogs,
    /// Whether the weights of `step` must be evaluated before the next step, because a stop skipped the evaluation.
    pub(super) evaluation_pending: bool,
    pub(super) last_evaluation: Option<Evaluation>,
    skipped: SkippedSteps,
    divergence: Divergence,
    last_metrics: Option<StepMetrics>,
    last_saved: Option<SavedCheckpoint>,
}

/// The logs of a run.
pub(super) struct RunLogs {
    metrics: MetricsLog,
    timing: MetricsLog,
    pub(super) evaluations: MetricsLog,
}

impl RunLogs {
    /// Opens the logs of a run that continues after a step. Without a checkpoint the logs start over, and even step 0
    /// is evaluated again.
    fn open(folder: &StagedFolder<'_>, step: Option<u64>) -> Result<Self, Error> {
        let log = |name: &str| MetricsLog::open(folder, name, step);
        let (metrics, evaluations) = (log("metrics.jsonl")?, log("evaluations.jsonl")?);
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
    /// Starts a run or, with `resume`, continues it from its newest valid checkpoint.
    pub(super) fn open(
        files: &'a dyn FileSystem,
        config: &'a PretrainConfig,
        resume: bool,
        fresh: Option<&FreshWeights>,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<OpenRun<'a>, Error> {
        config.validate()?;
        RunFolder::check_free(&StagedFolder::new(files, &config.output), resume)?;
        let inputs = RunInputs::open(config, on_event)?;
        let tokens = config.micro_batch_size() * inputs.manifest().config.max_seq_length;
        let precision = config.precision();
        if let Some(slow) = precision.warning(config.compute.device, inputs.model_config(), tokens) {
            on_event(PretrainEvent::Warning(slow));
        }
        // Load the weights before the run's folder is created, so that unusable weights leave nothing behind. A resumed
        // run usually finds its weights in that folder.
        let initial = (!resume).then(|| inputs.model(None, fresh, stop, on_event)).transpose()?;
        let folder = open_folder(files, &inputs, resume, on_event)?;
        let found = folder.checkpoints().newest_good(&mut |error| {
            on_event(PretrainEvent::Warning(format!("{error}; an older checkpoint is used instead")));
        })?;
        let model = match initial {
            Some(initial) if found.is_none() => initial,
            _ => inputs.model(found.as_ref().map(|found| found.path.as_path()), fresh, stop, on_event)?,
        };
        let mut optimizer = inputs.optimizer(&model);
        if let Some(ValidCheckpoint { path, state }) = &found {
            let (moments, device) = (read_optimizer(path)?, inputs.device.clone().inner());
            optimizer.restore(state.updates, &state.fewer_updates, moments, &device)?;
        }
        folder.checkpoints().remove_leftovers()?;
        if let Some(found) = &found {
            folder.checkpoints().prune(found.state.step, config.retention())?;
        }
        let run = Self::new(inputs, folder, found, stop)?;
        if config.keep_best {
            // Reject damaged figures before the first step, not at the first evaluation.
            run.best().evaluation()?;
        }
        on_event(PretrainEvent::Started {
            step: run.step,
            steps: config.total_steps(),
            parameters: run.inputs.model_config().pretraining_parameter_count(),
            batch_size: config.batch_size,
            memory: run.inputs.memory,
        });
        Ok(OpenRun { run, model, optimizer })
    }

    fn new(
        inputs: RunInputs<'a>,
        folder: RunFolder<'a>,
        found: Option<ValidCheckpoint>,
        stop: &StopFlag,
    ) -> Result<Self, Error> {
        let state = found.as_ref().map(|found| &found.state);
        let logs = RunLogs::open(&folder.folder, state.map(|state| state.step))?;
        let tokenizer = ModelTokenizer::of_data(&inputs.data);
        let vocabulary = tokenizer.files(inputs.model_config().max_position_embeddings);
        let files_except_weights =
            files_except_weights::<BertForPreTraining>(inputs.model_config(), Some(vocabulary))?;
        let mut run = Self {
            files_except_weights,
            stop: stop.clone(),
            folder,
            step: state.map_or(0, |state| state.step),
            position: state.and_then(|state| state.loader_position),
            evaluation_pending: false,
            last_evaluation: None,
            skipped: state.map_or_else(SkippedSteps::default, |state| state.skipped),
            divergence: logs.divergence()?,
            logs,
            last_metrics: None,
            last_saved: found
                .map(|ValidCheckpoint { path, state }| SavedCheckpoint { step: state.step, path }),
            inputs,
        };
        run.evaluation_pending = run.lacks_its_evaluation()?;
        Ok(run)
    }

    pub(super) fn config(&self) -> &'a PretrainConfig {
        self.inputs.config
    }

    /// Returns the folder of the best model.
    pub(super) fn best(&self) -> SavedModel<'a> {
        SavedModel::of(&self.folder.folder, BEST)
    }

    /// Counts a step and logs it. Too many consecutive steps without an update end the run.
    pub(super) fn record(
        &mut self,
        finished: FinishedStep,
        learning_rate: f64,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        let FinishedStep { report, skipped, predictions, timing } = finished;
        self.step = timing.step;
        let parts = PretrainingParts::of(&report);
        let metrics = StepMetrics {
            step: self.step,
            loss: report.loss,
            masked_lm_loss: parts.masked_lm,
            next_sentence_loss: parts.next_sentence,
            learning_rate,
            gradient_norm: report.gradient_norm,
            predictions,
            precision: self.config().precision(),
            skipped,
        };
        self.logs.metrics.append(&metrics)?;
        self.logs.timing.append(&timing)?;
        self.last_metrics = Some(metrics.clone());
        let rise = self.divergence.add(metrics.step, metrics.loss, metrics.predictions);
        on_event(PretrainEvent::Step { metrics: metrics.clone(), timing });
        if let Some(rise) = rise {
            let text = rise.text(self.config().learning_rate, self.config().warmup());
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
        let (max, in_a_row) = (self.config().max_skipped_steps, self.skipped.in_a_row);
        if in_a_row > max {
            return Err(Error::TooManySkippedSteps { step, loss, gradient_norm, skipped: in_a_row, max });
        }
        on_event(PretrainEvent::Warning(format!(
            "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, so the update was skipped \
             ({in_a_row} in a row, maximum {max}; {} in total)",
            self.skipped.all
        )));
        Ok(())
    }

    /// Returns whether a checkpoint is due. While steps are skipped there is nothing new to save, and no valid
    /// checkpoint should be deleted for it.
    pub(super) fn checkpoint_is_due(&self) -> bool {
        let regular = self.step.is_multiple_of(self.config().save_every) && self.skipped.in_a_row == 0;
        regular || self.step == self.config().total_steps()
    }

    pub(super) fn evaluation_is_due(&self) -> bool {
        let every = self.config().eval_every.unwrap_or(self.config().save_every);
        let regular = self.step.is_multiple_of(every) || self.step == self.config().total_steps();
        self.inputs.eval_loader.is_some() && regular
    }

    /// Returns whether an evaluation of the weights of `step` is due and missing from `evaluations.jsonl`.
    fn lacks_its_evaluation(&self) -> Result<bool, Error> {
        if !self.evaluation_is_due() {
            return Ok(false);
        }
        let evaluations: Vec<EvaluationRecord> = self.logs.evaluations.records()?;
        Ok(evaluations.iter().all(|record| record.step != self.step))
    }

    /// Starts to write a checkpoint, after the previous one is written.
    pub(super) fn save<'scope>(
        &mut self,
        model: &BertForPreTraining,
        optimizer: &mut AdamW,
        loader_position: Option<LoaderPosition>,
        writer: &mut CheckpointWriter<'scope, '_>,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error>
    where
        'a: 'scope,
    {
        self.report_saved(writer, true, on_event)?;
        // The records of all steps up to the checkpoint must be on disk before it is.
        self.logs.sync()?;
        let state = TrainerState {
            step: self.step,
            updates: optimizer.updates(),
            fewer_updates: optimizer.fewer_updates(),
            skipped: self.skipped,
            loader_position,
            run: self.folder.identity.clone(),
        };
        let (throttle, [weights, moments]) =
            SnapshotThrottle::over([Snapshot::of(&model.clone().valid()), optimizer.snapshot()]);
        optimizer.throttle_on(throttle);
        let files = self.files_except_weights.clone();
        let (checkpoints, retention) = (self.folder.checkpoints(), self.config().retention());
        writer.start(self.step, move || {
            weights.check_finite()?;
            let weights = vec![(WEIGHTS, weights)];
            checkpoints.write(Checkpoint { state, weights, moments, files }, retention)
        });
        Ok(())
    }

    /// Reports a checkpoint once it is written; with `wait`, blocks until then.
    pub(super) fn report_saved(
        &mut self,
        writer: &mut CheckpointWriter<'_, '_>,
        wait: bool,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        if let Some(saved) = writer.finished(wait)? {
            self.last_saved = Some(saved.clone());
            on_event(PretrainEvent::Saved { step: saved.step, path: saved.path });
        }
        Ok(())
    }

    pub(super) fn finish(
        mut self,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<PretrainOutcome, Error> {
        let average = self.config().average_last.map(|last| self.average(last, on_event)).transpose()?;
        let best = if self.config().keep_best { self.best().evaluation()? } else { None };
        let none = || FolderProblem::NoCheckpoint.located(&self.config().output);
        Ok(PretrainOutcome {
            steps: self.step,
            checkpoint: self.last_saved.as_ref().ok_or_else(none)?.path.clone(),
            skipped_steps: self.skipped.all,
            metrics: self.last_metrics,
            evaluation: self.last_evaluation,
            best,
            average: average.flatten(),
            diverged: self.divergence.rise().map(|rise| rise.step),
        })
    }
}

/// Opens the folder of a run; warns if its held-out data or the environment has changed.
fn open_folder<'a>(
    files: &'a dyn FileSystem,
    inputs: &RunInputs<'a>,
    resume: bool,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<RunFolder<'a>, Error> {
    let config = inputs.config;
    let digest = inputs.start.weights_digest.clone();
    let identity = identity(config, inputs.model_config(), inputs.manifest(), digest);
    let held_out = inputs.eval_loader.as_ref().map(|eval| held_out(eval.manifest(), config.eval_instances));
    let folder = RunFolder::open(files, config, resume, identity, held_out.as_ref())?;
    if !folder.held_out_changes.is_empty() {
        on_event(PretrainEvent::Warning(format!(
            "the held-out data differs from the data of the earlier evaluations: {}. Their results cannot be compared",
            folder.held_out_changes.join("; ")
        )));
    }
    if !folder.environment_changes.is_empty() {
        on_event(PretrainEvent::Warning(format!(
            "this run began on another machine or with another program: {}. It continues, but its result may differ \
             in the last bits",
            folder.environment_changes.join("; ")
        )));
    }
    Ok(folder)
}
