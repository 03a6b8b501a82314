//! Training of BERT: shards to batches, batches to steps, steps to checkpoints, checkpoints to
//! fine-tuned and scored models.
//!
//! | stage | room |
//! |---|---|
//! | shards -> batches | [`data_loader`] |
//! | loss -> optimizer step | [`train_step`], [`optimizer`], [`schedule`] |
//! | steps -> run | [`pretrain`], [`config`], [`run_folder`], [`computer`], [`metrics_log`] |
//! | step -> checkpoint | [`checkpoint`] |
//! | flags -> device, kernels, precision | [`device`], [`precision`] |
//! | held-out data -> figures | [`evaluation`], [`baselines`] |
//! | task files -> examples, metrics, predictions | [`tasks`] |
//! | checkpoint -> fine-tuned classifier | [`finetune`] |
//! | questions on a text -> answers, exact match, F1 | [`question_answering`] |
//! | tagged words -> entities, precision, recall, F1 | [`token_classification`] |
//! | scores -> how sure they are | [`significance`] |
//! | fine-tunings -> side by side | [`scores`] |
//! | run -> page | [`report`] |
//! | model -> predictions, features, what flips | [`inference`] |
//! | checkpoint -> words, attention page, Hugging Face folder | [`fill_mask`], [`mod@attention`], [`export`] |
//!
//! Which backend computes is decided in [`device`] alone. The library prints nothing and ends no
//! process: it calls closures and returns errors.

pub mod attention;
pub mod baselines;
pub mod checkpoint;
pub mod computer;
pub mod config;
pub mod data_loader;
pub mod device;
mod device_name;
pub mod error;
pub mod evaluation;
pub mod export;
pub mod fill_mask;
pub mod finetune;
pub mod glue;
mod host;
pub mod inference;
pub mod initialization;
mod json_file;
pub mod log_bilinear;
pub mod metrics_log;
mod model_card;
mod neighbour_counts;
pub mod optimizer;
mod padding;
pub mod precision;
pub mod pretrain;
pub mod question_answering;
pub mod report;
pub mod run_folder;
pub mod schedule;
pub mod scores;
pub mod significance;
pub mod stop;
pub mod synthetic;
pub mod tasks;
pub mod text;
pub mod token_classification;
pub mod train_step;
mod unfinished;

pub use config::PretrainConfig;
pub use device_name::{DEVICE_HELP, DeviceName};
pub use error::Error;
pub use initialization::InitializationChoice;
pub use stop::StopFlag;
