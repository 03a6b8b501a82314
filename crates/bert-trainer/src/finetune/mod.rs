//! Fine-tuning: a checkpoint and a task's files to a scored classifier.
//!
//! In: a [`FinetuneConfig`]. Out: an output folder
//!
//! ```text
//! report.json                 configuration, every run and its course, mean, SD, median, baseline
//! dev_labels.tsv              what the runs' predictions are compared with
//! model/                      the best run's classifier as a Hugging Face folder; of --adapter, the adapter's own
//! adapter/                    the adapter's folder, when model/ has the merged model
//! seed-1/dev_predictions.tsv  with dev_probabilities.tsv and dev_errors.tsv, per seed
//! predictions.tsv             of --predict, with probabilities.tsv
//! ```
//!
//! Ports `run_classifier.py` (head, truncation, schedule, step count); it shares [`crate::train_step`] with
//! pre-training. One configuration, several seeds; several values for a flag are a loop over configurations ([`grid`]).

pub mod adapter;
pub mod config;
mod exact;
pub mod features;
pub mod grid;
mod identity;
mod output;
mod runs;
mod saved;
pub mod seed_run;
pub mod seeds;
pub mod subset;
mod table;

use std::path::{Path, PathBuf};

use bert_data::files::{Disk, FileSystem, write_json_atomic_on};
use bert_model::{
    Architecture, BertConfig, BertForSequenceClassification, LoadPolicy, load_named_tensors,
    read_pretrained_config, read_pretrained_tensors,
};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

pub use adapter::{AdapterKind, TrainedParameters};
pub use config::{FinetuneConfig, Resolved, Selection};
use features::Features;
use grid::{Cell, CellReport, GridReport};
use identity::{examples_digest, identity};
pub(crate) use output::DEV_LABELS;
use output::{Output, write_dev_labels, write_outputs};
use runs::{Start, run_cells};
use saved::SavedRuns;
use seed_run::{EpochReport, Finished, Shared, decide, predict};
use subset::TrainingParts;

use crate::checkpoint::resolve_model_folder;
use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::initialization::{FreshWeights, InitializationChoice};
use crate::significance::{Calibration, calibration};
use crate::stop::StopFlag;
use crate::tasks::{
    Example, Kind, Label, Scores, SeedRun, SeedSummary, Split, confusion, is_degenerate, labels_of,
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
    /// Dev, or what is held out of train, was evaluated.
    Evaluated {
        /// By the run with this seed.
        seed: u64,
        /// After so many epochs.
        epoch: f64,
        /// The scores.
        scores: Scores,
        /// Whether they are on what is held out of train, not on dev.
        held_out: bool,
    },
    /// A run goes on where it was stopped.
    Resumed {
        /// The run's seed.
        seed: u64,
        /// The step after which it goes on; none where it was finished.
        step: Option<u64>,
    },
    /// A configuration of a grid is done.
    CellDone {
        /// Its number, from 1.
        cell: usize,
        /// Configurations of the grid.
        cells: usize,
        /// What it came to.
        report: CellReport,
    },
    /// Something the user should know, in words.
    Warning(String),
}

/// One run in the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// Its seed.
    pub seed: u64,
    /// Epochs at the chosen state.
    pub epoch: f64,
    /// Whether `--patience` ended the run before its last epoch.
    pub stopped_early: bool,
    /// Scores on what is held out of train, by which the state was chosen.
    pub held_out: Option<Scores>,
    /// Scores on dev.
    pub dev: Scores,
    /// Scores on the second dev set, where the task has one.
    pub dev_mismatched: Option<Scores>,
    /// Scores on test, where the task publishes its labels.
    pub test: Option<Scores>,
    /// How often each class of dev (row) was predicted as each class (column); not for a regression.
    pub confusion: Option<Vec<Vec<u64>>>,
    /// How sure it was of its answers to dev, and how often right; not for a regression.
    pub calibration: Option<Calibration>,
    /// Training loss and scores on dev, epoch by epoch.
    pub history: Vec<EpochReport>,
    /// What it answered.
    #[serde(skip, default)]
    pub answers: Answered,
}

/// A run's answers to every labelled split.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answered {
    /// Dev.
    pub dev: Vec<Label>,
    /// The outputs on dev: probabilities, or the score.
    pub dev_outputs: Vec<Vec<f32>>,
    /// The second dev set, where the task has one.
    pub dev_mismatched: Option<Vec<Label>>,
    /// Test, where its labels are published.
    pub test: Option<Vec<Label>>,
}

/// `report.json`.
#[derive(Clone, Debug, Serialize)]
pub struct FinetuneReport {
    /// The configuration as given.
    pub config: FinetuneConfig,
    /// The defaults that were filled in; of a grid those of the chosen cell.
    pub resolved: Resolved,
    /// Every configuration of a grid.
    pub grid: Option<GridReport>,
    /// The model folder that was started from.
    pub start: PathBuf,
    /// How many of the model's parameters learned.
    pub parameters: TrainedParameters,
    /// Examples that were trained on.
    pub train_examples: usize,
    /// How the training file was divided.
    pub training: TrainingParts,
    /// Digest of the dev examples and their labels: runs on other ones are not compared.
    pub dev_digest: String,
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
    /// What a reader of the figures should be warned of: [`SeedSummary::warnings`] on dev, [`TrainingParts::warning`].
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

/// The examples of a split.
struct ReadSplit {
    examples: Vec<Example>,
    is_sample: bool,
}

impl ReadSplit {
    fn labelled(self, text: &Text, max_length: usize) -> LabelledSplit {
        let Self { examples, is_sample } = self;
        let labels = labels_of(&examples).unwrap_or_default();
        let features = Features::new(&examples, &text.tokenizer, &text.vocabulary, max_length);
        LabelledSplit { examples, labels, features, is_sample }
    }
}

/// A task's data; test only where its labels are published.
struct Splits {
    train: LabelledSplit,
    held_out: Option<LabelledSplit>,
    training: TrainingParts,
    dev: LabelledSplit,
    mismatched: Option<LabelledSplit>,
    test: Option<LabelledSplit>,
}

impl Splits {
    fn read(config: &FinetuneConfig, text: &Text, max_length: usize) -> Result<Self, Error> {
        let labelled =
            |split| read_split(config, split).map(|read| read.map(|split| split.labelled(text, max_length)));
        let all = read_split(config, Split::Train)?.ok_or_else(|| missing(config, Split::Train))?;
        let (train, held_out, training) = subset::divide(config, all.examples)?;
        let part = |examples| ReadSplit { examples, is_sample: all.is_sample }.labelled(text, max_length);
        Ok(Self {
            train: part(train),
            held_out: (training.held_out > 0).then(|| part(held_out)),
            training,
            dev: labelled(Split::Dev)?.ok_or_else(|| missing(config, Split::Dev))?,
            mismatched: labelled(Split::DevMismatched)?,
            test: labelled(Split::Test)?,
        })
    }
}

/// Fine-tunes, once per seed; with `resume` goes on with what the same fine-tuning left in the output folder when it
/// was stopped or killed.
///
/// # Errors
/// See [`Error`].
pub fn finetune(
    config: &FinetuneConfig,
    resume: bool,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinetuneReport, Error> {
    finetune_on(&Disk, config, resume, stop, tell)
}

/// [`finetune`] on a file system of choice.
///
/// # Errors
/// As [`finetune`].
pub fn finetune_on(
    files: &dyn FileSystem,
    config: &FinetuneConfig,
    resume: bool,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinetuneReport, Error> {
    // Flags first, then the files that a table's description needs.
    grid::cells(config)?;
    let config = &config.described()?;
    let cells = grid::cells(config)?;
    // Equal in all of them, but for learning rate, batch and epochs.
    let resolved = &cells[0].resolved;
    config.kernels.select();
    resolved.precision.select();
    let device = config.device.open()?.autodiff();
    let start = resolve_model_folder(&config.checkpoint, &mut |error| {
        tell(FinetuneEvent::Warning(error.to_string()));
    })?;
    let text = Text::open(&start)?;
    let model = BertConfig::read(start.join("config.json"))?;
    text.check_fits(&model, resolved.max_seq_length)?;
    let sizes = cells.iter().map(|cell| cell.resolved.train_batch_size);
    let tokens = sizes.max().unwrap_or(1) * resolved.max_seq_length;
    if let Some(slow) = resolved.precision.warning(config.device, &model, tokens) {
        tell(FinetuneEvent::Warning(slow));
    }
    let splits = Splits::read(config, &text, resolved.max_seq_length)?;
    let to_predict = config.predict.as_ref().map(|path| read_predict_file(config.task, path)).transpose()?;
    // Before the output is made: weights that cannot be used leave nothing behind.
    let first = Some(start_model(config, &start, config.seeds[0], &device, tell)?);
    if resume && !config.output.exists() {
        return Err(Error::NothingToResume { path: config.output.clone() });
    }
    let output = Output::open(files, &config.output)?;
    let several = cells.len() * config.seeds.len() > 1;
    let identity = identity(config, &start, &splits)?;
    let saved = SavedRuns::open(files, &config.output, resume, &identity, several, tell)?;

    let from = Start { folder: &start, first, saved: &saved };
    let (cell, runs, grid) = run_cells(&cells, from, &splits, &device, stop, tell)?;
    let model = runs.model(&config.output)?;
    write_dev_labels(output.files, config, &splits.dev.examples)?;
    for run in &runs.reports {
        let (stem, answers) = (format!("seed-{}/dev_", run.seed), &run.answers);
        let examples = &splits.dev.examples;
        write_outputs(output.files, config, &stem, examples, &answers.dev, &answers.dev_outputs)?;
    }
    if let Some(examples) = &to_predict {
        let features = Features::new(examples, &text.tokenizer, &text.vocabulary, resolved.max_seq_length);
        let kind = config.task.spec().kind;
        let outputs = predict(model, &features, kind, &device);
        write_outputs(output.files, config, "", examples, &decide(&outputs, kind), &outputs)?;
    }
    let parameters = TrainedParameters::new(config, model);
    adapter::save(output.files, config, &start, model.clone(), &runs.model_config, &text)?;
    let report = report(config, (cell, grid), (start, parameters), &splits, runs.reports);
    write_json_atomic_on(output.files, &config.output.join("report.json"), &report)?;
    saved.remove()?;
    output.finish()?;
    Ok(report)
}

/// A split with labels; `None` when the task has none such or its file is not there.
fn read_split(config: &FinetuneConfig, split: Split) -> Result<Option<ReadSplit>, Error> {
    let spec = config.task.spec();
    if !spec.has_split(split) || !spec.has_labels(split) {
        return Ok(None);
    }
    let file = match config.find_split(split) {
        Ok(file) => file,
        // Only these two must be there.
        Err(error) if matches!(split, Split::Train | Split::Dev) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let examples = read_file(config.task, &file.path, true)?;
    Ok(Some(ReadSplit { examples, is_sample: file.is_sample }))
}

fn missing(config: &FinetuneConfig, split: Split) -> Error {
    let reason = format!("{} has no labelled {split} split", config.task);
    Error::Configuration { flag: "task", reason }
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
    let answers =
        |split: &LabelledSplit| decide(&predict(&finished.model, &split.features, kind, shared.device), kind);
    let scored =
        |split: &LabelledSplit, answers: &Vec<Label>| crate::tasks::score(task, answers, &split.labels);
    let answers = Answered {
        dev: finished.predictions.clone(),
        dev_outputs: finished.outputs.clone(),
        dev_mismatched: splits.mismatched.as_ref().map(answers),
        test: splits.test.as_ref().map(answers),
    };
    RunReport {
        seed,
        epoch: finished.epoch,
        stopped_early: finished.stopped_early,
        held_out: finished.held_out.clone(),
        dev: finished.scores.clone(),
        dev_mismatched: splits
            .mismatched
            .as_ref()
            .zip(answers.dev_mismatched.as_ref())
            .map(|(s, a)| scored(s, a)),
        test: splits.test.as_ref().zip(answers.test.as_ref()).map(|(s, a)| scored(s, a)),
        confusion: confusion(task, &finished.predictions, shared.dev_labels),
        calibration: calibration(shared.dev_labels, &finished.predictions, &finished.outputs),
        history: finished.history.clone(),
        answers,
    }
}

fn report(
    config: &FinetuneConfig,
    (cell, grid): (&Cell, Option<GridReport>),
    (start, parameters): (PathBuf, TrainedParameters),
    splits: &Splits,
    runs: Vec<RunReport>,
) -> FinetuneReport {
    type Of = (fn(&RunReport) -> Option<&Scores>, fn(&Answered) -> Option<&Vec<Label>>);
    let summary = |split: &LabelledSplit, (scores, answers): Of| {
        let answers =
            runs.iter().map(|run| answers(&run.answers).expect("answered with the split").as_slice());
        let answers: Vec<&[Label]> = answers.collect();
        let seeds = runs.iter().zip(&answers).map(|(run, answers)| SeedRun {
            seed: run.seed,
            scores: scores(run).expect("scored with the split").clone(),
            degenerate: is_degenerate(answers),
        });
        let baseline = majority_baseline(config.task, &splits.train.labels, &split.labels);
        SeedSummary::new(config.task, split.examples.len(), seeds.collect(), baseline)
            .with_interval(&split.labels, &answers)
    };
    let dev = summary(&splits.dev, (|run| Some(&run.dev), |answers| Some(&answers.dev)));
    let mismatched: Of = (|run| run.dev_mismatched.as_ref(), |answers| answers.dev_mismatched.as_ref());
    let test: Of = (|run| run.test.as_ref(), |answers| answers.test.as_ref());
    FinetuneReport {
        resolved: cell.resolved.clone(),
        grid,
        start,
        parameters,
        train_examples: splits.train.examples.len(),
        training: splits.training,
        dev_digest: examples_digest(&splits.dev.examples),
        is_sample: splits.train.is_sample || splits.dev.is_sample,
        warnings: dev.warnings().into_iter().chain(splits.training.warning()).collect(),
        dev,
        dev_mismatched: splits.mismatched.as_ref().map(|split| summary(split, mismatched)),
        test: splits.test.as_ref().map(|split| summary(split, test)),
        runs,
        model: config.output.join("model"),
        config: config.clone(),
    }
}
