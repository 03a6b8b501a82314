//! Limits the number of bytes that a parser of another crate reads for one row.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of bytes that a parser may buffer beyond a row.
const AHEAD: usize = 1 << 16;

/// The bytes that a row may still take. Shared with the reader inside a parser.
#[derive(Clone)]
pub(crate) struct Limits {
    /// Maximum number of bytes of a row.
    max: u64,
    left: Arc<AtomicU64>,
}

impl Limits {
    /// Returns the limits of rows of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self { max: (max + AHEAD) as u64, left: Arc::default() }
    }

    pub(crate) fn begin_row(&self) {
        self.left.store(self.max, Relaxed);
    }
}

/// The error for a row that exceeds the maximum length.
#[derive(Debug, thiserror::Error)]
#[error("the row is too long")]
pub(crate) struct TooLong;

/// Reader that stops at the maximum length of a row.
pub(crate) struct Limited {
    text: Box<dyn BufRead + Send>,
    limits: Limits,
}

impl Limited {
    pub(crate) fn new(text: Box<dyn BufRead + Send>, limits: Limits) -> Self {
        Self { text, limits }
    }
}

impl Read for Limited {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.limits.left.load(Relaxed);
        if left == 0 {
            return Err(io::Error::other(TooLong));
        }
        let most = into.len().min(left as usize);
        let length = self.text.read(&mut into[..most])?;
        self.limits.left.store(left - length as u64, Relaxed);
        Ok(length)
    }
}
