//! Time limits of operations.

use std::time::{Duration, Instant};

use crate::error::{Lost, list};
use crate::topology::{Member, Topology};

/// The time limit of an operation.
pub struct Deadline<'a> {
    /// Maximum time without a byte from or to a rank that has not finished the operation.
    pub timeout: Duration,
    /// Time between two calls of `on_wait`.
    pub interval: Duration,
    /// A function that is called while the operation waits.
    pub on_wait: &'a mut dyn FnMut(&Waiting),
}

/// An operation that waits for other ranks. Its `Display` names them.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Ranks that have not finished the operation, ascending.
    pub members: Vec<Member>,
    /// Time since the last progress.
    pub elapsed: Duration,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "waiting for {} for {} s", list(&self.members), self.elapsed.as_secs())
    }
}

/// A timer of the time since the last progress of an operation.
pub struct Timer<'a, 'b> {
    deadline: &'a mut Deadline<'b>,
    progress: Instant,
    calls: u32,
}

impl<'a, 'b> Timer<'a, 'b> {
    /// Starts a timer for an operation with this deadline.
    pub fn start(deadline: &'a mut Deadline<'b>) -> Self {
        Self { deadline, progress: Instant::now(), calls: 0 }
    }

    /// Restarts the timer after progress, such as a byte that was sent or received.
    pub fn progress(&mut self) {
        self.progress = Instant::now();
        self.calls = 0;
    }

    /// Calls `on_wait` if it is due, and returns the maximum time to sleep before the next call of this function.
    ///
    /// # Errors
    /// Fails if the timeout has passed.
    pub fn check(
        &mut self,
        topology: &Topology,
        missing: impl FnOnce() -> Vec<usize>,
    ) -> Result<Duration, Lost> {
        let elapsed = self.progress.elapsed();
        let due = self.deadline.interval * (self.calls + 1);
        if elapsed < self.deadline.timeout && elapsed < due {
            return Ok(due.min(self.deadline.timeout) - elapsed);
        }
        let members: Vec<Member> = missing().into_iter().map(|rank| topology.member(rank)).collect();
        if elapsed >= self.deadline.timeout {
            return Err(Lost::Silent { members, after: elapsed });
        }
        self.calls += 1;
        (self.deadline.on_wait)(&Waiting { members, elapsed });
        Ok(self.deadline.interval.min(self.deadline.timeout - elapsed))
    }
}
