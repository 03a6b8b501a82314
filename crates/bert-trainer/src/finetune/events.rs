//! Defines what a fine-tuning tells its caller while it runs.

use serde::{Deserialize, Serialize};

use super::grid::CellReport;
use crate::tasks::{Scores, Task};

/// What a fine-tuning tells its caller.
#[derive(Clone, Debug)]
pub enum FinetuneEvent {
    /// A step is done.
    Step {
        /// Of the run with this seed.
        seed: u64,
        /// Its number, from 1.
        step: u64,
        /// Steps of the run.
        steps: u64,
        /// Its loss.
        loss: f64,
    },
    /// Dev, or what is held out of train, was evaluated.
    Evaluated {
        /// By the run with this seed.
        seed: u64,
        /// After so many epochs.
        epoch: f64,
        /// The scores.
        scores: Scores,
        /// Whether they are on what is held out of train, not on dev.
        held_out: bool,
    },
    /// Several tasks that are trained together were evaluated.
    TasksEvaluated {
        /// After so many epochs.
        epoch: u64,
        /// Each of them.
        tasks: Vec<TaskEpoch>,
    },
    /// A run goes on where it was stopped.
    Resumed {
        /// The run's seed.
        seed: u64,
        /// The step after which it goes on; none where it was finished.
        step: Option<u64>,
    },
    /// A configuration of a grid is done.
    CellDone {
        /// Its number, from 1.
        cell: usize,
        /// Configurations of the grid.
        cells: usize,
        /// What it came to.
        report: CellReport,
    },
    /// Something the user should know, in words.
    Warning(String),
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
