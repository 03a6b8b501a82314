//! Fine-tunes a checkpoint on a task and scores the resulting model.
//!
//! Ports `run_classifier.py` and `run_squad.py`: heads, truncation, schedule and number of steps. The input is a
//! [`FinetuneConfig`]; the results are written to its output folder:
//!
//! ```text
//! report.json          configuration, every run with its history, mean, SD, median, baseline
//! model/               the best run's model as a Hugging Face folder; with --adapter, the adapter only
//! adapter/             the adapter's folder, when model/ has the merged model
//! dev_labels.tsv       the labels of dev, for classes and scores
//! seed-1/dev_*         each run's predictions on dev, in the task's usual format
//! predictions.*        the predictions of --predict
//! ```
//!
//! An objective (`objectives/`) defines the data, loss and scores of a task. The loop over steps, seeds and cells is
//! the same for all objectives and uses [`crate::training::step`], as pre-training does. A configuration has one run per
//! seed; flags with several values make a loop over configurations ([`grid`]).

use crate::finetune::config::grid;
pub mod config;
mod events;
pub mod model;
mod multitask;
pub(crate) mod objectives;
mod output;
pub mod run;

use bert_model::{BertConfig, BertForMultipleChoice, BertForSequenceClassification, BertWithFeatureHead};
use bert_storage::Locate;

pub use crate::encoding::classifier::{Classifier, decide, predict};
pub use crate::finetune::config::flag_values::{Choices, Seeds};
use crate::finetune::config::grid::Cell;
pub use crate::finetune::config::resolve::Resolved;
pub use crate::finetune::model::adapters::{FusionReport, TrainedParameters};
use crate::finetune::model::initial_model::start_model;
use crate::finetune::model::pretrained::{Opened, Setup};
use crate::finetune::objectives::classification::Labels;
use crate::finetune::objectives::question_answering::Spans;
use crate::finetune::objectives::token_classification::Tags;
pub use crate::finetune::output::report::{EpochReport, FinetuneReport, RunReport};
use crate::finetune::run::fingerprint::{changed_since, identity};
use crate::finetune::run::grid_search::{run_cells, write_output};
use crate::finetune::run::resume::SavedRuns;
pub use config::{AdapterKind, FinetuneConfig, HeadKind, Selection};
pub use events::{FinetuneEvent, TaskEpoch};
pub use multitask::{MultitaskConfig, MultitaskReport, Sampling, multitask};
use objectives::Objective;
pub(crate) use output::DEV_LABELS;
use output::Output;

use crate::compute::memory;
use crate::compute::memory::StepShape;
use crate::error::{Error, FolderProblem};
use crate::run_dir::json_file::exists;
use crate::training::stop_flag::StopFlag;
use bert_tasks::Kind;

/// Fine-tunes a checkpoint, once per seed. With `resume`, continues a stopped or killed fine-tuning in the output
/// folder.
///
/// # Errors
/// See [`Error`].
pub fn finetune(
    config: &FinetuneConfig,
    resume: bool,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinetuneReport, Error> {
    with_objective(config, Tune { resume, stop }, tell)
}

/// Checks that the finished fine-tuning in the output folder has this configuration and the same weights and data.
///
/// # Errors
/// [`FolderProblem::TuningDiffers`] with each difference; otherwise as [`finetune`].
pub fn check_finished(config: &FinetuneConfig) -> Result<(), Error> {
    with_objective(config, CheckFinished, &mut |_| {})
}

/// An operation that is generic over the objective.
trait Action {
    type Output;

    fn with<O: Objective>(
        self,
        objective: &O,
        cells: &[Cell],
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<Self::Output, Error>;
}

/// Reads the files of a configuration and runs an action on its objective.
fn with_objective<A: Action>(
    config: &FinetuneConfig,
    action: A,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<A::Output, Error> {
    // Check the flags before reading the files that describe a table.
    grid::cells(config)?;
    let (config, notes) = &config.described()?;
    let cells = &grid::cells(config)?;
    // The cells differ only in learning rate, batch size and epochs.
    let Resolved { precision, max_seq_length, .. } = cells[0].resolved;
    let opened = &Opened { notes: notes.clone(), ..Opened::new(config, precision, max_seq_length, tell)? };
    let setup = Setup { config, opened, max_seq_length };
    let spec = config.task.spec();
    match spec.kind {
        Kind::Spans { .. } => action.with(&Spans::read(setup)?, cells, tell),
        Kind::Tags => action.with(&Tags::read(setup)?, cells, tell),
        _ if spec.choices > 0 => action.with(&Labels::<BertForMultipleChoice>::read(setup)?, cells, tell),
        _ if config.feature_head().is_some() => {
            action.with(&Labels::<BertWithFeatureHead>::read(setup)?, cells, tell)
        }
        _ => action.with(&Labels::<BertForSequenceClassification>::read(setup)?, cells, tell),
    }
}

/// Checks a configuration as far as possible without reading its files.
///
/// # Errors
/// [`Error::Configuration`] naming the flag.
pub fn check(config: &FinetuneConfig) -> Result<(), Error> {
    grid::cells(config).map(drop)
}

struct CheckFinished;

impl Action for CheckFinished {
    type Output = ();

    fn with<O: Objective>(
        self,
        objective: &O,
        _cells: &[Cell],
        _tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<(), Error> {
        let changed = changed_since(objective)?;
        match changed.is_empty() {
            true => Ok(()),
            false => {
                Err(FolderProblem::FinishedDiffers(changed).located(&objective.setup().config.output).into())
            }
        }
    }
}

struct Tune<'a> {
    resume: bool,
    stop: &'a StopFlag,
}

impl Action for Tune<'_> {
    type Output = FinetuneReport;

    fn with<O: Objective>(
        self,
        objective: &O,
        cells: &[Cell],
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<FinetuneReport, Error> {
        tell_notes(objective, cells, tell);
        let config = objective.setup().config;
        // Load the weights before creating the output folder, so that a failure leaves no files.
        let first = start_model(objective, config.seeds[0], tell)?;
        if self.resume && !exists(&config.output)? {
            return Err(FolderProblem::NothingToResume.located(&config.output).into());
        }
        let output = Output::open(&config.output)?;
        let several = cells.len() * config.seeds.len() > 1;
        let (folder, identity) = (output.folder().clone(), identity(objective)?);
        let saved = SavedRuns::open(folder, self.resume, &identity, several, tell)?;

        let (cell, runs, grid) = run_cells(cells, first, &saved, objective, self.stop, tell)?;
        let report = write_output(objective, &output, (cell, grid), runs, identity)?;
        saved.remove()?;
        output.finish()?;
        Ok(report)
    }
}

/// Reports notes on the data and the machine before the first step.
fn tell_notes<O: Objective>(objective: &O, cells: &[Cell], tell: &mut dyn FnMut(FinetuneEvent)) {
    let Setup { config, opened, max_seq_length } = objective.setup();
    let precision = cells[0].resolved.precision;
    let sizes = cells.iter().map(|cell| cell.resolved.train_batch_size);
    let tokens = sizes.max().unwrap_or(1) * max_seq_length;
    let notes = opened.notes.iter().chain(&objective.sets().notes).cloned();
    let largest = cells.iter().max_by_key(|cell| cell.resolved.train_batch_size);
    let batch = largest.and_then(|cell| cell.resolved.batch_warning(objective.items()));
    let slow = precision.warning(config.device, &opened.model, tokens);
    let large = memory_warning(objective, tokens / max_seq_length);
    notes.chain(batch).chain(slow).chain(large).for_each(|text| tell(FinetuneEvent::Warning(text)));
}

/// Returns a warning if a step of this batch size needs more memory than the process may use.
fn memory_warning<O: Objective>(objective: &O, batch: usize) -> Option<String> {
    let Setup { config, opened, max_seq_length } = objective.setup();
    let parts = config.gradient_accumulation_steps as usize;
    let shape = StepShape {
        sequences: batch.min(objective.items()).div_ceil(parts) * config.task.spec().choices.max(1),
        length: max_seq_length,
        targets: 0,
        micro_batches: parts,
        recompute: false,
    };
    let model = BertConfig { compute: opened.compute, ..opened.model.clone() };
    memory::warning(&model, &shape).filter(|_| config.device.is_cpu())
}
