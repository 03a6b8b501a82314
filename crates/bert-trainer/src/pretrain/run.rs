//! Opens a run, writes its logs and checkpoints, and evaluates it: everything around the training loop.

use std::path::{Path, PathBuf};

use bert_data::{DataSet, Nsp};
use bert_model::{
    Architecture, BertConfig, BertForPreTraining, LoadPolicy, Snapshot, WEIGHTS, files_except_weights,
    load_pretrained_weights, named_tensors_to_bytes,
};
use bert_storage::{FileSystem, Locate, StagedFolder};
use burn::module::Module;
use burn::tensor::Device;

use super::estimate::check_memory;
use super::events::{PretrainEvent, PretrainOutcome, StepMetrics, StepTiming};
use crate::data_loader::{DataLoader, LoaderPosition};
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::{Error, FolderProblem};
use crate::evaluation::{Evaluation, EvaluationRecord, evaluate_unless_stopped};
use crate::initialization::FreshWeights;
use crate::pretrain::best_and_average::{AVERAGE, BEST, SavedModel, average_last};
use crate::pretrain::checkpoint_writer::CheckpointWriter;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::initial_model::{initial_model, model_config};
use crate::pretrain::run_folder::{RunFolder, held_out, identity};
use crate::run_dir::checkpoint::{Checkpoint, SkippedSteps, TrainerState, read_optimizer};
use crate::run_dir::metrics_log::MetricsLog;
use crate::training::adamw::AdamW;
use crate::training::divergence::Divergence;
use crate::training::snapshot_throttle::SnapshotThrottle;
use crate::training::step::StepReport;
use crate::training::stop_flag::StopFlag;

/// A run in progress, without model and optimizer.
pub(super) struct Run<'a> {
    pub(super) config: &'a PretrainConfig,
    data: DataSet,
    stop: StopFlag,
    folder: RunFolder<'a>,
    model_config: BertConfig,
    files_except_weights: Vec<(&'static str, Vec<u8>)>,
    pub(super) device: Device,
    /// Whether the next-sentence labels are meaningful.
    pub(super) next_sentence: bool,
    pub(super) step: u64,
    skipped: SkippedSteps,
    /// Position at which the data loader of a resumed run starts.
    place: Option<LoaderPosition>,
    metrics: MetricsLog,
    timing: MetricsLog,
    evaluations: MetricsLog,
    eval_loader: Option<DataLoader>,
    /// Whether the weights of `step` must be evaluated before the next step, because a stop skipped the evaluation.
    evaluation_pending: bool,
    divergence: Divergence,
    last_metrics: Option<StepMetrics>,
    last_evaluation: Option<Evaluation>,
    last_saved: Option<(u64, PathBuf)>,
}

impl<'a> Run<'a> {
    pub(super) fn open(
        files: &'a dyn FileSystem,
        config: &'a PretrainConfig,
        resume: bool,
        fresh: Option<&FreshWeights>,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(Self, BertForPreTraining, AdamW), Error> {
        config.validate()?;
        RunFolder::check_free(&StagedFolder::new(files, &config.output), resume)?;
        let Opened { device, data, loader, eval_loader, model_config, start, digest, memory } =
            Opened::new(config, on_event)?;
        let tokens = config.micro_batch_size() * loader.manifest().config.max_seq_length;
        if let Some(slow) = config.precision().warning(config.device, &model_config, tokens) {
            on_event(PretrainEvent::Warning(slow));
        }
        let identity = identity(config, &model_config, loader.manifest(), digest);
        // Load the weights before the run's folder is created, so that unusable weights leave nothing behind. A resumed
        // run usually finds its weights in that folder.
        let begin = |start: Option<&Path>, on_event: &mut dyn FnMut(PretrainEvent)| {
            initial_model(config, (&data, &model_config), (start, fresh), &device, stop, on_event)
        };
        let initial = (!resume).then(|| begin(start.as_deref(), on_event)).transpose()?;
        let held_out = eval_loader.as_ref().map(|eval| held_out(eval.manifest(), config.eval_instances));
        let folder = RunFolder::open(files, config, resume, identity, held_out.as_ref())?;
        if !folder.held_out_changes.is_empty() {
            on_event(PretrainEvent::Warning(format!(
                "the held-out data differs from the data of the earlier evaluations: {}. Their results cannot be \
                 compared",
                folder.held_out_changes.join("; ")
            )));
        }
        if !folder.environment_changes.is_empty() {
            on_event(PretrainEvent::Warning(format!(
                "this run began on another machine or with another program: {}. It continues, but its result may \
                 differ in the last bits",
                folder.environment_changes.join("; ")
            )));
        }

        let found = folder.checkpoints().newest_good(&mut |error| {
            on_event(PretrainEvent::Warning(format!("{error}; an older checkpoint is used instead")));
        })?;
        let start = found.as_ref().map(|(path, _)| path.as_path()).or(start.as_deref());
        let model = match initial {
            Some(initial) if found.is_none() => initial,
            _ => begin(start, on_event)?,
        };
        let mut optimizer = AdamW::new(config.optimizer(), &model).with_compute(model_config.compute);
        let (mut step, mut skipped, mut place) = (0, SkippedSteps::default(), None);
        if let Some((path, state)) = &found {
            (step, skipped, place) = (state.step, state.skipped, state.place);
            let moments = read_optimizer(path)?;
            optimizer.restore(state.updates, &state.fewer_updates, moments, &device.clone().inner())?;
        }
        folder.checkpoints().remove_leftovers()?;
        if let Some((_, state)) = &found {
            folder.checkpoints().prune(state.step, config.keep())?;
        }
        // Without a checkpoint the run and its logs start over: even step 0 is evaluated again.
        let kept = found.as_ref().map(|(_, state)| state.step);
        let log = |name: &str| MetricsLog::open(&folder.folder, name, kept);
        let text = ModelTokenizer::of_data(&data);
        let vocabulary = text.files(model_config.max_position_embeddings);
        let files_except_weights =
            files_except_weights::<BertForPreTraining>(&model_config, Some(vocabulary))?;
        let (metrics, evaluations) = (log("metrics.jsonl")?, log("evaluations.jsonl")?);
        let mut run = Self {
            divergence: divergence_of(&metrics.records()?),
            metrics,
            timing: log("timing.jsonl")?,
            evaluations,
            last_saved: found.map(|(path, state)| (state.step, path)),
            next_sentence: loader.manifest().config.nsp != Nsp::Off,
            files_except_weights,
            config,
            stop: stop.clone(),
            data,
            folder,
            model_config,
            device,
            step,
            skipped,
            place,
            eval_loader,
            evaluation_pending: false,
            last_metrics: None,
            last_evaluation: None,
        };
        run.evaluation_pending = run.lacks_its_evaluation()?;
        if config.keep_best {
            // Reject damaged figures before the first step, not at the first evaluation.
            SavedModel::of(&run.folder.folder, BEST).evaluation()?;
        }
        let parameters = run.model_config.pretraining_parameter_count();
        let steps = config.total_steps();
        let batch_size = config.batch_size;
        on_event(PretrainEvent::Started { step, steps, parameters, batch_size, memory });
        Ok((run, model, optimizer))
    }

    pub(super) fn loader(&self) -> Result<DataLoader, Error> {
        let loader = DataLoader::new(self.data.clone(), self.config.seed)?;
        let loader = loader.with_length_buckets(self.config.length_buckets, self.config.batch_size);
        Ok(loader.starting_at(self.place))
    }

    pub(super) fn log(
        &mut self,
        metrics: StepMetrics,
        timing: StepTiming,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        self.metrics.append(&metrics)?;
        self.timing.append(&timing)?;
        self.last_metrics = Some(metrics.clone());
        let rise = self.divergence.add(metrics.step, metrics.loss, metrics.predictions);
        on_event(PretrainEvent::Step { metrics, timing });
        if let Some(rise) = rise {
            let text = rise.text(self.config.learning_rate, self.config.warmup());
            on_event(PretrainEvent::Warning(text));
        }
        Ok(())
    }

    /// Returns whether a checkpoint is due. While steps are skipped there is nothing new to save, and no valid
    /// checkpoint should be deleted for it.
    pub(super) fn checkpoint_is_due(&self) -> bool {
        let regular = self.step.is_multiple_of(self.config.save_every) && self.skipped.in_a_row == 0;
        regular || self.step == self.config.total_steps()
    }

    pub(super) fn evaluation_is_due(&self) -> bool {
        let every = self.config.eval_every.unwrap_or(self.config.save_every);
        let regular = self.step.is_multiple_of(every) || self.step == self.config.total_steps();
        self.eval_loader.is_some() && regular
    }

    /// Returns whether an evaluation of the weights of `step` is due and missing from `evaluations.jsonl`.
    fn lacks_its_evaluation(&self) -> Result<bool, Error> {
        if !self.evaluation_is_due() {
            return Ok(false);
        }
        let evaluations: Vec<EvaluationRecord> = self.evaluations.records()?;
        Ok(evaluations.iter().all(|record| record.step != self.step))
    }

    /// Runs the evaluation that is missing, if any: of the initial weights, or one that a stop skipped.
    ///
    /// # Errors
    /// Same as [`Run::evaluate`].
    pub(super) fn evaluate_if_pending(
        &mut self,
        model: &BertForPreTraining,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        if self.evaluation_pending { self.evaluate(model, on_event) } else { Ok(()) }
    }

    /// Evaluates the weights of `step`, and saves them if they are the best so far.
    ///
    /// # Errors
    /// [`Error::Stopped`] when a stop is requested; nothing is recorded then, and a resumed run evaluates them.
    pub(super) fn evaluate(
        &mut self,
        model: &BertForPreTraining,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        let model = model.clone().valid();
        let Some(evaluation) = self.held_out(&model)? else { return Ok(()) };
        let record = EvaluationRecord { step: self.step, evaluation };
        self.evaluations.append(&record)?;
        if self.config.keep_best && self.step > 0 {
            let best = SavedModel::of(&self.folder.folder, BEST);
            if best.is_worse_than(&record)? {
                best.write(|out| Snapshot::of(&model).write(out), &self.files_except_weights)?;
                best.note(&record)?;
            }
        }
        self.last_evaluation = Some(record.evaluation.clone());
        on_event(PretrainEvent::Evaluated { step: self.step, evaluation: record.evaluation });
        Ok(())
    }

    /// Returns the figures of a model on the held-out data, if any.
    fn held_out(&mut self, model: &BertForPreTraining) -> Result<Option<Evaluation>, Error> {
        let Some(loader) = &mut self.eval_loader else { return Ok(None) };
        let (limit, device) = (self.config.eval_instances, self.device.clone().inner());
        // A batch size that fits into the memory of a training step.
        let size = self.config.micro_batch_size();
        match evaluate_unless_stopped(model, loader, size, limit, &device, &self.stop)? {
            Some(evaluation) if self.next_sentence => Ok(Some(evaluation)),
            Some(evaluation) => Ok(Some(evaluation.without_next_sentence())),
            None => {
                let signal = self.stop.requested().unwrap_or_default();
                Err(Error::Stopped { signal, step: self.step })
            }
        }
    }

    /// Writes the average of the last checkpoints' weights, and evaluates it.
    fn average(
        &mut self,
        last: usize,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Option<Evaluation>, Error> {
        let mut warn = |warning: String| on_event(PretrainEvent::Warning(warning));
        let checkpoints = self.folder.checkpoints();
        let (steps, mean) = average_last(&checkpoints, last, self.config.save_every, self.step, &mut warn)?;
        let beside = SavedModel::of(&self.folder.folder, AVERAGE);
        let bytes = named_tensors_to_bytes(&mean);
        beside.write(|out| out.write_all(&bytes), &self.files_except_weights)?;
        let device = self.device.clone().inner();
        let model = BertForPreTraining::new(&self.model_config, self.config.seed, &device);
        let (model, _) = load_pretrained_weights(model, beside.path(), LoadPolicy::Exact)?;
        let path = beside.path().to_path_buf();
        let evaluation = self.held_out(&model)?;
        if let Some(evaluation) = evaluation.clone() {
            beside.note(&EvaluationRecord { step: self.step, evaluation })?;
        }
        on_event(PretrainEvent::Averaged { steps, path, evaluation: evaluation.clone() });
        Ok(evaluation)
    }

    /// Starts to write a checkpoint, after the previous one is written.
    pub(super) fn save<'scope>(
        &mut self,
        model: &BertForPreTraining,
        optimizer: &mut AdamW,
        place: Option<LoaderPosition>,
        background: &mut CheckpointWriter<'scope, '_>,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error>
    where
        'a: 'scope,
    {
        self.note_saved(background, true, on_event)?;
        // The records of all steps up to the checkpoint must be on disk before it is.
        for log in [&mut self.metrics, &mut self.timing, &mut self.evaluations] {
            log.sync()?;
        }
        let state = TrainerState {
            step: self.step,
            updates: optimizer.updates(),
            fewer_updates: optimizer.fewer_updates(),
            skipped: self.skipped,
            place,
            run: self.folder.identity.clone(),
        };
        let (held, [weights, moments]) =
            SnapshotThrottle::by([Snapshot::of(&model.clone().valid()), optimizer.snapshot()]);
        optimizer.wait_for(held);
        let files = self.files_except_weights.clone();
        let (checkpoints, keep) = (self.folder.checkpoints(), self.config.keep());
        background.start(self.step, move || {
            weights.check_finite()?;
            checkpoints.write(Checkpoint { state, weights: vec![(WEIGHTS, weights)], moments, files }, keep)
        });
        Ok(())
    }

    /// Reports a checkpoint once it is written; with `wait`, blocks until then.
    pub(super) fn note_saved(
        &mut self,
        background: &mut CheckpointWriter<'_, '_>,
        wait: bool,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        if let Some((step, path)) = background.finished(wait)? {
            self.last_saved = Some((step, path.clone()));
            on_event(PretrainEvent::Saved { step, path });
        }
        Ok(())
    }

    /// Counts consecutive steps without an update; too many of them end the run.
    pub(super) fn check_skipped(
        &mut self,
        report: &StepReport,
        skipped: bool,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        self.skipped = self.skipped.after(!skipped);
        if !skipped {
            return Ok(());
        }
        let (step, most, in_a_row) = (self.step, self.config.max_skipped_steps, self.skipped.in_a_row);
        let StepReport { loss, gradient_norm, .. } = *report;
        if in_a_row > most {
            return Err(Error::TooManySkippedSteps { step, loss, gradient_norm, skipped: in_a_row, most });
        }
        on_event(PretrainEvent::Warning(format!(
            "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, so the update was skipped \
             ({in_a_row} in a row, maximum {most}; {} in total)",
            self.skipped.all
        )));
        Ok(())
    }

    pub(super) fn finish(mut self, on_event: &mut dyn FnMut(PretrainEvent)) -> Result<PretrainOutcome, Error> {
        let average = self.config.average_last.map(|last| self.average(last, on_event)).transpose()?;
        let best = match self.config.keep_best {
            true => SavedModel::of(&self.folder.folder, BEST).evaluation()?,
            false => None,
        };
        let none = || FolderProblem::NoCheckpoint.located(&self.config.output);
        let (_, checkpoint) = self.last_saved.ok_or_else(none)?;
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
}

/// The inputs of a run, opened and checked for consistency. No text is counted and no weights are created yet.
pub(super) struct Opened {
    /// With autodiff.
    pub(super) device: Device,
    pub(super) data: DataSet,
    pub(super) loader: DataLoader,
    pub(super) eval_loader: Option<DataLoader>,
    pub(super) model_config: BertConfig,
    /// Folder of the initial weights.
    pub(super) start: Option<PathBuf>,
    /// Digest of these weights.
    pub(super) digest: Option<String>,
    /// Estimated memory of a step in bytes, if available.
    pub(super) memory: Option<u64>,
}

impl Opened {
    /// Opens the device, the data and the model's configuration.
    ///
    /// # Errors
    /// When one of them cannot be opened or does not match the others; [`Error::NotEnoughMemory`].
    pub(super) fn new(config: &PretrainConfig, on_event: &mut dyn FnMut(PretrainEvent)) -> Result<Self, Error> {
        let device = config.device.open()?.autodiff();
        let data = config.open_data(&config.data)?;
        let loader = DataLoader::new(data.clone(), config.seed)?;
        let open = |path: &PathBuf| DataLoader::new(config.open_data(path)?, config.seed);
        let eval_loader = config.eval_data.as_ref().map(open).transpose()?;
        let (model_config, start, digest) = model_config(config, &loader, on_event)?;
        if let Some(eval) = &eval_loader {
            eval.check_fits(&model_config, Some(&ModelTokenizer::of_data(&data)))?;
        }
        let memory = check_memory(config, &model_config, loader.manifest(), on_event)?;
        Ok(Self { device, data, loader, eval_loader, model_config, start, digest, memory })
    }
}

/// Rebuilds the divergence detector from a run's logged losses.
fn divergence_of(metrics: &[StepMetrics]) -> Divergence {
    let mut divergence = Divergence::default();
    for step in metrics {
        divergence.add(step.step, step.loss, step.predictions);
    }
    divergence
}
