//! Defines an example of a task, its label, and the splits: train, dev, test, and MNLI's second dev and test sets.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A text, or a pair of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputText<'a> {
    /// The (first) text.
    pub first: &'a str,
    /// The second text of a pair.
    pub second: Option<&'a str>,
}

impl<'a> From<&'a str> for InputText<'a> {
    fn from(first: &'a str) -> Self {
        Self { first, second: None }
    }
}

impl<'a> From<(&'a str, &'a str)> for InputText<'a> {
    fn from((first, second): (&'a str, &'a str)) -> Self {
        Self { first, second: Some(second) }
    }
}

/// One example of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The example's index in the file, or its row from 0; GLUE's server identifies examples by it.
    pub index: String,
    /// The (first) text.
    pub text_a: String,
    /// The second text of a pair task. It is empty in a few published rows.
    pub text_b: Option<String>,
    /// The second texts of a multiple-choice example, one of which is right.
    pub choices: Vec<String>,
    /// The label; `None` if the file has none, or if labels are not read.
    pub label: Option<Label>,
}

impl Example {
    /// Returns an example of one text, without a label.
    pub fn from_text(text: impl Into<String>) -> Self {
        let index = "0".to_string();
        Self { index, text_a: text.into(), text_b: None, choices: Vec::new(), label: None }
    }

    /// Returns an example of a pair of texts, without a label.
    pub fn from_pair(first: impl Into<String>, second: impl Into<String>) -> Self {
        Self { text_b: Some(second.into()), ..Self::from_text(first) }
    }
}

/// Returns the labels of all examples, or `None` if one is missing, because such a set cannot be scored.
pub fn labels_of(examples: &[Example]) -> Option<Vec<Label>> {
    examples.iter().map(|example| example.label).collect()
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

/// A split of a task's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// Training set.
    Train,
    /// Dev set, for scoring during fine-tuning; for MNLI, the matched set (same genres as the training set).
    Dev,
    /// MNLI's second dev set, with genres that the training set does not contain.
    DevMismatched,
    /// Test set, without labels in GLUE and CFIMDB; for MNLI, the matched set.
    Test,
    /// MNLI's second test set.
    TestMismatched,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The file of a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Whether it is a sample instead of the official file, so that its scores are not comparable with published ones.
    pub is_sample: bool,
}

/// A question about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The question's id in the file.
    pub id: String,
    /// The question.
    pub question: String,
    /// The text, shared by all its questions.
    pub context: Arc<str>,
    /// Correct answers; training uses the first one only.
    pub answers: Vec<Answer>,
    /// Whether the text has no answer (SQuAD 2.0).
    pub is_impossible: bool,
}

/// An answer quoted from the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The text of the answer.
    pub text: String,
    /// Start of the answer, in bytes of the text.
    pub start: usize,
}

/// A sentence with the tags of its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence {
    /// The words.
    pub words: Vec<String>,
    /// One tag per word; empty if tags are not read.
    pub tags: Vec<String>,
    /// Line number of the first word.
    pub line: u64,
    /// Number of the document, if the file has several.
    pub document: Option<u64>,
}

/// Returns the distinct tags of some sentences: `O` first, the others in byte order.
pub fn tags_of(sentences: &[Sentence]) -> Vec<String> {
    let all: std::collections::BTreeSet<&String> =
        sentences.iter().flat_map(|sentence| &sentence.tags).collect();
    let outside = ["O".to_string()];
    let others = all.into_iter().filter(|tag| *tag != "O").cloned();
    outside.into_iter().chain(others).collect()
}

/// Returns whether a tag belongs to a supported scheme.
pub fn is_entity_tag(tag: &str) -> bool {
    tag == "O" || matches!(split_tag(tag).position, "B" | "I" | "E" | "S")
}

/// The parts of a tag such as `B-PER`.
#[derive(Clone, Copy)]
pub(crate) struct Tag<'a> {
    /// Position in an entity, as an IOBES letter.
    pub(crate) position: &'a str,
    /// Entity type; `_` in data sets with only one type, empty outside entities.
    pub(crate) kind: &'a str,
}

pub(crate) fn split_tag(tag: &str) -> Tag<'_> {
    let (position, kind) = tag.split_once('-').unwrap_or((tag, "_"));
    match position {
        "O" => Tag { position, kind: "" },
        "L" => Tag { position: "E", kind },
        "U" | "W" => Tag { position: "S", kind },
        "M" => Tag { position: "I", kind },
        _ => Tag { position, kind },
    }
}
