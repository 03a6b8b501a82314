//! Runs a fine-tuning: reads the task, trains every configuration and writes the output of the best.

use std::borrow::Cow;
use std::path::Path;

use bert_inference::memory::StepShape;
use bert_inference::{ComputeArgs, StopFlag, memory};
use bert_model::{BertConfig, BertForMultipleChoice, BertForSequenceClassification, BertWithFeatureHead};
use bert_storage::exists;
use bert_tasks::Kind;
use bert_training::device_check::{CheckShape, check_before_first_step};
use bert_training::device_selection::{SelectedDevice, select_device};
use bert_training::{ChosenDefault, Error, Resume, nothing_to_resume};
use serde_json::Value;

use crate::config::grid::{Cell, TuningDefaults};
use crate::config::{FinetuneConfig, grid};
use crate::data::datasets::TrainingRows;
use crate::events::FinetuneEvent;
use crate::files::folder::OutputFolder;
use crate::kinds::FinetuneTask;
use crate::kinds::classification::Classification;
use crate::kinds::question_answering::QuestionAnswering;
use crate::kinds::token_classification::TokenClassification;
use crate::output::report::FinetuneReport;
use crate::output::write_output;
use crate::run::fingerprint::identity;
use crate::run::grid_search::{GridSearch, initial_model};
use crate::run::resume::{RunStart, SavedRuns, remove_saved_runs, saved_identity};
use crate::setup::{BaseCheckpoint, Setup, with_length};

/// Fine-tunes a checkpoint, once per seed. With `resume`, continues a stopped or killed fine-tuning in the output
/// folder.
///
/// # Errors
/// Fails when an option is invalid, when the checkpoint or a data file cannot be read or is invalid, when the output
/// folder cannot be used, when a loss or gradient is not finite, or when a stop is requested.
pub fn finetune(
    config: &FinetuneConfig,
    resume: Resume,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinetuneReport, Error> {
    with_task(config, Source::Files, Action::Train { resume: resume == Resume::Yes, stop }, on_event)
}

/// Checks that the finished fine-tuning in the output folder has this configuration and the same weights and data, and
/// returns its report.
///
/// # Errors
/// Fails when the finished fine-tuning has a different configuration, different weights or different data; the error
/// lists every difference. Also fails as [`finetune`] does.
pub fn check_finished(config: &FinetuneConfig) -> Result<FinetuneReport, Error> {
    with_task(config, Source::Files, Action::CheckFinished, &mut |_| {})
}

/// Checks a configuration as far as possible without reading its files.
///
/// # Errors
/// Fails when the value of an option is invalid; the error names the flag.
pub fn check(config: &FinetuneConfig) -> Result<(), Error> {
    grid::cells(config, &TuningDefaults::published(config), None).map(drop)
}

/// Returns the configuration with the fastest device in place of `--device auto`.
pub(crate) fn with_selected_device<'a>(
    config: &'a FinetuneConfig,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<Cow<'a, FinetuneConfig>, Error> {
    let Some(SelectedDevice { device, reason }) = select_device(config.compute.device)? else {
        return Ok(Cow::Borrowed(config));
    };
    on_event(FinetuneEvent::Defaults(vec![ChosenDefault::new("device", device, reason)]));
    let compute = ComputeArgs { device, ..config.compute };
    Ok(Cow::Owned(FinetuneConfig { compute, ..config.clone() }))
}

/// An action on a task whose files have been read.
#[derive(Clone, Copy)]
pub(crate) enum Action<'a> {
    Train { resume: bool, stop: &'a StopFlag },
    CheckFinished,
}

/// The origin of the examples.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// The files that the configuration names.
    Files,
    /// Rows in memory.
    Rows(TrainingRows<'a>),
}

/// Reads the examples of a configuration and runs an action on its task.
pub(crate) fn with_task(
    config: &FinetuneConfig,
    source: Source<'_>,
    action: Action<'_>,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinetuneReport, Error> {
    let config = &with_selected_device(config, on_event)?;
    // Check the flags before reading the files that describe a table.
    grid::cells(config, &TuningDefaults::published(config), None)?;
    action.check_output(&config.output)?;
    let (config, mut notes, rows) = match source {
        Source::Files => config.described().map(|(config, notes)| (config, notes, None))?,
        Source::Rows(rows) => {
            rows.described(config).map(|(config, notes, rows)| (config, notes, Some(rows)))?
        }
    };
    let config = &with_length(config, &mut notes)?;
    // Report the notes before reading the examples, because reading may take long or fail.
    notes.iter().cloned().for_each(|note| on_event(FinetuneEvent::Warning(note)));
    let cells = grid::cells(config, &TuningDefaults::published(config), None)?;
    // The cells differ only in learning rate, batch size and epochs.
    let max_seq_length = cells[0].resolved.max_seq_length;
    let saved = action.saved_identity(&config.output)?;
    let checkpoint = BaseCheckpoint::open(config, saved.as_ref(), on_event)?;
    let checkpoint = &BaseCheckpoint { notes, ..checkpoint };
    let setup = Setup { config, checkpoint, max_seq_length };
    let spec = config.task.spec();
    match spec.kind {
        Kind::Spans { .. } => action.run(&QuestionAnswering::read(setup)?, on_event),
        Kind::Tags => action.run(&TokenClassification::read(setup)?, on_event),
        _ if spec.choices > 0 => action.run(&Classification::<BertForMultipleChoice>::read(setup)?, on_event),
        _ if config.feature_head().is_some() => {
            action.run(&Classification::<BertWithFeatureHead>::open(setup, rows)?, on_event)
        }
        _ => action.run(&Classification::<BertForSequenceClassification>::open(setup, rows)?, on_event),
    }
}

impl Action<'_> {
    /// Checks the output folder before the first file is read.
    fn check_output(self, output: &Path) -> Result<(), Error> {
        match self {
            Self::Train { resume: true, .. } if !exists(output)? => Err(nothing_to_resume(output)),
            Self::Train { .. } => OutputFolder::check_free(output),
            Self::CheckFinished => Ok(()),
        }
    }

    /// Returns the identity of the saved fine-tuning that this action continues or checks.
    fn saved_identity(self, output: &Path) -> Result<Option<Value>, Error> {
        match self {
            Self::Train { resume: true, .. } => saved_identity(output),
            Self::Train { resume: false, .. } => Ok(None),
            Self::CheckFinished => Ok(Some(FinetuneReport::read(output)?.identity)),
        }
    }

    fn run<T: FinetuneTask>(
        self,
        task: &T,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<FinetuneReport, Error> {
        match self {
            Self::Train { resume, stop } => train(task, resume, stop, on_event),
            Self::CheckFinished => {
                let output = &task.setup().config.output;
                let report = FinetuneReport::read(output)?;
                let changed = report.differences(task)?;
                if !changed.is_empty() {
                    return Err(Error::model(format!(
                        "the finished fine-tuning in this folder has another configuration, other weights or other \
                         data: {}. `.resume` needs the same ones; choose another `.output`",
                        changed.join("; ")
                    ))
                    .at(output));
                }
                OutputFolder::clean_finished(output, remove_saved_runs)?;
                Ok(report)
            }
        }
    }
}

/// Trains every configuration and writes the output of the best.
fn train<T: FinetuneTask>(
    task: &T,
    resume: bool,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinetuneReport, Error> {
    let Setup { config, checkpoint, .. } = task.setup();
    let cells = &grid::cells(config, &checkpoint.defaults, Some(task.items()))?;
    let defaults = checkpoint.chosen_defaults(config, Some(task.items()));
    if !defaults.is_empty() {
        on_event(FinetuneEvent::Defaults(defaults));
    }
    report_notes(task, cells, on_event);
    check_device(task, cells, on_event)?;
    // Load the weights before creating the output folder, so that a failure leaves no files.
    let first = initial_model(task, config.seeds[0], on_event)?;
    let output = OutputFolder::open(&config.output)?;
    let several = cells.len() * config.seeds.len() > 1;
    let folder = output.folder().clone();
    let identity = identity(task)?;
    let start = RunStart { identity: &identity, checkpoint: &checkpoint.name };
    let saved = SavedRuns::open(folder, resume, &start, several, on_event)?;

    let mut log = saved.live_log();
    let mut logged = |event| {
        log.add(&event);
        on_event(event);
    };
    let search = GridSearch { task, cells: cells.len(), saved: &saved, stop };
    let result = search.train(cells, first, &mut logged)?;
    let report = write_output(task, &output, result, &saved, identity)?;
    saved.remove()?;
    output.finish()?;
    Ok(report)
}

/// Reports notes on the data and the machine before the first step.
fn report_notes<T: FinetuneTask>(task: &T, cells: &[Cell], on_event: &mut dyn FnMut(FinetuneEvent)) {
    let Setup { config, checkpoint, max_seq_length } = task.setup();
    let precision = cells[0].resolved.precision;
    let batch_sizes = cells.iter().map(|cell| cell.resolved.train_batch_size);
    let batch_size = batch_sizes.max().unwrap_or(1);
    let notes = task.sets().notes.iter().cloned();
    let largest = cells.iter().max_by_key(|cell| cell.resolved.train_batch_size);
    let batch = largest.and_then(|cell| cell.resolved.batch_warning(task.items()));
    let slow =
        precision.warning(config.compute.device, &checkpoint.model_config, batch_size * max_seq_length);
    let large = memory_warning(task, batch_size);
    notes.chain(batch).chain(slow).chain(large).for_each(|text| on_event(FinetuneEvent::Warning(text)));
}

/// Compares a micro-batch of the largest shape on a GPU with the CPU.
pub(crate) fn check_device<T: FinetuneTask>(
    task: &T,
    cells: &[Cell],
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<(), Error> {
    let Setup { config, checkpoint, max_seq_length } = task.setup();
    let batch_sizes = cells.iter().map(|cell| cell.resolved.train_batch_size);
    let batch_size = batch_sizes.max().unwrap_or(1).min(task.items().max(1));
    let items = batch_size.div_ceil(config.gradient_accumulation_steps as usize);
    let shape =
        CheckShape { rows: items * task.sequences_per_item(), length: max_seq_length, predictions: 1 };
    let model = BertConfig { compute: checkpoint.compute, ..checkpoint.model_config.clone() };
    let device = config.compute.device;
    if let Some(check) = check_before_first_step(device, &checkpoint.device, &model, shape)? {
        on_event(FinetuneEvent::DeviceChecked(device, check));
    }
    Ok(())
}

/// Returns a warning if a step of this batch size needs more memory than the process may use.
fn memory_warning<T: FinetuneTask>(task: &T, batch_size: usize) -> Option<String> {
    let Setup { config, checkpoint, max_seq_length } = task.setup();
    let parts = config.gradient_accumulation_steps as usize;
    let shape = StepShape {
        sequences: batch_size.min(task.items()).div_ceil(parts) * task.sequences_per_item(),
        length: max_seq_length,
        targets: 0,
        micro_batches: parts,
        optimizer_bytes: config.optimizer().update_rule().bytes_per_element(),
        ranks: 1,
        recompute: false,
        on_gpu: !config.compute.device.is_cpu(),
    };
    let model = BertConfig { compute: checkpoint.compute, ..checkpoint.model_config.clone() };
    memory::warning(&checkpoint.device, &model, &shape)
}
