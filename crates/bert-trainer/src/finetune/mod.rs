//! Fine-tunes a checkpoint on a task's files and scores the tuned model.
//!
//! Ports `run_classifier.py` and `run_squad.py`: heads, truncation, schedule and number of steps. A
//! [`FinetuneConfig`] describes the work, and the results are in its output folder:
//!
//! ```text
//! report.json          configuration, every run and its course, mean, SD, median, baseline
//! model/               the best run's model as a Hugging Face folder; of --adapter, the adapter's own
//! adapter/             the adapter's folder, when model/ has the merged model
//! dev_labels.tsv       what answers are compared with, where they are classes or scores
//! seed-1/dev_*         what each run answers to dev, in the form of the task's community
//! predictions.*        of --predict
//! ```
//!
//! An objective (`objectives/`) says what is learned. The loop over steps, seeds and cells is the same for all
//! objectives, and it makes its steps with [`crate::train_step`], as pre-training does. One configuration has a run
//! for each seed; flags with several values make a loop over configurations ([`grid`]).

pub mod adapter;
mod adapter_options;
mod choices;
pub mod config;
mod events;
mod exact;
pub mod features;
mod fusion;
pub mod grid;
mod identity;
mod layers;
mod multitask;
mod objectives;
mod output;
mod progress;
mod questions;
mod report;
mod runs;
mod saved;
pub mod seed_run;
pub mod seeds;
mod setup;
mod start;
pub mod subset;
mod table;

use bert_model::{BertConfig, BertForMultipleChoice, BertForSequenceClassification, BertWithFeatureHead};
use bert_storage::{Disk, FileSystem, write_json_atomic_on};

use crate::finetune::runs::report_of;
pub use adapter::TrainedParameters;
pub use adapter_options::AdapterKind;
pub use choices::Choices;
pub use config::{FinetuneConfig, HeadKind, Resolved, Selection};
pub use events::FinetuneEvent;
pub use fusion::FusionReport;
use grid::Cell;
use identity::identity;
pub use multitask::{MultitaskConfig, MultitaskReport, Sampling, multitask};
use objectives::labels::Labels;
pub use objectives::labels::{Classifier, decide, predict};
use objectives::spans::Spans;
use objectives::tags::Tags;
use objectives::{Objective, Part};
pub(crate) use output::DEV_LABELS;
use output::Output;
pub use progress::TaskEpoch;
pub use report::{FinetuneReport, RunReport};
use runs::{Start, run_cells};
use saved::SavedRuns;
pub use seeds::Seeds;
use setup::Setup;
use start::start_model;

use crate::checkpoint::resolve_model_folder;
use crate::error::Error;
use crate::stop::StopFlag;
use crate::tasks::Kind;
use crate::text::Text;

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

/// Checks a configuration as far as that is possible without its files.
///
/// # Errors
/// [`Error::Configuration`] naming the flag.
pub fn check(config: &FinetuneConfig) -> Result<(), Error> {
    grid::cells(config).map(drop)
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
    let max_seq_length = resolved.max_seq_length;
    let layers = model.num_hidden_layers;
    let compute = resolved.precision.with(config.kernels);
    let setup =
        Setup { config, text: &text, start: &start, layers, max_seq_length, device: &device, compute };
    let job = Job { files, setup, cells: &cells, resume, stop };
    let spec = config.task.spec();
    match spec.kind {
        Kind::Spans { .. } => job.tune(Spans::read(setup)?, tell),
        Kind::Tags => job.tune(Tags::read(setup)?, tell),
        _ if spec.choices > 0 => job.tune(Labels::<BertForMultipleChoice>::read(setup)?, tell),
        _ if config.feature_head().is_some() => job.tune(Labels::<BertWithFeatureHead>::read(setup)?, tell),
        _ => job.tune(Labels::<BertForSequenceClassification>::read(setup)?, tell),
    }
}

/// A fine-tuning whose configuration is checked and whose files are read.
struct Job<'a> {
    files: &'a dyn FileSystem,
    setup: Setup<'a>,
    cells: &'a [Cell],
    resume: bool,
    stop: &'a StopFlag,
}

impl Job<'_> {
    fn tune<O: Objective>(
        self,
        objective: O,
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<FinetuneReport, Error> {
        let Self { files, setup, cells, resume, stop } = self;
        let config = setup.config;
        // Before the output is made: weights that cannot be used leave nothing behind.
        let first = Some(start_model(setup, &objective, config.seeds[0], tell)?);
        if resume && !config.output.exists() {
            return Err(Error::NothingToResume { path: config.output.clone() });
        }
        let output = Output::open(files, &config.output)?;
        let several = cells.len() * config.seeds.len() > 1;
        let identity = identity(config, setup.start, &objective)?;
        let saved = SavedRuns::open(files, &config.output, resume, &identity, several, tell)?;

        let from = Start { setup, first, saved: &saved };
        let (cell, runs, grid) = run_cells(cells, from, &objective, stop, tell)?;
        let model = runs.model(&config.output)?;
        let dev: Vec<_> =
            runs.finished.iter().map(|(run, answers)| (run.seed, &answers[&Part::Dev])).collect();
        objective.write_dev(&output, &dev)?;
        objective.write_predictions(&output, model)?;
        objective.save_model(&output, model, &runs.model_config)?;
        let parameters = TrainedParameters::new(config, model, setup.layers);
        let fusion = objective.fusion(model)?;
        let report = FinetuneReport { grid, fusion, ..report_of(setup, &objective, cell, runs, parameters) };
        write_json_atomic_on(output.files, &config.output.join("report.json"), &report)?;
        saved.remove()?;
        output.finish()?;
        Ok(report)
    }
}
