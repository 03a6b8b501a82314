//! Pre-training: the loop, and what is around it.
//!
//! In: a [`PretrainConfig`]. Out: a run folder with checkpoints and `metrics.jsonl`. Ports
//! `run_pretraining.py` (masked LM + next sentence), with two differences that are stated here: the
//! masked-LM loss is divided by the number of targets in the whole global batch, and the gradient of
//! the tied word embeddings is one dense tensor in the global norm.

use std::path::{Path, PathBuf};
use std::time::Instant;

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, LoadPolicy, LossNormalizer, Mode, Preset,
    load_pretrained_weights, save_pretrained,
};
use burn::module::Module;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{TrainerState, read_optimizer, resolve_model_folder};
use crate::config::PretrainConfig;
use crate::data_loader::{DataLoader, Prefetcher, PretrainingBatch};
use crate::error::Error;
use crate::evaluation::{Evaluation, evaluate};
use crate::metrics_log::MetricsLog;
use crate::optimizer::AdamW;
use crate::run_folder::{RunFolder, identity};
use crate::stop::StopFlag;
use crate::text::Text;
use crate::train_step::{MicroBatchLoss, train_step};

/// What happened in one step, as in `metrics.jsonl`: repeatable values only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepMetrics {
    /// Number of the step, the first is 1.
    pub step: u64,
    /// masked_lm_loss + next_sentence_loss.
    pub loss: f64,
    /// Mean negative log-likelihood of the masked tokens, in nats.
    pub masked_lm_loss: f64,
    /// Mean cross-entropy of the next-sentence labels, in nats.
    pub next_sentence_loss: f64,
    /// The learning rate of the step's update.
    pub learning_rate: f64,
    /// Norm of all gradients together before clipping.
    pub gradient_norm: f64,
    /// Real masked-LM targets in the global batch.
    pub predictions: u64,
}

/// How long a step took, as in `timing.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepTiming {
    /// Number of the step.
    pub step: u64,
    /// Seconds for the whole step.
    pub seconds: f64,
    /// Seconds of them waiting for the data loader.
    pub waiting: f64,
}

#[derive(Serialize)]
struct EvaluationRecord<'a> {
    step: u64,
    #[serde(flatten)]
    evaluation: &'a Evaluation,
}

/// What the loop tells its caller.
#[derive(Clone, Debug)]
pub enum PretrainEvent {
    /// The run starts, or goes on after this many steps.
    Started {
        /// Finished steps.
        step: u64,
        /// Steps in all.
        steps: u64,
        /// Parameters of the model with both heads.
        parameters: usize,
        /// Sequences in a global batch.
        batch_size: usize,
    },
    /// A step is done.
    Step {
        /// What it did.
        metrics: StepMetrics,
        /// How long it took.
        timing: StepTiming,
    },
    /// An evaluation is done.
    Evaluated {
        /// After this many steps.
        step: u64,
        /// The figures.
        evaluation: Evaluation,
    },
    /// A checkpoint is committed.
    Saved {
        /// After this many steps.
        step: u64,
        /// Its folder.
        path: PathBuf,
    },
    /// Something the user should know, in words.
    Warning(String),
}

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
pub struct PretrainOutcome {
    /// Finished steps.
    pub steps: u64,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
    /// The last step's figures.
    pub metrics: Option<StepMetrics>,
    /// The last evaluation.
    pub evaluation: Option<Evaluation>,
}

/// Runs or continues a pre-training run; the loop at the end of this function is all of it.
///
/// # Errors
/// See [`Error`]; [`Error::Stopped`] after a clean stop with a checkpoint.
pub fn pretrain(
    config: &PretrainConfig,
    resume: bool,
    stop: &StopFlag,
    tell: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    let (mut run, mut model, mut optimizer) = Run::open(config, resume, tell)?;
    let mut batches = Prefetcher::start(run.loader()?, run.step..config.steps, config.batch_size);
    let schedule = config.schedule();
    if run.step == 0 {
        run.evaluate(&model, tell)?;
    }

    while run.step < config.steps {
        let started = Instant::now();
        let batch = batches.next_batch()?;
        let waiting = started.elapsed().as_secs_f64();

        let learning_rate = schedule.learning_rate(run.step);
        let micro_batches = batch.split(config.gradient_accumulation_steps);
        let loss = pretraining_objective(&batch, &run.device);
        let address = (config.seed, run.step);
        let (updated, report) =
            train_step(model, &mut optimizer, &micro_batches, loss, learning_rate, address);
        model = updated;
        let report = report.map_err(|failure| run.not_finite(&failure.report))?;

        run.step += 1;
        let predictions = batch.num_predictions() as u64;
        let metrics = StepMetrics {
            step: run.step,
            loss: report.loss,
            masked_lm_loss: report.parts[0],
            next_sentence_loss: report.parts[1],
            learning_rate,
            gradient_norm: report.gradient_norm,
            predictions,
        };
        let timing = StepTiming { step: run.step, seconds: started.elapsed().as_secs_f64(), waiting };
        run.log(metrics, timing, tell)?;
        if run.evaluation_is_due() {
            run.evaluate(&model, tell)?;
        }
        if run.checkpoint_is_due() || stop.requested().is_some() || stop.take_checkpoint_request() {
            run.save(&model, &optimizer, tell)?;
        }
        if let Some(signal) = stop.requested().filter(|_| run.step < config.steps) {
            return Err(Error::Stopped { signal, step: run.step });
        }
    }
    run.finish()
}

/// The loss of a micro-batch as its share of `global`'s: sums divided by the global batch's targets.
fn pretraining_objective(
    global: &PretrainingBatch,
    device: &Device,
) -> impl Fn(&BertForPreTraining, &PretrainingBatch, Mode) -> MicroBatchLoss {
    let normalizer = LossNormalizer {
        masked_lm: global.num_predictions() as f64,
        next_sentence: global.batch_size as f64,
    };
    let device = device.clone();
    move |model, batch, mode| {
        let loss = model.loss(batch.input(&device), batch.targets(&device), normalizer, mode);
        MicroBatchLoss { total: loss.total, parts: vec![loss.masked_lm, loss.next_sentence] }
    }
}

/// A run in progress, apart from model and optimizer.
struct Run<'a> {
    config: &'a PretrainConfig,
    folder: RunFolder,
    model_config: BertConfig,
    text: Text,
    device: Device,
    step: u64,
    metrics: MetricsLog,
    timing: MetricsLog,
    evaluations: MetricsLog,
    eval_loader: Option<DataLoader>,
    last_metrics: Option<StepMetrics>,
    last_evaluation: Option<(u64, Evaluation)>,
    last_saved: Option<(u64, PathBuf)>,
}

impl<'a> Run<'a> {
    fn open(
        config: &'a PretrainConfig,
        resume: bool,
        tell: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(Self, BertForPreTraining, AdamW), Error> {
        config.validate()?;
        let device = config.device.open()?.autodiff();
        let loader = DataLoader::open(&config.data, config.seed)?;
        let eval_loader =
            config.eval_data.as_ref().map(|path| DataLoader::open(path, config.seed)).transpose()?;
        let (model_config, start) = model_config(config, &loader, tell)?;
        let vocabulary = config.data.join("vocab.txt");
        let words_of_start = start.as_ref().map(|(path, _)| path.join("vocab.txt"));
        loader.check_fits(&model_config, words_of_start.as_deref())?;
        if let Some(eval) = &eval_loader {
            eval.check_fits(&model_config, Some(&vocabulary))?;
        }
        let identity = identity(
            config,
            &model_config,
            loader.manifest(),
            start.as_ref().map(|(_, digest)| digest.clone()),
        );
        let mut model = BertForPreTraining::new(&model_config, config.seed, &device);
        if let Some((path, _)) = &start {
            // Exact: a head that is not in the checkpoint is an error, never silently random. And before
            // the run's folder is made: weights that cannot be used leave nothing behind.
            (model, _) = load_pretrained_weights(model, path, LoadPolicy::Exact)?;
        }
        let folder = RunFolder::open(config, resume, identity)?;

        let found = folder.checkpoints().newest_good(&mut |error| {
            tell(PretrainEvent::Warning(format!("{error}; an older checkpoint is used instead")));
        })?;
        if let Some((path, _)) = &found {
            (model, _) = load_pretrained_weights(model, path, LoadPolicy::Exact)?;
        }
        let mut optimizer = AdamW::new(config.optimizer(), &model);
        let mut step = 0;
        if let Some((path, state)) = &found {
            step = state.step;
            optimizer.restore(state.updates, read_optimizer(path)?, &device.clone().inner())?;
        }
        // Without a checkpoint the run starts anew, and so do its logs: even step 0 is evaluated again.
        let kept = found.as_ref().map(|(_, state)| state.step);
        let log = |name: &str| MetricsLog::open(&folder.path().join(name), kept);
        let run = Self {
            metrics: log("metrics.jsonl")?,
            timing: log("timing.jsonl")?,
            evaluations: log("evaluations.jsonl")?,
            last_saved: found.map(|(path, state)| (state.step, path)),
            text: Text::of_data(&config.data, loader.manifest())?,
            config,
            folder,
            model_config,
            device,
            step,
            eval_loader,
            last_metrics: None,
            last_evaluation: None,
        };
        let parameters = run.model_config.pretraining_parameter_count();
        tell(PretrainEvent::Started { step, steps: config.steps, parameters, batch_size: config.batch_size });
        Ok((run, model, optimizer))
    }

    fn loader(&self) -> Result<DataLoader, Error> {
        DataLoader::open(&self.config.data, self.config.seed)
    }

    fn log(
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

    fn checkpoint_is_due(&self) -> bool {
        self.step.is_multiple_of(self.config.save_every) || self.step == self.config.steps
    }

    fn evaluation_is_due(&self) -> bool {
        let every = self.config.eval_every.unwrap_or(self.config.save_every);
        self.eval_loader.is_some() && (self.step.is_multiple_of(every) || self.step == self.config.steps)
    }

    fn evaluate(
        &mut self,
        model: &BertForPreTraining,
        tell: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        let Some(loader) = &mut self.eval_loader else { return Ok(()) };
        let device = self.device.clone().inner();
        let limit = self.config.eval_instances;
        let evaluation = evaluate(&model.clone().valid(), loader, self.config.batch_size, limit, &device)?;
        self.evaluations.append(&EvaluationRecord { step: self.step, evaluation: &evaluation })?;
        self.last_evaluation = Some((self.step, evaluation.clone()));
        tell(PretrainEvent::Evaluated { step: self.step, evaluation });
        Ok(())
    }

    fn save(
        &mut self,
        model: &BertForPreTraining,
        optimizer: &AdamW,
        tell: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        // The records of all steps that the checkpoint holds must be on disk before it is.
        for log in [&self.metrics, &self.timing, &self.evaluations] {
            log.sync()?;
        }
        let state = TrainerState {
            step: self.step,
            updates: optimizer.updates(),
            run: self.folder.identity().clone(),
        };
        let vocabulary = self.text.files(self.model_config.max_position_embeddings);
        let path =
            self.folder.checkpoints().write(&state, optimizer, self.config.keep_checkpoints, |writer| {
                let mut sink = |name: &str, bytes: &[u8]| writer.add(name, bytes);
                let architecture = Architecture::BertForPreTraining;
                Ok(save_pretrained(&mut sink, model, &self.model_config, architecture, Some(vocabulary))?)
            })?;
        self.last_saved = Some((self.step, path.clone()));
        tell(PretrainEvent::Saved { step: self.step, path });
        Ok(())
    }

    fn not_finite(&self, report: &crate::train_step::StepReport) -> Error {
        Error::NotFinite { step: self.step + 1, loss: report.loss, gradient_norm: report.gradient_norm }
    }

    fn finish(self) -> Result<PretrainOutcome, Error> {
        let (_, checkpoint) =
            self.last_saved.ok_or_else(|| Error::NoCheckpoint { path: self.config.output.clone() })?;
        Ok(PretrainOutcome {
            steps: self.step,
            checkpoint,
            metrics: self.last_metrics,
            evaluation: self.last_evaluation.map(|(_, evaluation)| evaluation),
        })
    }
}

/// The model's configuration, and the folder and digest of the weights it starts from, if any.
fn model_config(
    config: &PretrainConfig,
    loader: &DataLoader,
    tell: &mut dyn FnMut(PretrainEvent),
) -> Result<(BertConfig, Option<(PathBuf, String)>), Error> {
    if let Some(path) = &config.init_checkpoint {
        let mut warn = |error: &Error| tell(PretrainEvent::Warning(error.to_string()));
        let folder = resolve_model_folder(path, &mut warn)?;
        let model = BertConfig::read(folder.join("config.json"))?;
        let weights = folder.join("model.safetensors");
        let digest = if weights.exists() { bert_data::files::digest_file(&weights)? } else { String::new() };
        return Ok((model, Some((folder, digest))));
    }
    let name = config.model.as_deref().unwrap_or_default();
    if let Ok(preset) = name.parse::<Preset>() {
        return Ok((BertConfig::preset(preset, loader.manifest().vocabulary.size), None));
    }
    let path = Path::new(name);
    if !path.exists() {
        let reason = format!("{name:?} is neither tiny, mini, small, medium, base or large nor a file");
        return Err(Error::Configuration { flag: "model", reason });
    }
    Ok((BertConfig::read(path)?, None))
}
