//! Trains BERT: pre-training on the shards of `bert-data`, fine-tuning on tasks, evaluation, inference and HTML
//! reports.
//!
//! The models come from `bert-model`. This crate provides the data loader, the optimizer, the training loops,
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
//! The main types, in the order in which a run uses them:
//!
//! 1. [`PretrainConfig`] has every setting of a pre-training run. [`pretrain::pretrain`] starts or continues the run;
//!    it reports [`PretrainEvent`](pretrain::PretrainEvent)s to its caller and stops cleanly when a [`StopFlag`] is
//!    set.
//! 2. [`DeviceName`] opens the device, and [`FreshWeights`](initialization::FreshWeights) holds the initial weights of
//!    a new model.
//! 3. [`RunFolder`](run_folder::RunFolder) is the locked folder of the run. Its `run.json` records the settings that
//!    determine the results.
//! 4. [`DataLoader`](data_loader::DataLoader) reads the shards, ahead of time in a
//!    [`Prefetcher`](data_loader::Prefetcher), and provides a [`PretrainingBatch`](data_loader::PretrainingBatch) for
//!    each step.
//! 5. [`train_step`](train_step::train_step) sums the gradients of a batch, and [`AdamW`](optimizer::AdamW) updates the
//!    model at the learning rate of a [`Schedule`](schedule::Schedule).
//! 6. [`evaluate`](evaluation::evaluate) returns an [`Evaluation`](evaluation::Evaluation) on held-out data.
//! 7. [`CheckpointFolder`](checkpoint::CheckpointFolder) writes checkpoints and finds the newest valid one.
//! 8. [`FinetuneConfig`](finetune::FinetuneConfig) has every setting of a fine-tuning from such a checkpoint, and names
//!    a [`Task`](tasks::Task). [`finetune::finetune`] trains one model per seed and returns a
//!    [`FinetuneReport`](finetune::FinetuneReport), whose [`SeedSummary`](significance::SeedSummary) has the scores
//!    over all seeds.
//! 9. [`Predictor`](inference::Predictor) runs the tuned model on new texts, and [`report::report`] builds an HTML page
//!    of a run or a fine-tuning.
//!
//! The modules by purpose:
//!
//! | purpose | module |
//! |---|---|
//! | shards to batches | [`data_loader`] |
//! | one optimizer step on a batch | [`train_step`], [`optimizer`], [`schedule`] |
//! | initial weights | [`initialization`], [`log_bilinear`] |
//! | a pre-training run | [`pretrain`], [`config`], [`run_folder`], [`computer`], [`metrics_log`], [`stop`] |
//! | checkpoints | [`checkpoint`] |
//! | device, kernels and precision | [`device`], [`precision`] |
//! | evaluation on held-out data | [`evaluation`], [`baselines`] |
//! | detection of divergence, memory estimate | [`divergence`], [`memory`] |
//! | task files, metrics and predictions | [`tasks`] |
//! | fine-tuning and its scores | [`finetune`] |
//! | question answering: exact match and F1 | [`question_answering`] |
//! | token classification: entities, precision, recall and F1 | [`token_classification`] |
//! | statistical significance of scores | [`significance`] |
//! | comparison of fine-tunings | [`scores`], [`glue`] |
//! | HTML report of a run or a fine-tuning | [`report`] |
//! | inference: answers, features, probes for flipped predictions | [`inference`], [`text`] |
//! | masked-word predictions, attention pages | [`fill_mask`], [`mod@attention`] |
//! | export as a Hugging Face folder | [`export`] |
//! | errors | [`error`] |
//!
//! # Guarantees
//!
//! - **A resumed run equals the uninterrupted run.** Sample order, masks and dropout are pure functions of the seed and
//!   a position in the run, so a checkpoint needs no random state. The bits are the same with the same program and
//!   processor; otherwise the run continues and reports the difference ([`computer`]).
//! - **Micro-batches equal one batch.** A loss is a sum, divided once by the number of real targets in the whole global
//!   batch, so k micro-batches give the gradient of one batch.
//! - **A damaged checkpoint is never used.** Every file has a digest in a marker that is written last. A run continues
//!   only if its data and the settings that determine its results are unchanged.
//! - **Compute settings are explicit values.** A [`Compute`](bert_kernels::Compute) in
//!   [`BertConfig::compute`](bert_model::BertConfig::compute) and in the optimizer selects kernels and precision, so
//!   two models in one process may differ. Only [`device`] selects the backend.
//! - **Unsupported input is rejected.** Errors name the file and line, or the flag.
//! - **The library prints nothing and never exits the process.** It calls closures and returns an [`Error`], which
//!   provides the exit code for a program.
//!
//! # Features
//!
//! | feature | content |
//! |---|---|
//! | `flex` (default) | burn's pure-Rust CPU backend |
//! | `cli` (default) | the configurations as clap flags |
//! | `ndarray` | burn's older CPU backend |
//! | `cuda` | the CUDA backend; untested on a GPU |

pub mod compare;
pub mod compute;
pub mod data_loader;
pub mod encoding;
pub mod error;
pub mod evaluation;
pub mod export;
pub mod finetune;
pub mod inference;
pub mod initialization;
pub mod pretrain;
pub mod report;
pub mod run_dir;
pub mod training;

pub use crate::compute::device::{DEVICE_HELP, DeviceName};
pub use crate::pretrain::config::PretrainConfig;
pub use crate::training::stop_flag::StopFlag;
pub use error::{Error, FolderProblem};
pub use initialization::InitializationChoice;
