//! Defines the events of pre-training for the caller, and the records of its logs.

use std::path::PathBuf;

use bert_inference::{DeviceName, PrecisionChoice};
use serde::{Deserialize, Serialize};

use crate::evaluation::{Evaluation, EvaluationRecord};
use crate::initialization::log_bilinear::CountingEvent;
use crate::optimizer::size_defaults::ChosenDefault;
use crate::pretrain::work::Work;
use crate::run_dir::metrics_log::nan_if_null;
use crate::step::device_check::DeviceCheck;

/// Metrics of one step, as in `metrics.jsonl`: reproducible values only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepMetrics {
    /// Number of the step, starting at 1.
    pub step: u64,
    /// masked_lm_loss + next_sentence_loss.
    #[serde(deserialize_with = "nan_if_null")]
    pub loss: f64,
    /// Mean negative log-likelihood of the masked tokens, in nats.
    #[serde(deserialize_with = "nan_if_null")]
    pub masked_lm_loss: f64,
    /// Mean cross-entropy of the next-sentence labels, in nats.
    #[serde(deserialize_with = "nan_if_null")]
    pub next_sentence_loss: f64,
    /// The learning rate of the step's update.
    #[serde(deserialize_with = "nan_if_null")]
    pub learning_rate: f64,
    /// Global gradient norm before clipping.
    #[serde(deserialize_with = "nan_if_null")]
    pub gradient_norm: f64,
    /// Number of real masked-LM targets in the global batch.
    pub predictions: u64,
    /// Precision of matrix products.
    pub precision: PrecisionChoice,
    /// Whether the update was skipped because of a non-finite loss or gradient norm (`null` in JSON).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// Duration of a step, as in `timing.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepTiming {
    /// Number of the step.
    pub step: u64,
    /// Duration of the whole step in seconds.
    pub seconds: f64,
    /// Time in seconds that the step waited for the data loader.
    pub waiting: f64,
}

/// An event of the training loop for its caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PretrainEvent {
    /// The run measures how many steps fit into the budget.
    Measuring,
    /// The measurement has finished.
    Measured {
        /// Number of steps of the run.
        steps: u64,
        /// Mean duration of the measured steps in seconds.
        seconds_per_step: f64,
    },
    /// The run has chosen values for options that no flag gave.
    Defaults(Vec<ChosenDefault>),
    /// The device has passed its check.
    DeviceChecked(DeviceName, DeviceCheck),
    /// The bigrams of the training text are being counted, for the initialization `bigram`.
    Counting(CountingEvent),
    /// The run starts, or resumes after this many steps.
    Started {
        /// Number of finished steps.
        step: u64,
        /// Total number of steps.
        steps: u64,
        /// Number of parameters of the model with both heads.
        parameters: usize,
        /// Number of sequences in a global batch.
        batch_size: usize,
        /// Estimated memory of a step in bytes.
        memory: u64,
        /// The floating-point operations of a sequence, and the rate of the device.
        work: Work,
    },
    /// A step has finished.
    Step {
        /// The metrics of the step.
        metrics: StepMetrics,
        /// The duration of the step.
        timing: StepTiming,
    },
    /// An evaluation has finished.
    Evaluated {
        /// Number of finished steps.
        step: u64,
        /// The scores.
        evaluation: Evaluation,
    },
    /// A checkpoint is committed.
    Saved {
        /// Number of finished steps.
        step: u64,
        /// The folder of the checkpoint.
        path: PathBuf,
    },
    /// The average of the last checkpoints' weights has been written.
    Averaged {
        /// The steps of the averaged checkpoints.
        steps: Vec<u64>,
        /// The folder of the average.
        path: PathBuf,
        /// The scores on held-out data, if any.
        evaluation: Option<Evaluation>,
    },
    /// A warning for the user.
    Warning(String),
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PretrainOutcome {
    /// Number of finished steps.
    pub steps: u64,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
    /// Number of steps whose update was skipped.
    pub skipped_steps: u64,
    /// The metrics of the last step.
    pub metrics: Option<StepMetrics>,
    /// The last evaluation.
    pub evaluation: Option<Evaluation>,
    /// The evaluation of the weights in `best/`, if they are saved.
    pub best: Option<EvaluationRecord>,
    /// The evaluation of the average in `average/`, if it is saved and there is held-out data.
    pub average: Option<Evaluation>,
    /// The step at which divergence was detected, unless the loss has recovered since.
    pub diverged: Option<u64>,
}
