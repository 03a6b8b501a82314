//! Defines the tasks and their names in JSON and messages, and returns the specification of each. `task_names.rs`
//! parses the names, and `spec.rs` defines the specification.

pub(crate) mod catalog;
pub(crate) mod example;
pub(crate) mod metric;
pub(crate) mod names;
pub(crate) mod spec;

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::task::spec::TaskSpec;

/// A task with published data and an official metric, or a custom table.
///
/// Serialized as its name; a table that was read is serialized as its [`TableDescription`], so that a report can be
/// read without the table's files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Task {
    /// Recognizing textual entailment (GLUE).
    Rte,
    /// Stanford Sentiment Treebank, two classes (GLUE).
    Sst2,
    /// Microsoft Research Paraphrase Corpus (GLUE).
    Mrpc,
    /// Corpus of Linguistic Acceptability (GLUE).
    Cola,
    /// Question-answering NLI, made from SQuAD (GLUE).
    Qnli,
    /// Quora Question Pairs (GLUE).
    Qqp,
    /// Multi-genre NLI (GLUE), with a matched and a mismatched dev and test set.
    Mnli,
    /// Winograd NLI (GLUE).
    Wnli,
    /// Semantic Textual Similarity Benchmark (GLUE), a regression.
    Stsb,
    /// Stanford Sentiment Treebank, five classes, in minBERT's format.
    Sst5,
    /// Counterfactually edited IMDb reviews, in minBERT's format.
    Cfimdb,
    /// Sentences Involving Compositional Knowledge (SemEval 2014), entailment.
    Sick,
    /// The same pairs with relatedness scores: a regression.
    SickR,
    /// Stanford NLI.
    Snli,
    /// Stanford question answering, version 1.1.
    Squad,
    /// Stanford question answering, version 2.0, with questions that have no answer.
    Squad2,
    /// Named entities in the CoNLL-2003 format.
    Conll,
    /// Situations With Adversarial Generations: choose the right ending.
    Swag,
    /// A custom table.
    Table(TableTask),
}

impl Task {
    /// All published tasks, in the order of the documentation.
    pub const ALL: [Task; 18] = [
        Task::Rte,
        Task::Sst2,
        Task::Mrpc,
        Task::Cola,
        Task::Qnli,
        Task::Qqp,
        Task::Mnli,
        Task::Wnli,
        Task::Stsb,
        Task::Sst5,
        Task::Cfimdb,
        Task::Sick,
        Task::SickR,
        Task::Snli,
        Task::Squad,
        Task::Squad2,
        Task::Conll,
        Task::Swag,
    ];

    /// Returns all names on one line, for messages.
    pub fn names() -> String {
        let published = Task::ALL.map(|task| task.spec().name).join(", ");
        format!("{published}, {}", catalog::TABLE.name)
    }

    /// Serializes only the name, as `--task` takes it.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize_name<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.spec().name)
    }

    /// Returns the task's specification.
    pub fn spec(self) -> &'static TaskSpec {
        match self {
            Task::Rte => &catalog::RTE,
            Task::Sst2 => &catalog::SST2,
            Task::Mrpc => &catalog::MRPC,
            Task::Cola => &catalog::COLA,
            Task::Qnli => &catalog::QNLI,
            Task::Qqp => &catalog::QQP,
            Task::Mnli => &catalog::MNLI,
            Task::Wnli => &catalog::WNLI,
            Task::Stsb => &catalog::STSB,
            Task::Sst5 => &catalog::SST5,
            Task::Cfimdb => &catalog::CFIMDB,
            Task::Sick => &catalog::SICK,
            Task::SickR => &catalog::SICK_R,
            Task::Snli => &catalog::SNLI,
            Task::Squad => &catalog::SQUAD,
            Task::Squad2 => &catalog::SQUAD2,
            Task::Conll => &catalog::CONLL,
            Task::Swag => &catalog::SWAG,
            Task::Table(table) => table.spec,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.spec().name)
    }
}

impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Task::Table(table) if !table.description.columns.is_empty() => {
                table.description.serialize(serializer)
            }
            _ => self.serialize_name(serializer),
        }
    }
}

/// The description of a table: everything that affects reading and scoring its files.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDescription {
    /// The columns: text, optionally a second text, label. Empty until they are set.
    pub columns: Vec<String>,
    /// The classes, in the order of their numbers; empty for a regression.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Minimum and maximum score of a regression.
    #[serde(default)]
    pub range: Option<(f32, f32)>,
    /// Whether the test file has labels; not part of a report.
    #[serde(skip)]
    pub test_has_labels: bool,
}

/// A custom table: its description and specification. Both are kept until the process ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableTask {
    pub description: &'static TableDescription,
    pub spec: &'static TaskSpec,
}
