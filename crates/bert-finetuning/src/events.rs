//! Defines the events that a fine-tuning reports to its caller while it runs.

use bert_inference::DeviceName;
use bert_tasks::{Scores, Task};
use bert_training::device_check::DeviceCheck;
use bert_training::{ChosenDefault, CountingEvent, MaskedLmScores};
use serde::{Deserialize, Serialize};

use crate::config::grid::CellReport;

/// An event of a fine-tuning.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FinetuneEvent {
    /// A step finished.
    Step {
        /// Number of the configuration in a grid, from 1; `None` without a grid.
        cell: Option<usize>,
        /// Seed of the run.
        seed: u64,
        /// Step number, from 1.
        step: u64,
        /// Total steps of the run.
        steps: u64,
        /// Training loss.
        loss: f64,
    },
    /// Dev or the held-out part of train was evaluated.
    Evaluated {
        /// Number of the configuration in a grid, from 1; `None` without a grid.
        cell: Option<usize>,
        /// Seed of the run.
        seed: u64,
        /// Epochs trained so far.
        epoch: f64,
        /// The scores.
        scores: Scores,
        /// Whether the scores are on the held-out part of train instead of dev.
        held_out: bool,
    },
    /// The masked LM was evaluated after an epoch.
    MaskedLm {
        /// Seed of the run.
        seed: u64,
        /// Epochs trained so far.
        epoch: f64,
        /// The figures.
        scores: MaskedLmScores,
    },
    /// All tasks of a multi-task training were evaluated.
    TasksEvaluated {
        /// Epochs trained so far.
        epoch: u64,
        /// Results of each task.
        tasks: Vec<TaskEpoch>,
    },
    /// A stopped run continues.
    Resumed {
        /// The run's seed.
        seed: u64,
        /// The last finished step; `None` if the run had finished.
        step: Option<u64>,
    },
    /// A configuration of a grid finished.
    CellDone {
        /// Cell number, from 1.
        cell: usize,
        /// Number of configurations in the grid.
        cells: usize,
        /// Its scores.
        report: CellReport,
    },
    /// Options that no flag gave were chosen.
    Defaults(Vec<ChosenDefault>),
    /// The device has passed its check.
    DeviceChecked(DeviceName, DeviceCheck),
    /// The text of --initialization-data is being counted.
    Counting(CountingEvent),
    /// A warning for the user.
    Warning(String),
}

/// Results of one task in an epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskEpoch {
    /// The task.
    pub task: Task,
    /// Steps taken on this task.
    pub steps: u64,
    /// Mean loss of these steps; `None` if there were none.
    pub train_loss: Option<f64>,
    /// Scores on dev after the epoch.
    pub dev: Scores,
}
