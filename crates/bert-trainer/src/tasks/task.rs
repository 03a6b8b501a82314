//! Names the tasks as they are written to JSON and messages, and finds the specification of each. `task_names.rs`
//! reads the names, and `spec.rs` says what belongs to a task.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::catalog;
use super::spec::TaskSpec;

/// A task with published data and an official metric, or a table of one's own.
///
/// In JSON its name; of a table that was read the [`TableDescription`], so that a report can be read without its files.
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
    /// The same pairs, relatedness: a regression.
    SickR,
    /// Stanford NLI.
    Snli,
    /// Stanford question answering, version 1.1.
    Squad,
    /// Version 2.0, with questions that have no answer.
    Squad2,
    /// Named entities in the form of CoNLL-2003.
    Conll,
    /// Situations with adversarial generations: which ending goes on.
    Swag,
    /// A table of one's own.
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

    /// All names on one line, for messages.
    pub(super) fn names() -> String {
        let published = Task::ALL.map(|task| task.spec().name).join(", ");
        format!("{published}, {}", catalog::TABLE.name)
    }

    /// Its name alone, as `--task` takes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize_name<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.spec().name)
    }

    /// All that is fixed about the task.
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

/// What is known of a table: all that decides how its files are read and scored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDescription {
    /// The columns: text, perhaps a second text, label. Empty as long as nobody has named them.
    pub columns: Vec<String>,
    /// The classes, in the order of their numbers; empty for a regression.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Lowest and highest score of a regression.
    #[serde(default)]
    pub range: Option<(f32, f32)>,
    /// Whether the test file has labels; of no account for what a report holds.
    #[serde(skip)]
    pub test_has_labels: bool,
}

/// A table of one's own: what is known of it, and what follows. Both are kept for the rest of the process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableTask {
    pub(super) description: &'static TableDescription,
    pub(super) spec: &'static TaskSpec,
}
