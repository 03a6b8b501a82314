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
//! seed-1/model/        each run's model, with --keep-seeds
//! predictions.*        the predictions of --predict
//! ```
//!
//! An example passes through the source folders in this order:
//!
//! | folder | content |
//! |---|---|
//! | `config/` | flags, defaults, the configurations of a grid |
//! | `data/` | reads the files of a task and holds examples out |
//! | `kinds/` | one file for each kind of task: batches, loss, answers, scores, predictions (`FinetuneTask`) |
//! | `run/` | loops over configurations, seeds, epochs and steps; selects the examples of each batch |
//! | `model/` | adapters, trainable layers, features of a frozen encoder |
//! | `files/` | files of the output folder: model, adapters, card |
//! | `output/` | writes the predictions, the best model and `report.json` |
//! | `multitask/` | the same loop with several tasks |
//!
//! A step uses [`bert_training::train_step`] as pre-training does. A configuration has one run per seed; flags with
//! several values make a grid of configurations, which are trained one after another.

mod config;
mod data;
mod events;
mod files;
mod finetune;
mod kinds;
mod model;
mod multitask;
mod output;
mod rows;
mod run;
mod setup;

#[doc(no_inline)]
pub use bert_inference::Resolved;
#[doc(no_inline)]
pub use bert_training::Error;

pub use crate::config::flag_values::{AdapterArgs, AdapterKind, Choices, Seeds, TableArgs};
pub use crate::config::grid::{CellReport, GridReport};
pub use crate::config::{FinetuneConfig, HeadKind, Selection};
pub use crate::data::datasets::TrainingRows;
pub use crate::data::holdout::TrainingParts;
pub use crate::data::text_hashes::SharedTexts;
pub use crate::events::{FinetuneEvent, TaskEpoch};
pub use crate::files::adapters::FusionReport;
pub use crate::files::model_card::CardOptions;
pub use crate::finetune::{check, check_finished, finetune};
pub use crate::model::adapters::TrainedParameters;
pub use crate::multitask::{MultitaskConfig, MultitaskReport, Sampling, multitask};
pub use crate::output::report::FinetuneReport;
pub use crate::output::selection::SelectionReport;
pub use crate::rows::finetune_rows;
pub use crate::run::run_report::{EpochReport, RunReport};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use crate::events::{PROGRESS, ProgressRecord, ProgressStep};
#[doc(hidden)]
pub use crate::files::{folder::DEV_LABELS, model_card};
#[doc(hidden)]
pub use crate::output::card::card_of_finetuning;
#[doc(hidden)]
pub use crate::run::{fingerprint::compared_settings, resume::FOLDER};
