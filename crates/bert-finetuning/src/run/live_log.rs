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
        Self { file: folder.files().append(&folder.path_of(PROGRESS)).ok(), start: std::time::Instant::now() }
    }

    /// Appends an event that has a loss or scores. After a failed write the log ends: training does not depend on it.
    pub(crate) fn add(&mut self, event: &FinetuneEvent) {
        let record = match event {
            &FinetuneEvent::Step { seed, step, steps, loss } => {
                ProgressRecord::Step { seed, step, steps, loss, second: self.start.elapsed().as_secs_f64() }
            }
            FinetuneEvent::Evaluated { seed, epoch, scores, .. } => {
                ProgressRecord::Scores { seed: *seed, epoch: *epoch, scores: scores.clone() }
            }
            _ => return,
        };
        let line = serde_json::to_string(&record).expect("records are plain data") + "\n";
        if self.file.as_mut().is_some_and(|file| file.write_all(line.as_bytes()).is_err()) {
            self.file = None;
        }
    }
}
