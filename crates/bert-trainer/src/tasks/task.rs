//! The names of tasks and splits, as they stand on the command line, in JSON and in messages.
//! What belongs to each task is in `spec.rs`.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::catalog;
use super::error::TaskError;
use super::table::{TableDescription, TableTask};

/// A task with published data and an official metric, or a table of one's own.
///
/// In JSON its name; of a table that was read the [`TableDescription`], so that a report can be read without its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.spec().name)
    }
}

impl FromStr for Task {
    type Err = TaskError;

    /// Reads `rte`, `sst-2`, ...; case and hyphens do not count, so that `SST2` and `stsb` are understood.
    fn from_str(name: &str) -> Result<Self, TaskError> {
        let plain = |name: &str| name.replace('-', "").to_ascii_lowercase();
        if plain(name) == catalog::TABLE.name {
            return TableTask::new(&TableDescription::default()).map(Task::Table);
        }
        Task::ALL
            .into_iter()
            .find(|task| plain(task.spec().name) == plain(name))
            .ok_or_else(|| TaskError::UnknownTask { name: name.into() })
    }
}

impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Task::Table(table) if !table.description().columns.is_empty() => {
                table.description().serialize(serializer)
            }
            _ => self.serialize_name(serializer),
        }
    }
}

impl Task {
    /// Its name alone, as `--task` takes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize_name<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.spec().name)
    }
}

impl<'de> Deserialize<'de> for Task {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Name(String),
            Table(TableDescription),
        }
        let task = match Form::deserialize(deserializer)? {
            Form::Name(name) => name.parse(),
            Form::Table(description) => TableTask::new(&description).map(Task::Table),
        };
        task.map_err(D::Error::custom)
    }
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
        f.pad(match self {
            Split::Train => "train",
            Split::Dev => "dev",
            Split::DevMismatched => "dev-mismatched",
            Split::Test => "test",
            Split::TestMismatched => "test-mismatched",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for task in Task::ALL {
            assert_eq!(task.to_string().parse::<Task>().unwrap(), task);
            let json = serde_json::to_string(&task).unwrap();
            assert_eq!(json, format!("\"{task}\""));
            assert_eq!(serde_json::from_str::<Task>(&json).unwrap(), task);
        }
        for (name, task) in [
            ("sst2", Task::Sst2),
            ("SST-2", Task::Sst2),
            ("stsb", Task::Stsb),
            ("sst5", Task::Sst5),
            ("CoLA", Task::Cola),
        ] {
            assert_eq!(name.parse::<Task>().unwrap(), task);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "squid".parse::<Task>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown task \"squid\"; known are rte, sst-2, mrpc, cola, qnli, qqp, mnli, wnli, \
             sts-b, sst-5, cfimdb, sick, sick-r, snli, squad, squad2, conll, swag, table"
        );
        assert_eq!(error.exit_code(), 2);
        assert!("".parse::<Task>().is_err());
        assert!(serde_json::from_str::<Task>("\"squid\"").is_err());
    }
}
