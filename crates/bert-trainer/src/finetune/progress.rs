//! Records how far a run of one seed has come, for its report and for its saved state.

use crate::tasks::Scores;
use crate::tasks::Task;
use serde::{Deserialize, Serialize};

/// An epoch of a run, or what was left of the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Finished steps.
    pub step: u64,
    /// Epochs, `step * batch / examples`.
    pub epoch: f64,
    /// Mean training loss of its steps; none when it had no step, as one of several tasks may.
    pub train_loss: Option<f64>,
    /// Scores on dev after it, when they were taken (`--select last`: at the end only; `--holdout`: never).
    pub dev: Option<Scores>,
    /// Scores on what is held out of train, when they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<Scores>,
}

/// Where a run stands: all that is not in weights and moments.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Finished steps.
    pub(super) step: u64,
    /// Losses of the steps since the last epoch.
    pub(super) losses: Vec<f64>,
    /// Finished epochs.
    pub(super) history: Vec<EpochReport>,
    /// Epochs since the best.
    pub(super) waited: u64,
    /// Epochs until the best state, once there is one.
    pub(super) best_epoch: Option<f64>,
}

/// What a task came to in an epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskEpoch {
    /// The task.
    pub task: Task,
    /// Steps that were its.
    pub steps: u64,
    /// Their mean loss; none when it had no step.
    pub train_loss: Option<f64>,
    /// Its scores on dev after the epoch.
    pub dev: Scores,
}
