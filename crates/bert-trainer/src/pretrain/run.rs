//! Does what surrounds the loop: opens a run, writes its logs and checkpoints, and evaluates.

use std::path::{Path, PathBuf};

use bert_data::{DataSet, Nsp};
use bert_model::{
    Architecture, BertConfig, BertForPreTraining, LoadPolicy, Snapshot, WEIGHTS, files_beside_weights,
    load_pretrained_weights, named_tensors_to_bytes,
};
use bert_storage::{FileSystem, Locate};
use burn::module::Module;
use burn::tensor::Device;

use super::background::Background;
use super::beside::{AVERAGE, BEST, ModelBeside, average_last};
use super::events::{PretrainEvent, PretrainOutcome, StepMetrics, StepTiming};
use crate::checkpoint::{Checkpoint, SkippedSteps, TrainerState, read_optimizer, resolve_model_folder};
use crate::config::PretrainConfig;
use crate::data_loader::{DataLoader, Place};
use crate::error::{Error, FolderProblem};
use crate::evaluation::{Evaluation, EvaluationRecord, evaluate};
use crate::held::Held;
use crate::initialization::{FreshWeights, InitializationChoice, named_model};
use crate::metrics_log::MetricsLog;
use crate::optimizer::AdamW;
use crate::pretrained_heads::{Heads, Pretrained, load_pretraining};
use crate::run_folder::{RunFolder, identity};
use crate::text::Text;
use crate::train_step::StepReport;

/// A run in progress, apart from model and optimizer.
pub(super) struct Run<'a> {
    pub(super) config: &'a PretrainConfig,
    data: DataSet,
    folder: RunFolder<'a>,
    model_config: BertConfig,
    files_beside_weights: Vec<(&'static str, Vec<u8>)>,
    pub(super) device: Device,
    /// Whether the next-sentence labels mean anything.
    pub(super) next_sentence: bool,
    pub(super) step: u64,
    skipped: SkippedSteps,
    /// Where the data loader of a resumed run begins.
    place: Option<Place>,
    metrics: MetricsLog,
    timing: MetricsLog,
    evaluations: MetricsLog,
    eval_loader: Option<DataLoader>,
    last_metrics: Option<StepMetrics>,
    last_evaluation: Option<Evaluation>,
    last_saved: Option<(u64, PathBuf)>,
}

impl<'a> Run<'a> {
    pub(super) fn open(
        files: &'a dyn FileSystem,
        config: &'a PretrainConfig,
        resume: bool,
        tell: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(Self, BertForPreTraining, AdamW), Error> {
        config.validate()?;
        let device = config.device.open()?.autodiff();
        let data = config.open_data(&config.data)?;
        let loader = DataLoader::new(data.clone(), config.seed)?;
        let open = |path: &PathBuf| DataLoader::new(config.open_data(path)?, config.seed);
        let eval_loader = config.eval_data.as_ref().map(open).transpose()?;
        let (model_config, start, digest) = model_config(config, &loader, tell)?;
        if let Some(eval) = &eval_loader {
            eval.check_fits(&model_config, Some(&Text::of_data(&data)))?;
        }
        let tokens = config.micro_batch_size() * loader.manifest().config.max_seq_length;
        if let Some(slow) = config.precision().warning(config.device, &model_config, tokens) {
            tell(PretrainEvent::Warning(slow));
        }
        let identity = identity(config, &model_config, loader.manifest(), digest);
        // Before the run's folder is made: weights that cannot be used leave nothing behind. A resumed run finds its
        // weights in that folder, as a rule.
        let initial =
            (!resume).then(|| initial_model(config, &data, &model_config, start.as_deref(), &device, tell));
        let initial = initial.transpose()?;
        let folder = RunFolder::open(files, config, resume, identity)?;
        if !folder.elsewhere.is_empty() {
            tell(PretrainEvent::Warning(format!(
                "this run began on another computer or program: {}. It goes on, but its bits may differ from those of a \
                 run that was never moved",
                folder.elsewhere.join("; ")
            )));
        }

        let found = folder.checkpoints().newest_good(&mut |error| {
            tell(PretrainEvent::Warning(format!("{error}; an older checkpoint is used instead")));
        })?;
        let start = found.as_ref().map(|(path, _)| path.as_path()).or(start.as_deref());
        let model = match initial {
            Some(initial) if found.is_none() => initial,
            _ => initial_model(config, &data, &model_config, start, &device, tell)?,
        };
        let mut optimizer = AdamW::new(config.optimizer(), &model).computing(model_config.compute);
        let (mut step, mut skipped, mut place) = (0, SkippedSteps::default(), None);
        if let Some((path, state)) = &found {
            (step, skipped, place) = (state.step, state.skipped, state.place);
            optimizer.restore(state.updates, read_optimizer(path)?, &device.clone().inner())?;
        }
        folder.checkpoints().remove_leftovers()?;
        if let Some((_, state)) = &found {
            folder.checkpoints().prune(state.step, config.keep())?;
        }
        // Without a checkpoint the run starts anew, and so do its logs: even step 0 is evaluated again.
        let kept = found.as_ref().map(|(_, state)| state.step);
        let log = |name: &str| MetricsLog::open(&folder.folder, name, kept);
        let text = Text::of_data(&data);
        let vocabulary = text.files(model_config.max_position_embeddings);
        let files_beside_weights =
            files_beside_weights::<BertForPreTraining>(&model_config, Some(vocabulary))?;
        let run = Self {
            metrics: log("metrics.jsonl")?,
            timing: log("timing.jsonl")?,
            evaluations: log("evaluations.jsonl")?,
            last_saved: found.map(|(path, state)| (state.step, path)),
            next_sentence: loader.manifest().config.nsp != Nsp::Off,
            files_beside_weights,
            config,
            data,
            folder,
            model_config,
            device,
            step,
            skipped,
            place,
            eval_loader,
            last_metrics: None,
            last_evaluation: None,
        };
        let parameters = run.model_config.pretraining_parameter_count();
        tell(PretrainEvent::Started { step, steps: config.steps, parameters, batch_size: config.batch_size });
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
        tell: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        self.metrics.append(&metrics)?;
        self.timing.append(&timing)?;
        self.last_metrics = Some(metrics.clone());
        tell(PretrainEvent::Step { metrics, timing });
        Ok(())
    }

    /// While steps are skipped nothing new is there to be saved, and no good checkpoint shall give way to it.
    pub(super) fn checkpoint_is_due(&self) -> bool {
        let regular = self.step.is_multiple_of(self.config.save_every) && self.skipped.in_a_row == 0;
        regular || self.step == self.config.steps
    }

    pub(super) fn evaluation_is_due(&self) -> bool {
        let every = self.config.eval_every.unwrap_or(self.config.save_every);
        self.eval_loader.is_some() && (self.step.is_multiple_of(every) || self.step == self.config.steps)
    }

    pub(super) fn evaluate(
        &mut self,
        model: &BertForPreTraining,
        tell: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        let model = model.clone().valid();
        let Some(evaluation) = self.held_out(&model)? else { return Ok(()) };
        let record = EvaluationRecord { step: self.step, evaluation };
        self.evaluations.append(&record)?;
        if self.config.keep_best && self.step > 0 {
            let best = ModelBeside::of(&self.folder.folder, BEST);
            if best.is_worse_than(&record) {
                best.write(|out| Snapshot::of(&model).write(out), &self.files_beside_weights)?;
                best.note(&record)?;
            }
        }
        self.last_evaluation = Some(record.evaluation.clone());
        tell(PretrainEvent::Evaluated { step: self.step, evaluation: record.evaluation });
        Ok(())
    }

    /// The figures of a model on the held-out data, if there is any.
    fn held_out(&mut self, model: &BertForPreTraining) -> Result<Option<Evaluation>, Error> {
        let Some(loader) = &mut self.eval_loader else { return Ok(None) };
        let (limit, device) = (self.config.eval_instances, self.device.clone().inner());
        // What a training step has memory for.
        let size = self.config.micro_batch_size();
        evaluate(model, loader, size, limit, &device).map(Some)
    }

    /// Writes the mean of the last checkpoints' weights, and evaluates it.
    fn average(
        &mut self,
        last: usize,
        tell: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Option<Evaluation>, Error> {
        let mut warn = |warning: String| tell(PretrainEvent::Warning(warning));
        let checkpoints = self.folder.checkpoints();
        let (steps, mean) = average_last(&checkpoints, last, self.config.save_every, self.step, &mut warn)?;
        let beside = ModelBeside::of(&self.folder.folder, AVERAGE);
        let bytes = named_tensors_to_bytes(&mean);
        beside.write(|out| out.write_all(&bytes), &self.files_beside_weights)?;
        let device = self.device.clone().inner();
        let model = BertForPreTraining::new(&self.model_config, self.config.seed, &device);
        let (model, _) = load_pretrained_weights(model, beside.path(), LoadPolicy::Exact)?;
        let path = beside.path().to_path_buf();
        let evaluation = self.held_out(&model)?;
        if let Some(evaluation) = evaluation.clone() {
            beside.note(&EvaluationRecord { step: self.step, evaluation })?;
        }
        tell(PretrainEvent::Averaged { steps, path, evaluation: evaluation.clone() });
        Ok(evaluation)
    }

    /// Begins to write a checkpoint, when the one before is written.
    pub(super) fn save<'scope>(
        &mut self,
        model: &BertForPreTraining,
        optimizer: &mut AdamW,
        place: Option<Place>,
        background: &mut Background<'scope, '_>,
        tell: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error>
    where
        'a: 'scope,
    {
        self.note_saved(background, true, tell)?;
        // The records of all steps that the checkpoint holds must be on disk before it is.
        for log in [&mut self.metrics, &mut self.timing, &mut self.evaluations] {
            log.sync()?;
        }
        let state = TrainerState {
            step: self.step,
            updates: optimizer.updates(),
            skipped: self.skipped,
            place,
            run: self.folder.identity.clone(),
        };
        let (held, [weights, moments]) =
            Held::by([Snapshot::of(&model.clone().valid()), optimizer.snapshot()]);
        optimizer.wait_for(held);
        let files = self.files_beside_weights.clone();
        let (checkpoints, keep) = (self.folder.checkpoints(), self.config.keep());
        background.start(self.step, move || {
            weights.check_finite()?;
            checkpoints.write(Checkpoint { state, weights: vec![(WEIGHTS, weights)], moments, files }, keep)
        });
        Ok(())
    }

    /// Tells of a checkpoint that is written; with `wait` when it is.
    pub(super) fn note_saved(
        &mut self,
        background: &mut Background<'_, '_>,
        wait: bool,
        tell: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        if let Some((step, path)) = background.finished(wait)? {
            self.last_saved = Some((step, path.clone()));
            tell(PretrainEvent::Saved { step, path });
        }
        Ok(())
    }

    /// Counts the steps without an update; too many in a row end the run.
    pub(super) fn check_skipped(
        &mut self,
        report: &StepReport,
        skipped: bool,
        tell: &mut dyn FnMut(PretrainEvent),
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
        tell(PretrainEvent::Warning(format!(
            "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, the update was skipped \
             ({in_a_row} in a row, at most {most}; {} in all)",
            self.skipped.all
        )));
        Ok(())
    }

    pub(super) fn finish(mut self, tell: &mut dyn FnMut(PretrainEvent)) -> Result<PretrainOutcome, Error> {
        let average = self.config.average_last.map(|last| self.average(last, tell)).transpose()?;
        let best = self.config.keep_best.then(|| ModelBeside::of(&self.folder.folder, BEST).evaluation());
        let none = || FolderProblem::NoCheckpoint.at(&self.config.output);
        let (_, checkpoint) = self.last_saved.ok_or_else(none)?;
        Ok(PretrainOutcome {
            steps: self.step,
            checkpoint,
            skipped_steps: self.skipped.all,
            metrics: self.last_metrics,
            evaluation: self.last_evaluation,
            best: best.flatten(),
            average: average.flatten(),
        })
    }
}

/// The weights that a run begins or goes on with: those in the folder `start`, or fresh ones.
pub(super) fn initial_model(
    config: &PretrainConfig,
    data: &DataSet,
    model: &BertConfig,
    start: Option<&Path>,
    device: &Device,
    tell: &mut dyn FnMut(PretrainEvent),
) -> Result<BertForPreTraining, Error> {
    if let Some(path) = start {
        let heads = match (config.fresh_heads, data.manifest().config.nsp) {
            (true, _) => Heads::None,
            (false, Nsp::Off) => Heads::MaskedLm,
            (false, _) => Heads::Both,
        };
        let hint = "--fresh-heads draws at random what is missing; pooler and next-sentence head are not needed where \
                    --data was made with --nsp off";
        let Pretrained { model, fresh } = load_pretraining(model, path, heads, hint, config.seed, device)?;
        if !fresh.is_empty() {
            tell(PretrainEvent::Warning(format!("not in the checkpoint, so drawn at random: {fresh:?}")));
        }
        return Ok(model);
    }
    let choice = config.initialization().unwrap_or_default();
    if choice == InitializationChoice::Counts {
        tell(PretrainEvent::Counting);
    }
    let fresh = FreshWeights::new(choice, data, model, config.seed)?;
    Ok(BertForPreTraining::initialized(model, fresh.initialization(), config.seed, device)?)
}

/// The model's configuration, which fits the data, and folder and digest of the weights it starts from, if any.
pub(super) fn model_config(
    config: &PretrainConfig,
    loader: &DataLoader,
    tell: &mut dyn FnMut(PretrainEvent),
) -> Result<(BertConfig, Option<PathBuf>, Option<String>), Error> {
    let (mut model, start, digest) = match &config.init_checkpoint {
        Some(path) => {
            let mut warn = |error: &Error| tell(PretrainEvent::Warning(error.to_string()));
            let folder = resolve_model_folder(path, &mut warn)?;
            let model = BertConfig::read(folder.join("config.json"))?;
            let weights = folder.join(WEIGHTS);
            let digest = if weights.exists() { bert_storage::digest_file(&weights)? } else { String::new() };
            (model, Some(folder), Some(digest))
        }
        None => {
            let name = config.model.as_deref().unwrap_or_default();
            let mut note = |note: String| tell(PretrainEvent::Warning(note));
            (named_model(name, loader.manifest().vocabulary.size, &mut note)?, None, None)
        }
    };
    model.compute = config.precision().with(config.kernels);
    let text_of_start = start.as_deref().map(Text::find).transpose()?.flatten();
    loader.check_fits(&model, text_of_start.as_ref())?;
    Ok((model, start, digest))
}
