//! Defines the labelled sets of a task.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A labelled set that models are scored on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Examples held out of train, for choosing epochs and cells.
    HeldOut,
    /// Dev.
    Dev,
    /// The second dev set, if the task has one.
    DevMismatched,
    /// Test, if its labels are published.
    Test,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeldOut => "the held-out part",
            Self::Dev => "dev",
            Self::DevMismatched => "the mismatched dev set",
            Self::Test => "test",
        })
    }
}
