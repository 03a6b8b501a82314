//! Defines what pre-training tells its caller, and what it writes into its logs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::evaluation::{Evaluation, EvaluationRecord};
use crate::metrics_log::nan_if_null;
use crate::precision::PrecisionChoice;

/// What happened in one step, as in `metrics.jsonl`: repeatable values only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepMetrics {
    /// Number of the step, the first is 1.
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
    /// Norm of all gradients together before clipping.
    #[serde(deserialize_with = "nan_if_null")]
    pub gradient_norm: f64,
    /// Real masked-LM targets in the global batch.
    pub predictions: u64,
    /// Precision of matrix products; logs of before there was a choice are of f32.
    #[serde(default)]
    pub precision: PrecisionChoice,
    /// Whether the update was skipped, because loss or gradient norm is not finite (`null` in JSON).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// How long a step took, as in `timing.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepTiming {
    /// Number of the step.
    pub step: u64,
    /// Seconds for the whole step.
    pub seconds: f64,
    /// Seconds of them waiting for the data loader.
    pub waiting: f64,
}

/// What the loop tells its caller.
#[derive(Clone, Debug)]
pub enum PretrainEvent {
    /// Steps are made to measure how many fit into the budget.
    Measuring,
    /// So many fit.
    Measured {
        /// Steps of the run.
        steps: u64,
        /// The mean of those that were measured.
        seconds_per_step: f64,
    },
    /// The training text is counted, for the initialization `counts`.
    Counting,
    /// The run starts, or goes on after this many steps.
    Started {
        /// Finished steps.
        step: u64,
        /// Steps in all.
        steps: u64,
        /// Parameters of the model with both heads.
        parameters: usize,
        /// Sequences in a global batch.
        batch_size: usize,
        /// Bytes of memory that a step takes, where they can be estimated.
        memory: Option<u64>,
    },
    /// A step is done.
    Step {
        /// What it did.
        metrics: StepMetrics,
        /// How long it took.
        timing: StepTiming,
    },
    /// An evaluation is done.
    Evaluated {
        /// After this many steps.
        step: u64,
        /// The figures.
        evaluation: Evaluation,
    },
    /// A checkpoint is committed.
    Saved {
        /// After this many steps.
        step: u64,
        /// Its folder.
        path: PathBuf,
    },
    /// The mean of the last checkpoints' weights is written.
    Averaged {
        /// The steps of these checkpoints.
        steps: Vec<u64>,
        /// Its folder.
        path: PathBuf,
        /// The figures on held-out data, if there are any.
        evaluation: Option<Evaluation>,
    },
    /// Something the user should know, in words.
    Warning(String),
}

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
pub struct PretrainOutcome {
    /// Finished steps.
    pub steps: u64,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
    /// Steps whose update was skipped.
    pub skipped_steps: u64,
    /// The last step's figures.
    pub metrics: Option<StepMetrics>,
    /// The last evaluation.
    pub evaluation: Option<Evaluation>,
    /// The evaluation of the weights in `best/`, if they are kept.
    pub best: Option<EvaluationRecord>,
    /// The evaluation of the mean in `average/`, if it is kept and there is held-out data.
    pub average: Option<Evaluation>,
    /// The step at which the run was found to have diverged, unless its loss has fallen again.
    pub diverged: Option<u64>,
}
