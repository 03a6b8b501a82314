//! The training loop.

use std::path::{Path, PathBuf};

use bert_inference::{ModelFiles, ModelTokenizer, StopFlag};
use bert_model::{LoadPolicy, load_named_tensors, read_pretrained_tensors};
use bert_storage::{Error, digest_bytes};
use bert_training::{
    MicroBatchLoss, NotFinite, Optimizer, Resume, StepSettings, TrainingRun, not_finite, stopped, train_step,
};
use burn::module::Module;
use burn::tensor::Device;
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::{Fusion, TranslationConfig};
use crate::model::initialization::initialize;
use crate::model::transformer::TranslationModel;
use crate::text::batches::{EncodedPairs, PairBatch};
use crate::text::parallel::SentencePair;
use crate::text::tokenizers::Tokenizers;
use crate::training::config::TrainConfig;
use crate::training::saved_model::{FrozenBert, description_files};

/// The metrics of a step: a line of `metrics.jsonl`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepMetrics {
    /// Number of finished steps.
    pub step: u64,
    /// Label-smoothed cross-entropy per target token, in nats.
    pub loss: f64,
    /// Cross-entropy per target token without smoothing, in nats.
    pub cross_entropy: f64,
    /// Gradient norm before clipping.
    pub gradient_norm: f64,
    /// Learning rate.
    pub learning_rate: f64,
}

/// An event of a training run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TrainEvent {
    /// The run starts or continues.
    Started {
        /// Number of trained parameters.
        parameters: usize,
        /// Number of sentence pairs.
        pairs: usize,
        /// Number of pairs that were dropped because a side is empty.
        dropped: usize,
        /// Number of finished steps.
        step: u64,
    },
    /// A step is finished.
    Step(StepMetrics),
    /// A checkpoint was written.
    Saved {
        /// Number of finished steps.
        step: u64,
        /// The checkpoint's folder.
        path: PathBuf,
    },
    /// A warning.
    Warning(String),
}

/// The result of a training run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrainOutcome {
    /// Number of finished steps.
    pub steps: u64,
    /// The metrics of the last step; `None` if the run had finished before.
    pub metrics: Option<StepMetrics>,
    /// The newest checkpoint.
    pub checkpoint: PathBuf,
}

/// Trains a translation model, or continues with `resume`. `bert_folder` is the folder of [`TrainConfig::bert`].
///
/// # Errors
/// Fails when a setting is invalid, when the text, the device or the BERT model cannot be opened, when the output
/// folder cannot be used, when a step is not finite, or when a stop is requested; before a stop, a checkpoint is
/// written.
pub fn train(
    config: &TrainConfig,
    bert_folder: Option<&Path>,
    resume: Resume,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(TrainEvent),
) -> Result<TrainOutcome, Error> {
    config.validate()?;
    let text = config.text.read()?;
    let device = config.device.open()?.autodiff();
    let Setup { model, sizes, tokenizers, files } = Setup::new(config, bert_folder, &device)?;
    let identity = identity(config, &sizes, &files, &text.pairs, &model);
    let mut run = TrainingRun::open(&config.output, resume, identity, config)?;
    run.warnings.drain(..).for_each(|warning| on_event(TrainEvent::Warning(warning)));
    let mut optimizer = Optimizer::new(TrainConfig::optimizer(), &model).with_compute(sizes.compute);
    run.restore(&mut optimizer, &device.clone().inner())?;
    let mut model = model;
    let mut last = None;
    if let Some(start) = &run.start {
        model = load_named_tensors(model, read_pretrained_tensors(&start.path)?, LoadPolicy::Exact)?.0;
        last = Some(start.path.clone());
    }
    let first = run.start.as_ref().map_or(0, |start| start.state.step);
    on_event(TrainEvent::Started {
        parameters: model.transformer.num_params(),
        pairs: text.pairs.len(),
        dropped: text.dropped,
        step: first,
    });
    let pairs = EncodedPairs::new(&text.pairs, &tokenizers, config.max_length);
    let mut metrics = None;
    for step in first..config.steps {
        let batch = pairs.batch(&pairs.sample(config.seed, step, config.batch_size), &device);
        let (updated, finished) = run_step(model, &mut optimizer, batch, step, config)?;
        model = updated;
        run.record(&finished)?;
        metrics = Some(finished);
        on_event(TrainEvent::Step(finished));
        let step = step + 1;
        let signal = stop.requested();
        let is_due = step == config.steps || step.is_multiple_of(config.save_interval);
        if is_due || signal.is_some() || stop.take_checkpoint_request() {
            let path = run.save(&model, &optimizer, step, files.clone())?;
            on_event(TrainEvent::Saved { step, path: path.clone() });
            last = Some(path);
        }
        if let Some(signal) = signal.filter(|_| step < config.steps) {
            return Err(stopped(signal, step));
        }
    }
    let checkpoint = last.expect("the last step is saved");
    Ok(TrainOutcome { steps: config.steps, metrics, checkpoint })
}

/// A new model and everything that describes it.
struct Setup {
    model: TranslationModel,
    sizes: TranslationConfig,
    tokenizers: Tokenizers,
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Setup {
    fn new(config: &TrainConfig, bert_folder: Option<&Path>, device: &Device) -> Result<Self, Error> {
        let open = |folder: &Path| FrozenBert::open(folder, config.max_length, device);
        let bert = bert_folder.filter(|_| config.fusion != Fusion::None).map(open).transpose()?;
        let vocabulary = |path: &Path| ModelTokenizer::from_vocabulary(path, Default::default());
        let source = match (&config.source_vocab, bert_folder) {
            (Some(path), _) => vocabulary(path)?,
            (None, Some(folder)) => ModelFiles::open(folder)?.tokenizer,
            (None, None) => panic!("a model without `.source_vocab` needs a BERT folder"),
        };
        let target = vocabulary(&config.target_vocab)?;
        let vocabularies = [source.vocabulary.len(), target.vocabulary.len()];
        let sizes = config.model(vocabularies, bert.as_ref().map_or(0, |bert| bert.config.hidden_size));
        let bert_config = bert.as_ref().map(|bert| bert.config.clone());
        let mut model = TranslationModel::zeroed(&sizes, bert_config.as_ref(), device);
        model.transformer = initialize(model.transformer, config.seed);
        let (frozen, bert) = bert.map(|bert| (bert.model, bert.tokenizer)).unzip();
        model.bert = frozen;
        let tokenizers = Tokenizers { source, target, bert };
        let files = description_files(&sizes, bert_config.as_ref(), &tokenizers);
        Ok(Self { model, sizes, tokenizers, files })
    }
}

fn run_step(
    model: TranslationModel,
    optimizer: &mut Optimizer,
    batch: PairBatch,
    step: u64,
    config: &TrainConfig,
) -> Result<(TranslationModel, StepMetrics), Error> {
    let tokens = batch.tokens as f64;
    let learning_rate = config.schedule().learning_rate(step);
    let (model, report) = train_step(
        model,
        optimizer,
        &[batch],
        |model, batch, mode| {
            let loss = model.loss(&batch.source, &batch.target, mode);
            let parts = vec![loss.cross_entropy.div_scalar(tokens)];
            MicroBatchLoss::new(loss.smoothed.div_scalar(tokens), parts)
        },
        StepSettings { seed: config.seed, step, learning_rate },
    );
    let step = step + 1;
    let report =
        report.map_err(|NotFinite { report }| not_finite(step, report.loss, report.gradient_norm))?;
    let metrics = StepMetrics {
        step,
        loss: report.loss,
        cross_entropy: report.parts[0],
        gradient_norm: report.gradient_norm,
        learning_rate,
    };
    Ok((model, metrics))
}

/// Returns everything that determines the results of a run.
fn identity(
    config: &TrainConfig,
    sizes: &TranslationConfig,
    files: &[(&'static str, Vec<u8>)],
    pairs: &[SentencePair],
    model: &TranslationModel,
) -> Value {
    let text: String = pairs.iter().flat_map(|pair| [&*pair.source, "\n", &*pair.target, "\n"]).collect();
    let vocabularies: Value =
        files.iter().map(|(name, bytes)| (name.to_string(), json!(digest_bytes(bytes)))).collect();
    let bert = model.bert.as_ref().map(|bert| {
        let mut bytes = Vec::new();
        bert_model::Snapshot::new(bert).write(&mut bytes).expect("writing to memory cannot fail");
        digest_bytes(&bytes)
    });
    json!({
        "model": sizes,
        "files": vocabularies,
        "text": digest_bytes(text.as_bytes()),
        "bert": bert,
        "steps": config.steps,
        "batch_size": config.batch_size,
        "learning_rate": config.learning_rate,
        "warmup_steps": config.schedule().warmup_steps,
        "optimizer": TrainConfig::optimizer(),
        "seed": config.seed,
        "backend": config.device.backend(),
    })
}
