//! Writes a checkpoint on a background thread while training continues, one at a time.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread::{Scope, ScopedJoinHandle};

use crate::error::Error;

type Written = Result<PathBuf, Error>;

/// A committed checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct SavedCheckpoint {
    /// Number of finished steps.
    pub(crate) step: u64,
    /// Its folder.
    pub(crate) path: PathBuf,
}

/// The checkpoint that is being written, if any.
pub(crate) struct CheckpointWriter<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    writing: Option<(u64, ScopedJoinHandle<'scope, Written>)>,
}

impl<'scope, 'env> CheckpointWriter<'scope, 'env> {
    /// Creates the writer; its threads end with the scope.
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        Self { scope, writing: None }
    }

    /// Starts to write the checkpoint after a step. The previous one must have been taken by [`Self::finished`].
    pub(crate) fn start(&mut self, step: u64, write: impl FnOnce() -> Written + Send + 'scope) {
        assert!(self.writing.is_none(), "one at a time");
        self.writing = Some((step, self.scope.spawn(write)));
    }

    /// Returns the checkpoint once it is written, only once. With `wait`, blocks until then.
    pub(crate) fn finished(&mut self, wait: bool) -> Result<Option<SavedCheckpoint>, Error> {
        let Some((step, thread)) = self.writing.take_if(|(_, thread)| wait || thread.is_finished()) else {
            return Ok(None);
        };
        let path = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(Some(SavedCheckpoint { step, path }))
    }
}
