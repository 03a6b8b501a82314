//! Parses the names of tasks, from the command line and from JSON.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use bert_storage::did_you_mean;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::catalog;
use crate::task::error::{Error, wrong_columns};
use crate::task::metric::Metric;
use crate::task::spec::{Kind, TaskSpec};
use crate::task::{TableDescription, TableTask, Task};

impl FromStr for Task {
    type Err = Error;

    /// Parses `rte`, `sst-2`, ...; case and hyphens are ignored, so that `SST2` and `stsb` are accepted.
    fn from_str(name: &str) -> Result<Self, Error> {
        let plain = |name: &str| name.replace('-', "").to_ascii_lowercase();
        if plain(name) == catalog::TABLE.name {
            return Task::table(TableDescription::default());
        }
        Task::ALL.into_iter().find(|task| plain(task.spec().name) == plain(name)).ok_or_else(|| {
            Error::usage(format!(
                "unknown task \"{name}\"; the tasks are {}{}",
                Task::names(),
                did_you_mean(name, Task::names().split(", "))
            ))
        })
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
            Form::Table(description) => Task::table(description),
        };
        task.map_err(D::Error::custom)
    }
}

impl Task {
    /// Returns the task of a table.
    ///
    /// # Errors
    /// Fails when the columns are set but are not two or three different names.
    pub fn table(description: TableDescription) -> Result<Self, Error> {
        TableTask::new(description).map(|table| Task::Table(Arc::new(table)))
    }
}

impl TableTask {
    fn new(description: TableDescription) -> Result<Self, Error> {
        let distinct: BTreeSet<&String> = description.columns.iter().collect();
        if !matches!(description.columns.len(), 0 | 2 | 3)
            || distinct.len() != description.columns.len()
            || description.columns.iter().any(String::is_empty)
        {
            return Err(wrong_columns(&description.columns));
        }
        let pair = description.columns.len() == 3;
        let test_has_labels = description.test_has_labels;
        let common = TaskSpec { pair, test_has_labels, ..catalog::TABLE };
        let spec = match description.range {
            Some((min, max)) => TaskSpec {
                kind: Kind::Regression { min, max },
                metrics: &[Metric::Pearson, Metric::Spearman, Metric::Rmse, Metric::Mae],
                primary: Metric::Pearson,
                ..common
            },
            None => common,
        };
        Ok(Self { description, spec })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_serialize() {
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
            "unknown task \"squid\"; the tasks are rte, sst-2, mrpc, cola, qnli, qqp, mnli, wnli, \
             sts-b, sst-5, cfimdb, sick, sick-r, snli, squad, squad2, conll, swag, table; did you mean `squad`?"
        );
        assert_eq!(error.exit_code(), 2);
        assert!("".parse::<Task>().is_err());
        assert!(serde_json::from_str::<Task>("\"squid\"").is_err());
    }
}
