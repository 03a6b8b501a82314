//! Writes the losses and scores of a fine-tuning while it runs, for `bert watch`: `OUTPUT/.runs/progress.jsonl`.
//!
//! The file is not synced, a resumed fine-tuning continues it, and it is removed with `.runs/` when the
//! report is written.

use std::io::Write;

use bert_storage::{Durable, StagedFolder};
use bert_tasks::Scores;
use serde::{Deserialize, Serialize};

use crate::events::FinetuneEvent;

/// Name of the log in the folder of saved runs.
pub const PROGRESS: &str = "progress.jsonl";

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProgressRecord {
    /// A finished step.
    Step {
        /// Configuration of a grid, from 1.
        cell: usize,
        /// Seed of the run.
        seed: u64,
        /// Step number, from 1.
        step: u64,
        /// Total steps of the run.
        steps: u64,
        /// Training loss.
        loss: f64,
        /// Seconds since the log was opened.
        second: f64,
    },
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

    /// Appends an event that has a loss or scores. After a failed write the log ends: training does not depend on it.
    pub(crate) fn add(&mut self, event: &FinetuneEvent) {
        let record = match event {
            &FinetuneEvent::Step { cell, seed, step, steps, loss } => {
                let second = self.start.elapsed().as_secs_f64();
                ProgressRecord::Step { cell: cell.unwrap_or(1), seed, step, steps, loss, second }
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
            ProgressRecord::Step { cell, seed, .. } | ProgressRecord::Scores { cell, seed, .. } => {
                (cell, seed)
            }
        });
        assert_eq!(runs.collect::<Vec<_>>(), [(1, 1), (2, 1), (2, 2)]);
    }
}
