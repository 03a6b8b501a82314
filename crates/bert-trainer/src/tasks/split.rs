//! Names the parts of a task's data: train, dev and test, and the second dev and test sets of MNLI.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of a task's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// What the model is tuned on.
    Train,
    /// What it is scored on while tuning; of MNLI the matched set (the genres of training).
    Dev,
    /// MNLI's second dev set: genres that training does not have.
    DevMismatched,
    /// Test set, without labels in GLUE and CFIMDB; of MNLI the matched set.
    Test,
    /// MNLI's second test set.
    TestMismatched,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Split::Train => "train",
            Split::Dev => "dev",
            Split::DevMismatched => "dev-mismatched",
            Split::Test => "test",
            Split::TestMismatched => "test-mismatched",
        })
    }
}
