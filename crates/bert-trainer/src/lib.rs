//! Trains BERT: pre-training on the shards of `bert-data`, fine-tuning on tasks, and what comes after, from scores
//! to report pages.
//!
//! The models are those of `bert-model`. This crate has the data loader, the optimizer, the training loops,
//! checkpoints, the tasks with their metrics, and inference.
//!
//! ```
//! use bert_trainer::PretrainConfig;
//!
//! // As the paper pre-trains BERT-base: a data folder, the folder of the run, and a million steps.
//! let config = PretrainConfig::new("data", "run", 1_000_000).with_model("base").with_batch_size(256);
//! config.validate()?;
//!
//! // The learning rate rises from zero during warm-up and falls to zero over the whole run.
//! let schedule = config.schedule();
//! assert_eq!(schedule.warmup_steps, 10_000);
//! assert_eq!(schedule.learning_rate(0), 0.0);
//! assert_eq!(schedule.learning_rate(500_000), 5e-5);
//! # Ok::<(), bert_trainer::Error>(())
//! ```
//!
//! # Tour
//!
//! The main types, in the order in which a run meets them:
//!
//! 1. [`PretrainConfig`] has every setting of a pre-training run. [`pretrain::pretrain`] starts or continues the
//!    run; it tells its caller about [`PretrainEvent`](pretrain::PretrainEvent)s and stops cleanly when a
//!    [`StopFlag`] is set.
//! 2. [`DeviceName`] opens the device, and [`FreshWeights`](initialization::FreshWeights) are the weights that a
//!    new model begins with.
//! 3. [`RunFolder`](run_folder::RunFolder) is the locked folder of the run. Its `run.json` says what the run
//!    computes.
//! 4. [`DataLoader`](data_loader::DataLoader) reads the shards, ahead of time in a
//!    [`Prefetcher`](data_loader::Prefetcher), and gives each step a
//!    [`PretrainingBatch`](data_loader::PretrainingBatch).
//! 5. [`train_step`](train_step::train_step) adds up the gradients of a batch, and [`AdamW`](optimizer::AdamW)
//!    updates the model at the learning rate of a [`Schedule`](schedule::Schedule).
//! 6. [`evaluate`](evaluation::evaluate) gives an [`Evaluation`](evaluation::Evaluation) on held-out data.
//! 7. [`CheckpointFolder`](checkpoint::CheckpointFolder) writes checkpoints and finds the newest good one.
//! 8. [`FinetuneConfig`](finetune::FinetuneConfig) has every setting of a fine-tuning from such a checkpoint, and
//!    names a [`Task`](tasks::Task). [`finetune::finetune`] trains one model per seed and gives a
//!    [`FinetuneReport`](finetune::FinetuneReport), whose [`SeedSummary`](significance::SeedSummary) has the scores over
//!    all seeds.
//! 9. [`Predictor`](inference::Predictor) answers new texts with the tuned model, and [`report::report`] builds a
//!    page of a run or a fine-tuning.
//!
//! The modules, by what they do:
//!
//! | what | module |
//! |---|---|
//! | shards to batches | [`data_loader`] |
//! | a batch to an optimizer step | [`train_step`], [`optimizer`], [`schedule`] |
//! | a shape to fresh weights | [`initialization`], [`log_bilinear`] |
//! | steps to a run | [`pretrain`], [`config`], [`run_folder`], [`computer`], [`metrics_log`], [`stop`] |
//! | a step to a checkpoint | [`checkpoint`] |
//! | flags to a device, kernels and precision | [`device`], [`precision`] |
//! | held-out data to figures | [`evaluation`], [`baselines`] |
//! | losses to a warning, a shape to the memory it needs | [`divergence`], [`memory`] |
//! | task files to examples, metrics and predictions | [`tasks`] |
//! | a checkpoint to a fine-tuned and scored model | [`finetune`] |
//! | questions on a text to answers, exact match and F1 | [`question_answering`] |
//! | tagged words to entities, precision, recall and F1 | [`token_classification`] |
//! | how sure scores are | [`significance`] |
//! | fine-tunings side by side | [`scores`], [`glue`] |
//! | a run or a fine-tuning to a page | [`report`] |
//! | a model and new texts to answers, features and flipped predictions | [`inference`], [`text`] |
//! | a checkpoint to words for masks, or to an attention page | [`fill_mask`], [`mod@attention`] |
//! | a checkpoint to a Hugging Face folder | [`export`] |
//! | every way to fail | [`error`] |
//!
//! # Promises
//!
//! - **A resumed run is the uninterrupted run.** Sample order, masks and dropout are pure functions of the seed and
//!   of a place in the run, so a checkpoint holds no random state. The bits are the same on the same program and
//!   processor; elsewhere the run continues and says so ([`computer`]).
//! - **Micro-batches are one batch.** A loss is a sum, divided once by the number of real targets in the whole
//!   global batch, so k micro-batches give the gradient of one batch.
//! - **A damaged checkpoint is never used.** Every file has a digest in a marker that is written last. A run
//!   continues only if the settings that decide its numbers, and its data, are what it began with.
//! - **How a model computes is a value.** A [`Compute`](bert_kernels::Compute) in
//!   [`BertConfig::compute`](bert_model::BertConfig::compute) and in the optimizer selects kernels and precision,
//!   so two models in one process may differ. [`device`] alone decides which backend computes.
//! - **Unsupported means refused.** Errors name the file and line, or the flag.
//! - **The library prints nothing and ends no process.** It calls closures and returns an [`Error`], which knows
//!   the exit code of a program that ends with it.
//!
//! # Features
//!
//! | feature | what |
//! |---|---|
//! | `flex` (default) | burn's pure-Rust CPU backend |
//! | `cli` (default) | the configurations are flags, through clap |
//! | `ndarray` | burn's older CPU backend |
//! | `cuda` | the CUDA backend; no figure from a card exists yet |

pub mod attention;
pub mod baselines;
pub mod budget;
pub mod built_in;
pub mod checkpoint;
pub mod computer;
pub mod config;
pub mod data_loader;
pub mod device;
mod device_name;
pub mod divergence;
pub mod error;
pub mod evaluation;
pub mod export;
pub mod fill_mask;
pub mod finetune;
pub mod glue;
pub mod held;
mod host;
pub mod inference;
pub mod initialization;
mod json_file;
pub mod log_bilinear;
pub mod memory;
pub mod metrics_log;
mod model_card;
mod neighbour_counts;
pub mod optimizer;
mod padding;
pub mod precision;
pub mod pretrain;
pub mod pretrained_heads;
pub mod question_answering;
pub mod report;
mod report_file;
pub mod run_folder;
pub mod schedule;
pub mod scores;
pub mod significance;
pub mod stop;
pub mod tasks;
pub mod text;
pub mod token_classification;
pub mod top_k;
pub mod train_step;
mod unfinished;

pub use config::PretrainConfig;
pub use device_name::{DEVICE_HELP, DeviceName};
pub use error::{Error, FolderProblem};
pub use initialization::InitializationChoice;
pub use stop::StopFlag;
