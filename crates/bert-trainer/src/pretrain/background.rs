//! Writes a checkpoint on a thread of its own while training goes on, one at a time.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread::{Scope, ScopedJoinHandle};

use crate::error::Error;

type Written = Result<PathBuf, Error>;

/// The checkpoint that is being written, if there is one.
pub(super) struct Background<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    writing: Option<(u64, ScopedJoinHandle<'scope, Written>)>,
}

impl<'scope, 'env> Background<'scope, 'env> {
    /// Its threads end with the scope.
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        Self { scope, writing: None }
    }

    /// Begins to write the checkpoint after a step. The one before must have been taken by [`Self::finished`].
    pub(super) fn start(&mut self, step: u64, write: impl FnOnce() -> Written + Send + 'scope) {
        assert!(self.writing.is_none(), "one at a time");
        self.writing = Some((step, self.scope.spawn(write)));
    }

    /// The checkpoint that was written, once: its step and its folder. With `wait` it is waited for.
    ///
    /// # Errors
    /// What writing it gave.
    pub(super) fn finished(&mut self, wait: bool) -> Result<Option<(u64, PathBuf)>, Error> {
        let Some((step, thread)) = self.writing.take_if(|(_, thread)| wait || thread.is_finished()) else {
            return Ok(None);
        };
        let path = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(Some((step, path)))
    }
}
