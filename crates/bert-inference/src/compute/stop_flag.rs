//! Requests a clean stop or a checkpoint of a run: a signal handler sets a flag, and the training loop reads it between
//! steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use bert_storage::Class;

use crate::error::Error;

/// A flag with the signal that requested a stop. It is cheap to clone; all clones share one state.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    signal: Arc<AtomicI32>,
    checkpoint: Arc<AtomicU8>,
}

impl StopFlag {
    /// Creates a flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a stop after the current step, because of signal number `signal`.
    pub fn request(&self, signal: i32) {
        self.signal.store(signal, Ordering::Relaxed);
    }

    /// Returns the signal number, if a stop was requested.
    pub fn requested(&self) -> Option<i32> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// Fails if a stop was requested.
    ///
    /// # Errors
    /// Fails when a stop was requested; the error has the class [`Class::Stopped`].
    pub fn check(&self) -> Result<(), Error> {
        let stopped = |signal| Error::new(Class::Stopped(signal), format!("stopped by signal {signal}"));
        self.requested().map_or(Ok(()), |signal| Err(stopped(signal)))
    }

    /// Requests a checkpoint after the current step, without a stop.
    pub fn request_checkpoint(&self) {
        self.checkpoint.store(1, Ordering::Relaxed);
    }

    /// Returns whether a checkpoint was requested since the last call.
    pub fn take_checkpoint_request(&self) -> bool {
        self.checkpoint.swap(0, Ordering::Relaxed) != 0
    }
}
