//! Stops a run cleanly, or asks it for a checkpoint: a signal handler sets a flag, and the training loop reads it
//! between steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use crate::error::Error;

/// Asked to stop, and by which signal. Cheap to clone; all clones are one flag.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    signal: Arc<AtomicI32>,
    checkpoint: Arc<AtomicU8>,
}

impl StopFlag {
    /// A flag that nobody has set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a stop after the current step, because of signal number `signal`.
    pub fn request(&self, signal: i32) {
        self.signal.store(signal, Ordering::Relaxed);
    }

    /// The signal number, if a stop was asked for.
    pub fn requested(&self) -> Option<i32> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// Fails when a stop was asked for, in work that comes before the first step.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn check_before_first_step(&self) -> Result<(), Error> {
        match self.requested() {
            Some(signal) => Err(Error::Stopped { signal, step: 0 }),
            None => Ok(()),
        }
    }

    /// Asks for a checkpoint after the current step, without a stop.
    pub fn request_checkpoint(&self) {
        self.checkpoint.store(1, Ordering::Relaxed);
    }

    /// Whether a checkpoint was asked for since the last call.
    pub fn take_checkpoint_request(&self) -> bool {
        self.checkpoint.swap(0, Ordering::Relaxed) != 0
    }
}
