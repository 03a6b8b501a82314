//! Fine-tuning: a checkpoint and a task's files to a scored classifier.
//!
//! In: a [`FinetuneConfig`]. Out: an output folder
//!
//! ```text
//! report.json                 configuration, every run and its course, mean, SD, median, baseline
//! model/                      the best run's classifier as a Hugging Face folder; of --adapter, the adapter's own
//! adapter/                    the adapter's folder, when model/ has the merged model
//! seed-1/dev_predictions.tsv  with dev_probabilities.tsv and dev_errors.tsv, per seed
//! predictions.tsv             of --predict, with probabilities.tsv
//! ```
//!
//! Ports `run_classifier.py` (head, truncation, schedule, step count); it shares [`crate::train_step`] with
//! pre-training. Not for tuning hyper-parameters: one configuration, several seeds.

pub mod adapter;
pub mod collect;
pub mod config;
pub mod features;
mod output;
pub mod seed_run;

use std::path::{Path, PathBuf};

use bert_data::files::{Disk, FileSystem, write_json_atomic_on};
use bert_model::{
    BertConfig, BertForSequenceClassification, LoadPolicy, load_named_tensors, read_pretrained_config,
    read_pretrained_tensors,
};
use burn::tensor::Device;
use serde::Serialize;

pub use adapter::{AdapterKind, TrainedParameters};
pub use config::{FinetuneConfig, Resolved, Selection};
use features::Features;
use output::{Output, write_outputs};
use seed_run::{EpochReport, Finished, Shared, decide, predict, run_seed};

use crate::checkpoint::resolve_model_folder;
use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::initialization::{FreshWeights, InitializationChoice};
use crate::stop::StopFlag;
use crate::tasks::{
    Example, Kind, Label, Scores, SeedRun, SeedSummary, Split, confusion, find_split, labels_of,
    majority_baseline, read_file, read_predict_file,
};
use crate::text::Text;

/// What a fine-tuning tells its caller.
#[derive(Clone, Debug)]
pub enum FinetuneEvent {
    /// A step is done.
    Step {
        /// Of the run with this seed.
        seed: u64,
        /// Its number, from 1.
        step: u64,
        /// Steps of the run.
        steps: u64,
        /// Its loss.
        loss: f64,
    },
    /// Dev was evaluated.
    Evaluated {
        /// By the run with this seed.
        seed: u64,
        /// After so many epochs.
        epoch: f64,
        /// The scores.
        scores: Scores,
    },
    /// Something the user should know, in words.
    Warning(String),
}

/// One run in the report.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Its seed.
    pub seed: u64,
    /// Epochs at the chosen state.
    pub epoch: f64,
    /// Scores on dev.
    pub dev: Scores,
    /// Scores on the second dev set, where the task has one.
    pub dev_mismatched: Option<Scores>,
    /// Scores on test, where the task publishes its labels.
    pub test: Option<Scores>,
    /// How often each class of dev (row) was predicted as each class (column); not for a regression.
    pub confusion: Option<Vec<Vec<u64>>>,
    /// Training loss and scores on dev, epoch by epoch.
    pub history: Vec<EpochReport>,
}

/// `report.json`.
#[derive(Clone, Debug, Serialize)]
pub struct FinetuneReport {
    /// The configuration as given.
    pub config: FinetuneConfig,
    /// The defaults that were filled in.
    pub resolved: Resolved,
    /// The model folder that was started from.
    pub start: PathBuf,
    /// How many of the model's parameters learned.
    pub parameters: TrainedParameters,
    /// Training examples.
    pub train_examples: usize,
    /// Whether train or dev is a sample, not the official file; its scores are not comparable then.
    pub is_sample: bool,
    /// Each run.
    pub runs: Vec<RunReport>,
    /// The runs together, on dev.
    pub dev: SeedSummary,
    /// The runs together, on the second dev set.
    pub dev_mismatched: Option<SeedSummary>,
    /// The runs together, on test.
    pub test: Option<SeedSummary>,
    /// What a reader of the figures should be warned of ([`SeedSummary::warnings`] on dev).
    pub warnings: Vec<String>,
    /// The tuned model.
    pub model: PathBuf,
}

struct LabelledSplit {
    examples: Vec<Example>,
    labels: Vec<Label>,
    features: Features,
    is_sample: bool,
}

/// A task's data; test only where its labels are published.
struct Splits {
    train: LabelledSplit,
    dev: LabelledSplit,
    mismatched: Option<LabelledSplit>,
    test: Option<LabelledSplit>,
}

impl Splits {
    fn read(config: &FinetuneConfig, text: &Text, max_length: usize) -> Result<Self, Error> {
        let split = |split| read_split(config, text, max_length, split);
        Ok(Self {
            train: split(Split::Train)?.ok_or_else(|| missing(config, Split::Train))?,
            dev: split(Split::Dev)?.ok_or_else(|| missing(config, Split::Dev))?,
            mismatched: split(Split::DevMismatched)?,
            test: split(Split::Test)?,
        })
    }
}

/// Fine-tunes, once per seed.
///
/// # Errors
/// See [`Error`].
pub fn finetune(
    config: &FinetuneConfig,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinetuneReport, Error> {
    finetune_on(&Disk, config, stop, tell)
}

/// [`finetune`] on a file system of choice.
///
/// # Errors
/// As [`finetune`].
pub fn finetune_on(
    files: &dyn FileSystem,
    config: &FinetuneConfig,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinetuneReport, Error> {
    let resolved = config.resolve()?;
    config.kernels.select();
    resolved.precision.select();
    let device = config.device.open()?.autodiff();
    let start = resolve_model_folder(&config.checkpoint, &mut |error| {
        tell(FinetuneEvent::Warning(error.to_string()));
    })?;
    let text = Text::open(&start)?;
    let model = BertConfig::read(start.join("config.json"))?;
    check_lengths(&model, &resolved, &text)?;
    let tokens = resolved.train_batch_size * resolved.max_seq_length;
    if let Some(slow) = resolved.precision.warning(config.device, &model, tokens) {
        tell(FinetuneEvent::Warning(slow));
    }
    let splits = Splits::read(config, &text, resolved.max_seq_length)?;
    let to_predict = config.predict.as_ref().map(|path| read_predict_file(config.task, path)).transpose()?;
    // Before the output is made: weights that cannot be used leave nothing behind.
    let mut first = Some(start_model(config, &start, config.seeds[0], &device, tell)?);
    let output = Output::open(files, &config.output)?;

    let shared = Shared {
        config,
        resolved: &resolved,
        train: &splits.train.features,
        dev: &splits.dev.features,
        dev_labels: &splits.dev.labels,
        device: &device,
    };
    let mut runs = Vec::new();
    let mut best: Option<(BertForSequenceClassification, BertConfig, f64)> = None;
    for &seed in &config.seeds {
        let (model, model_config) = match first.take() {
            Some(first) => first,
            None => start_model(config, &start, seed, &device, tell)?,
        };
        let finished = run_seed(&shared, seed, model, stop, tell)?;
        let stem = format!("seed-{seed}/dev_");
        write_outputs(
            output.files,
            config,
            &stem,
            &splits.dev.examples,
            &finished.predictions,
            &finished.outputs,
        )?;
        runs.push((run_report(&shared, &splits, seed, &finished), finished.degenerate));
        let primary = finished.scores.get(config.task.spec().primary).unwrap_or(f64::NAN);
        if best.as_ref().is_none_or(|(.., of_best)| primary > *of_best || of_best.is_nan()) {
            best = Some((finished.model, model_config, primary));
        }
    }
    let (model, model_config, _) = best.expect("there is at least one seed");
    if let Some(examples) = &to_predict {
        let features = Features::new(examples, &text.tokenizer, &text.vocabulary, resolved.max_seq_length);
        let kind = config.task.spec().kind;
        let outputs = predict(&model, &features, kind, &device);
        write_outputs(output.files, config, "", examples, &decide(&outputs, kind), &outputs)?;
    }
    let parameters = TrainedParameters::new(config, &model);
    adapter::save(output.files, config, &start, model, &model_config, &text)?;
    let report = report(config, resolved.clone(), (start, parameters), &splits, runs);
    write_json_atomic_on(output.files, &config.output.join("report.json"), &report)?;
    output.finish()?;
    Ok(report)
}

/// A split with labels; `None` when the task has none such or its file is not there.
fn read_split(
    config: &FinetuneConfig,
    text: &Text,
    max_length: usize,
    split: Split,
) -> Result<Option<LabelledSplit>, Error> {
    let spec = config.task.spec();
    if spec.file_name(split).is_none() || !spec.has_labels(split) {
        return Ok(None);
    }
    let file = match find_split(config.task, &config.data, split) {
        Ok(file) => file,
        // Only these two must be there.
        Err(error) if matches!(split, Split::Train | Split::Dev) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let examples = read_file(config.task, &file.path, true)?;
    let labels = labels_of(&examples).unwrap_or_default();
    let features = Features::new(&examples, &text.tokenizer, &text.vocabulary, max_length);
    Ok(Some(LabelledSplit { examples, labels, features, is_sample: file.is_sample }))
}

fn missing(config: &FinetuneConfig, split: Split) -> Error {
    let reason = format!("{} has no labelled {split} split", config.task);
    Error::Configuration { flag: "task", reason }
}

fn check_lengths(model: &BertConfig, resolved: &Resolved, text: &Text) -> Result<(), Error> {
    let mut differences = Vec::new();
    if resolved.max_seq_length > model.max_position_embeddings {
        let (most, asked) = (model.max_position_embeddings, resolved.max_seq_length);
        differences.push(format!("the model takes {most} positions, --max-seq-length is {asked}"));
    }
    if text.vocabulary.len() > model.vocab_size {
        let (known, size) = (model.vocab_size, text.vocabulary.len());
        differences.push(format!("the model knows {known} tokens, vocab.txt has {size}"));
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(Error::Mismatch { differences }),
    }
}

/// What `--random-init` begins with.
fn fresh_weights(
    config: &FinetuneConfig,
    start: &Path,
    model: &BertConfig,
    seed: u64,
) -> Result<Option<FreshWeights>, Error> {
    if !config.random_init {
        return Ok(None);
    }
    let choice = config.initialization.unwrap_or(InitializationChoice::Reference);
    let Some(data) = &config.initialization_data else {
        return FreshWeights::uncounted(choice).map(Some);
    };
    DataLoader::open(data, 0)?.check_fits(model, Some(&start.join("vocab.txt")))?;
    FreshWeights::new(choice, data, model, seed).map(Some)
}

fn start_model(
    config: &FinetuneConfig,
    start: &Path,
    seed: u64,
    device: &Device,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<(BertForSequenceClassification, BertConfig), Error> {
    let labels = |model: BertConfig| match config.task.spec().kind {
        Kind::Classification { labels } => {
            let names = config.task.spec().class_names;
            model.with_labels(if names.is_empty() { labels } else { names })
        }
        Kind::Regression { .. } => model.with_regression(),
    };
    let model_config = labels(read_pretrained_config(start)?);
    if let Some(fresh) = fresh_weights(config, start, &model_config, seed)? {
        let model =
            BertForSequenceClassification::initialized(&model_config, fresh.initialization(), seed, device)?;
        return Ok((model, model_config));
    }
    let model = BertForSequenceClassification::new(&model_config, seed, device);
    let mut tensors = read_pretrained_tensors(start)?;
    let first = seed == config.seeds[0];
    // That of an earlier fine-tuning: its classes are not this task's, even when there are as many.
    let classifier = tensors.extract_if(.., |name, _| name.starts_with("classifier.")).count();
    if classifier > 0 && first {
        let text = "the checkpoint's classifier is of an earlier fine-tuning; it is drawn anew";
        tell(FinetuneEvent::Warning(text.to_string()));
    }
    let (model, loaded) = load_named_tensors(model, tensors, LoadPolicy::FreshHeads)?;
    let fresh: Vec<&String> = loaded.missing.iter().filter(|name| !name.starts_with("classifier.")).collect();
    if !fresh.is_empty() && first {
        tell(FinetuneEvent::Warning(format!("not in the checkpoint, so drawn at random: {fresh:?}")));
    }
    let model = adapter::attached(config, model, &fresh, seed)?;
    Ok((model, model_config))
}

/// What a finished run comes to, on every labelled split.
fn run_report(shared: &Shared<'_>, splits: &Splits, seed: u64, finished: &Finished) -> RunReport {
    let (task, kind) = (shared.config.task, shared.config.task.spec().kind);
    let scored = |split: &LabelledSplit| {
        let rows = predict(&finished.model, &split.features, kind, shared.device);
        crate::tasks::score(task, &decide(&rows, kind), &split.labels)
    };
    RunReport {
        seed,
        epoch: finished.epoch,
        dev: finished.scores.clone(),
        dev_mismatched: splits.mismatched.as_ref().map(scored),
        test: splits.test.as_ref().map(scored),
        confusion: confusion(task, &finished.predictions, shared.dev_labels),
        history: finished.history.clone(),
    }
}

fn report(
    config: &FinetuneConfig,
    resolved: Resolved,
    (start, parameters): (PathBuf, TrainedParameters),
    splits: &Splits,
    runs: Vec<(RunReport, bool)>,
) -> FinetuneReport {
    let summary = |split: &LabelledSplit, scores: fn(&RunReport) -> Option<&Scores>| {
        let runs = runs.iter().map(|(run, degenerate)| SeedRun {
            seed: run.seed,
            scores: scores(run).expect("scored with the split").clone(),
            degenerate: *degenerate,
        });
        let baseline = majority_baseline(config.task, &splits.train.labels, &split.labels);
        SeedSummary::new(config.task, split.examples.len(), runs.collect(), baseline)
    };
    let dev = summary(&splits.dev, |run| Some(&run.dev));
    FinetuneReport {
        resolved,
        start,
        parameters,
        train_examples: splits.train.examples.len(),
        is_sample: splits.train.is_sample || splits.dev.is_sample,
        warnings: dev.warnings(),
        dev,
        dev_mismatched: splits
            .mismatched
            .as_ref()
            .map(|split| summary(split, |run| run.dev_mismatched.as_ref())),
        test: splits.test.as_ref().map(|split| summary(split, |run| run.test.as_ref())),
        runs: runs.into_iter().map(|(run, _)| run).collect(),
        model: config.output.join("model"),
        config: config.clone(),
    }
}
