//! Defines an example of a task, its label, and the file that holds a split.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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

/// The file that holds a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is a sample of somebody's drawing, not the official file: scores got on it are not
    /// comparable with published ones, and a report should say so.
    pub is_sample: bool,
}
