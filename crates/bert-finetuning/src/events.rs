//! Defines the events that a fine-tuning reports to its caller while it runs, and writes the losses and scores among
//! them to `OUTPUT/.runs/progress.jsonl` for `bert watch`.
//!
//! The file is not synced. A resumed fine-tuning continues it. It is removed with `.runs/` when the report is written.

use std::io::Write;

use bert_inference::DeviceName;
use bert_storage::{Durable, StagedFolder};
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
    /// The model was evaluated on dev or on the held-out part of train.
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
        /// The scores.
        scores: MaskedLmScores,
    },
    /// All tasks of a multi-task run were evaluated.
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
        /// The scores of the configuration.
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
    /// Mean loss of the steps on this task; `None` if there were none.
    pub train_loss: Option<f64>,
    /// Scores on dev after the epoch.
    pub dev: Scores,
}

/// Name of the log in the folder of saved runs.
pub const PROGRESS: &str = "progress.jsonl";

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProgressRecord {
    /// A finished step.
    Step(ProgressStep),
    /// Scores after an epoch.
    Scores {
        /// Configuration of a grid, from 1.
        cell: usize,
        /// Seed of the run.
        seed: u64,
        /// Epochs trained so far.
        epoch: f64,
        /// The scores.
        scores: Scores,
    },
}

/// A finished step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgressStep {
    /// Configuration of a grid, from 1.
    pub cell: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Step number, from 1.
    pub step: u64,
    /// Total steps of the run.
    pub steps: u64,
    /// Training loss.
    pub loss: f64,
    /// Seconds since the log was opened.
    pub second: f64,
}

/// An open log.
pub(crate) struct LiveLog {
    file: Option<Box<dyn Durable>>,
    start: std::time::Instant,
}

impl LiveLog {
    /// Opens the log in the folder of saved runs; a log that cannot be opened writes nothing.
    pub(crate) fn open(folder: &StagedFolder<'_>) -> Self {
        let file = folder.files().append(&folder.path_of(PROGRESS)).ok();
        Self { file, start: std::time::Instant::now() }
    }

    /// Appends an event that has a loss or scores. After a failed write, nothing more is written, because training does
    /// not depend on the log.
    pub(crate) fn add(&mut self, event: &FinetuneEvent) {
        let record = match event {
            &FinetuneEvent::Step { cell, seed, step, steps, loss } => {
                let second = self.start.elapsed().as_secs_f64();
                let cell = cell.unwrap_or(1);
                ProgressRecord::Step(ProgressStep { cell, seed, step, steps, loss, second })
            }
            FinetuneEvent::Evaluated { cell, seed, epoch, scores, .. } => ProgressRecord::Scores {
                cell: cell.unwrap_or(1),
                seed: *seed,
                epoch: *epoch,
                scores: scores.clone(),
            },
            _ => return,
        };
        let line = serde_json::to_string(&record).expect("records are plain data") + "\n";
        if self.file.as_mut().is_some_and(|file| file.write_all(line.as_bytes()).is_err()) {
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use bert_storage::Disk;

    use super::*;

    #[test]
    fn log_separates_cells_and_keeps_earlier_runs() {
        let folder = tempfile::tempdir().unwrap();
        let staged = StagedFolder::new(&Disk, folder.path());
        let step = |cell, seed| FinetuneEvent::Step { cell, seed, step: 1, steps: 2, loss: 0.5 };
        let mut log = LiveLog::open(&staged);
        [step(Some(1), 1), step(Some(2), 1)].iter().for_each(|event| log.add(event));
        // A resumed fine-tuning continues the log.
        let mut log = LiveLog::open(&staged);
        log.add(&step(Some(2), 2));
        let text = std::fs::read_to_string(folder.path().join(PROGRESS)).unwrap();
        let runs = text.lines().map(|line| match serde_json::from_str(line).unwrap() {
            ProgressRecord::Step(ProgressStep { cell, seed, .. })
            | ProgressRecord::Scores { cell, seed, .. } => (cell, seed),
        });
        assert_eq!(runs.collect::<Vec<_>>(), [(1, 1), (2, 1), (2, 2)]);
    }
}
