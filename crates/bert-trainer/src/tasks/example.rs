//! Defines an example of a task, its label, and the parts of a task's data: train, dev and test, and the second dev and
//! test sets of MNLI.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One example of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The number that the file gives it, or its row from 0: what GLUE's server knows it by.
    pub index: String,
    /// The (first) text.
    pub text_a: String,
    /// The second text of a pair task. Empty in a few published rows.
    pub text_b: Option<String>,
    /// Of a multiple choice the second texts, of which one goes with the first.
    pub choices: Vec<String>,
    /// The label, where the file has one that counts.
    pub label: Option<Label>,
}

/// A label, or a prediction of one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Label {
    /// Class number.
    Class(usize),
    /// Score of a regression.
    Score(f32),
}

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
        self.serialize(f)
    }
}

/// The file that holds a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is a sample of somebody's drawing, not the official file: scores got on it are not
    /// comparable with published ones, and a report should say so.
    pub is_sample: bool,
}
