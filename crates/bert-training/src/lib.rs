//! Pre-trains BERT on the shards of `bert-data`, and provides the training step that fine-tuning shares.
//!
//! The models come from `bert-model`. This crate provides the data loader, the optimizers, the training step, process
//! groups, the files of a run and the evaluation on held-out data.
//!
//! ```
//! use bert_training::PretrainConfig;
//!
//! // As the paper pre-trains BERT-base: a data folder, the folder of the run, and a million steps.
//! let config = PretrainConfig::new("data", "run", 1_000_000).with_model("base").with_batch_size(256);
//! config.validate()?;
//!
//! // The learning rate rises from zero during warm-up and falls to zero over the whole run.
//! let schedule = config.schedule();
//! assert_eq!(schedule.warmup_steps, 10_000.0);
//! assert_eq!(schedule.learning_rate(0), 0.0);
//! assert_eq!(schedule.learning_rate(500_000), 5e-5);
//! # Ok::<(), bert_training::Error>(())
//! ```
//!
//! # Tour
//!
//! The main types, in the order in which a run uses them:
//!
//! 1. [`PretrainConfig`] has every setting of a pre-training run. [`pretrain::pretrain`] starts or continues the run;
//!    it reports [`PretrainEvent`](pretrain::PretrainEvent)s to its caller and stops cleanly when a
//!    [`StopFlag`](bert_inference::StopFlag) is set.
//! 2. [`DeviceName`](bert_inference::DeviceName) opens the device, and
//!    [`FreshWeights`](initialization::FreshWeights) holds the initial weights of a new model.
//! 3. [`DataLoader`](data_loader::DataLoader) reads the shards, ahead of time in a
//!    [`Prefetcher`](data_loader::Prefetcher), and provides a [`PretrainingBatch`](data_loader::PretrainingBatch) for
//!    each step.
//! 4. [`train_step`](step::train_step) sums the gradients of a batch, and an [`Optimizer`](optimizer::Optimizer) updates
//!    the model at the learning rate of a [`Schedule`](optimizer::lr_schedule::Schedule).
//! 5. [`evaluate`](evaluation::evaluate) returns an [`Evaluation`](evaluation::Evaluation) on held-out data.
//! 6. [`CheckpointFolder`](bert_inference::model_dir::checkpoint::CheckpointFolder) finds the newest valid checkpoint
//!    of a run.
//!
//! `bert-finetuning` trains such a checkpoint on a task, `bert-inference` applies it to texts, and `bert-reports`
//! renders pages about it.
//!
//! # Guarantees
//!
//! - **A resumed run equals the uninterrupted run.** Sample order, masks and dropout are pure functions of the seed and
//!   a position in the run, so a checkpoint needs no random state. The bits are the same with the same program and
//!   processor; otherwise the run continues and prints a warning with the difference.
//! - **Micro-batches equal one batch.** A loss is a sum, divided once by the number of real targets in the whole global
//!   batch, so k micro-batches give the gradient of one batch.
//! - **A damaged checkpoint is never used.** Every file has a digest in a marker that is written last. A run continues
//!   only if its data and the settings that determine its results are unchanged.
//! - **Compute settings are explicit values.** A [`Compute`](bert_kernels::Compute) in
//!   [`BertConfig::compute`](bert_model::BertConfig::compute) and in the optimizer selects kernels and precision, so
//!   two models in one process may differ. Only [`bert_inference::compute::device`] selects the backend.
//! - **Unsupported input is rejected.** Errors name the file and line, or the flag.
//! - **The library prints nothing and never exits the process.** It calls closures and returns an [`Error`], which
//!   provides the exit code for a program.
//!
//! `bert-inference` describes the features.

pub mod data_loader;
mod error;
pub mod evaluation;
pub(crate) mod gradients;
pub mod group;
pub mod initialization;
pub mod optimizer;
pub mod pretrain;
pub mod run_dir;
pub mod step;

pub use crate::error::{Error, RunProblem, check};

pub use crate::initialization::InitializationChoice;
pub use crate::pretrain::config::PretrainConfig;
