//! Defines the tasks and their names in JSON and messages, and returns the specification of each. `names.rs` parses the
//! names, `spec.rs` defines the specification, and `catalog.rs` contains it for every task except tables.

pub(crate) mod catalog;
pub(crate) mod error;
pub(crate) mod example;
pub(crate) mod metric;
pub(crate) mod names;
pub(crate) mod source;
pub(crate) mod spec;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::task::example::Label;
use crate::task::spec::{Columns, Kind, TaskSpec};

/// Defines [`Task`] from a list of the published tasks, each with its specification in [`catalog`].
macro_rules! tasks {
    ($($(#[$doc:meta])* $task:ident = $spec:ident,)*) => {
        /// A task with published data and an official metric, or a custom table.
        ///
        /// A task is serialized as its name; a table that was read is serialized as its [`TableDescription`], so that a
        /// report can be read without the table's files. Cloning a task copies at most a pointer.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Task {
            $($(#[$doc])* $task,)*
            /// A custom table.
            Table(Arc<TableTask>),
        }

        impl Task {
            /// All published tasks, in the order of the documentation.
            pub const ALL: [Task; 18] = [$(Task::$task),*];

            /// Returns the task's specification.
            pub fn spec(&self) -> &TaskSpec {
                match self {
                    $(Task::$task => &catalog::$spec,)*
                    Task::Table(table) => &table.spec,
                }
            }
        }
    };
}

tasks! {
    /// Recognizing textual entailment (GLUE).
    Rte = RTE,
    /// Stanford Sentiment Treebank, two classes (GLUE).
    Sst2 = SST2,
    /// Microsoft Research Paraphrase Corpus (GLUE).
    Mrpc = MRPC,
    /// Corpus of Linguistic Acceptability (GLUE).
    Cola = COLA,
    /// Question-answering NLI, made from SQuAD (GLUE).
    Qnli = QNLI,
    /// Quora Question Pairs (GLUE).
    Qqp = QQP,
    /// Multi-genre NLI (GLUE), with a matched and a mismatched dev and test set.
    Mnli = MNLI,
    /// Winograd NLI (GLUE).
    Wnli = WNLI,
    /// Semantic Textual Similarity Benchmark (GLUE), a regression.
    Stsb = STSB,
    /// Stanford Sentiment Treebank, five classes, in minBERT's format.
    Sst5 = SST5,
    /// Counterfactually edited IMDb reviews, in minBERT's format.
    Cfimdb = CFIMDB,
    /// Sentences Involving Compositional Knowledge (SemEval 2014), entailment.
    Sick = SICK,
    /// The same pairs with relatedness scores: a regression.
    SickR = SICK_R,
    /// Stanford NLI.
    Snli = SNLI,
    /// Stanford question answering, version 1.1.
    Squad = SQUAD,
    /// Stanford question answering, version 2.0, with questions that have no answer.
    Squad2 = SQUAD2,
    /// Named entities in the CoNLL-2003 format.
    Conll = CONLL,
    /// Situations With Adversarial Generations: choose the right ending.
    Swag = SWAG,
}

impl Task {
    /// Returns all names on one line, for messages.
    pub fn names() -> String {
        let published = Task::ALL.map(|task| task.spec().name).join(", ");
        format!("{published}, {}", catalog::TABLE.name)
    }

    /// Serializes only the name, as `--task` takes it.
    ///
    /// # Errors
    /// Fails when the serializer fails.
    pub fn serialize_name<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.spec().name)
    }

    /// Returns the prediction as it is written to prediction files and scored: a class, or a score clipped to the range
    /// of the task, with three decimals where GLUE's server reads it.
    pub fn as_written(&self, prediction: Label) -> Label {
        match (self.spec().kind, prediction) {
            (Kind::Regression { min, max }, Label::Score(score)) => {
                let clipped = score.clamp(min, max);
                let is_rounded = !self.spec().submissions.is_empty();
                let rounded = if is_rounded { format!("{clipped:.3}").parse().ok() } else { None };
                Label::Score(rounded.unwrap_or(clipped))
            }
            _ => prediction,
        }
    }

    /// Returns the labels as written in the files, in the order of the class numbers; none unless the task is a
    /// classification.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.published_or_found(self.spec().labels)
    }

    /// Returns the class names for exported models, in the order of the class numbers; none unless the task is a
    /// classification.
    pub fn class_names(&self) -> impl Iterator<Item = &str> {
        self.published_or_found(self.spec().class_names)
    }

    fn published_or_found(&self, published: &'static [&'static str]) -> impl Iterator<Item = &str> {
        let found = match self {
            Task::Table(table) if table.spec.kind == Kind::Classification => &table.description.labels[..],
            _ => &[],
        };
        published.iter().copied().chain(found.iter().map(String::as_str))
    }

    /// Returns the column names of a custom table; `None` for a published task, and for a table whose columns are not
    /// set yet.
    pub fn table_columns(&self) -> Option<Columns<'_>> {
        let Task::Table(table) = self else { return None };
        match &table.description.columns[..] {
            [text_a, label] => Some(Columns { text_a, text_b: None, label }),
            [text_a, text_b, label] => Some(Columns { text_a, text_b: Some(text_b), label }),
            _ => None,
        }
    }

    /// Returns the number of classifier outputs: the number of classes, or 1 for a regression.
    pub fn num_labels(&self) -> usize {
        self.labels().count().max(1)
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

/// A custom table: its description and specification.
#[derive(Debug, PartialEq)]
pub struct TableTask {
    description: TableDescription,
    spec: TaskSpec,
}
