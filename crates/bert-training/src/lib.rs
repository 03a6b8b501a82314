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
//! 1. [`PretrainConfig`] has every setting of a pre-training run. [`pretrain`] starts or continues the run;
//!    it reports [`PretrainEvent`]s to its caller and stops cleanly when a
//!    [`StopFlag`](bert_inference::StopFlag) is set.
//! 2. [`DeviceName`](bert_inference::DeviceName) opens the device, and
//!    [`FreshWeights`] holds the initial weights of a new model.
//! 3. [`DataLoader`] reads the shards, ahead of time in a
//!    `Prefetcher`, and provides a [`PretrainingBatch`] for
//!    each step.
//! 4. [`train_step`] sums the gradients of a batch, and an [`Optimizer`] updates
//!    the model at the learning rate of a [`Schedule`].
//! 5. [`evaluate`] returns an [`Evaluation`] on held-out data.
//! 6. `CheckpointFolder` of `bert-inference` finds the newest valid checkpoint
//!    of a run.
//!
//! `bert-finetuning` trains such a checkpoint on a task, `bert-inference` applies it to texts, and `bert-reports`
//! renders pages about it.
//!
//! # Guarantees
//!
//! - **A resumed run equals the uninterrupted run.** Sample order, masks and dropout are pure functions of the seed and
//!   a position in the run, so a checkpoint needs no random state. The bits are the same with the same program and
//!   processor; otherwise the run continues and reports the difference as a warning.
//! - **Micro-batches equal one batch.** A loss is a sum, divided once by the number of real targets in the whole global
//!   batch, so k micro-batches give the gradient of one batch.
//! - **A damaged checkpoint is never used.** Every file has a digest in a marker that is written last. A run continues
//!   only if its data and the settings that determine its results are unchanged.
//! - **Compute settings are explicit values.** A [`Compute`](bert_kernels::Compute) in
//!   [`BertConfig::compute`](bert_model::BertConfig::compute) and in the optimizer selects kernels and precision, so
//!   two models in one process may differ. Only [`bert_inference::DeviceName`] selects the backend.
//! - **Unsupported input is rejected.** Errors name the file and line, or the flag.
//! - **The library prints nothing and never exits the process.** It calls closures and returns an [`Error`], which
//!   provides the exit code for a program.
//!
//! The documentation of `bert-inference` describes the Cargo features.

mod data_loader;
mod error;
mod evaluation;
mod gradients;
mod group;
mod initialization;
mod optimizer;
mod pretrain;
mod run_dir;
mod step;

pub use crate::data_loader::training_data::TrainingData;
pub use crate::data_loader::{DataLoader, PretrainingBatch, ShardOrder};
pub use crate::error::{Class, Error};
pub use crate::evaluation::forgetting::MaskedLmScores;
pub use crate::evaluation::ngram_baselines::{Baseline, Baselines, baselines};
pub use crate::evaluation::top_k::top_k_accuracy;
pub use crate::evaluation::{Evaluation, EvaluationRecord, PartEvaluation, evaluate};
pub use crate::group::Group;
pub use crate::initialization::log_bilinear::CountingEvent;
pub use crate::initialization::{FreshWeights, InitializationChoice};
pub use crate::optimizer::Optimizer;
pub use crate::optimizer::adamw::AdamW;
pub use crate::optimizer::lamb::Lamb;
pub use crate::optimizer::optimizer_args::{
    OptimizerArgs, OptimizerConfig, OptimizerName, Schedule, ScheduleKind,
};
pub use crate::optimizer::size_defaults::ChosenDefault;
pub use crate::optimizer::update_rule::{
    Change, NormSquares, Parameter, UpdateByNorms, UpdateNumbers, UpdateRule,
};
pub use crate::pretrain::config::{EvalPart, PretrainConfig, RunLength};
pub use crate::pretrain::events::{PretrainEvent, PretrainOutcome, StepMetrics, StepTiming};
pub use crate::pretrain::time_budget::Budget;
pub use crate::pretrain::work::Work;
pub use crate::pretrain::{PretrainEstimate, dry_run, pretrain, pretrain_on};
pub use crate::run_dir::metrics_log::{Divergence, Rise};
pub use crate::run_dir::training_run::{Resume, TrainingRun};
pub use crate::step::device_check::DeviceCheck;
pub use crate::step::{
    MicroBatchLoss, NotFinite, StepReport, StepSettings, pretraining_objective, train_step,
};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use crate::data_loader::data_tokenizer;
#[doc(hidden)]
pub use crate::error::{
    after_step, at_least_one, check, check_value, corrupt, damaged, mismatch, not_finite, nothing_to_resume,
    output_exists, stopped,
};
#[doc(hidden)]
pub use crate::evaluation::{
    EvaluationSums, evaluate_batch,
    forgetting::{ForgettingTest, encoder_of},
    top_k::probe_instances,
};
#[doc(hidden)]
pub use crate::initialization::named_model;
#[doc(hidden)]
pub use crate::optimizer::size_defaults::ModelSize;
#[doc(hidden)]
pub use crate::pretrain::{
    best_and_average::{BEST, EVALUATION},
    pretrain_in,
    run_file::{DataRules, MixedData, Moments, RunFile, RunIdentity, RunPaths},
    shared_text::SharedText,
};
#[doc(hidden)]
pub use crate::run_dir::{histograms, identity, incomplete_output, metrics_log, training_run::trainer_state};
#[doc(hidden)]
pub use crate::step::{device_check, device_selection};
