//! The watched folders and the states of their runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bert_reports::{LiveRun, LiveStatus};
use bert_storage::{exists, with_flags};
use serde::Serialize;

use crate::commands::evaluation::runs_in;

/// The state of a run for the page and for the terminal.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Shown {
    Status(Box<LiveStatus>),
    /// A run that cannot be read, or that does not exist yet.
    Waiting {
        name: String,
        error: String,
    },
}

/// The message for a folder that does not exist.
const WAITING: &str = "waiting: this folder does not exist yet";

/// The watched folders.
pub(super) struct Watched {
    given: Vec<PathBuf>,
    runs: BTreeMap<PathBuf, LiveRun>,
    /// The folders of the runs, in the order of the states that [`Self::read`] returned.
    pub(super) order: Vec<PathBuf>,
}

impl Watched {
    /// Watches folders, which need not exist yet.
    pub(super) fn new(given: &[PathBuf]) -> Self {
        Self { given: given.to_vec(), runs: BTreeMap::new(), order: Vec::new() }
    }

    /// Reads all runs; folders that contain runs are searched again, so that new runs appear.
    pub(super) fn read(&mut self) -> Vec<Shown> {
        self.order = self.given.iter().flat_map(|path| runs_in(path)).collect();
        let read = |path: &PathBuf| {
            let run = self.runs.entry(path.clone()).or_insert_with(|| LiveRun::new(path));
            match run.status() {
                Ok(status) => Shown::Status(Box::new(status)),
                Err(error) => {
                    // Start with a new reader, because the folder may later contain a run of a different kind.
                    *run = LiveRun::new(path);
                    let is_missing = exists(path).is_ok_and(|exists| !exists);
                    let error = if is_missing { WAITING.to_string() } else { with_flags(&error.to_string()) };
                    Shown::Waiting { name: path.display().to_string(), error }
                }
            }
        };
        self.order.iter().map(read).collect()
    }
}
