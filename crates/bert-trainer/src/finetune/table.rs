//! Finds the files of a task. For `--task table` it also checks which flags belong to the table, and reads the
//! files to describe a task like the published ones.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::finetune::config::FinetuneConfig;
use crate::tasks::{
    Kind, Labels, Split, SplitFile, Task, TaskError, TaskProblem, describe_table, find_split,
};
use bert_storage::{Locate, Located};

impl FinetuneConfig {
    fn is_table(&self) -> bool {
        matches!(self.task, Task::Table(_))
    }

    /// Checks the flags that name files, and those of a table, against the task and each other.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming the flag.
    pub(super) fn check_files(&self) -> Result<(), Error> {
        let refuse = |flag, reason: &str| Err(Error::Configuration { flag, reason: reason.to_string() });
        let given = [
            ("columns", !self.columns.is_empty()),
            ("labels", !self.labels.is_empty()),
            ("regression", self.regression),
        ];
        if let (false, Some((flag, _))) = (self.is_table(), given.iter().find(|(_, given)| *given)) {
            return refuse(flag, "is for --task table");
        }
        let spec = self.task.spec();
        let labels = matches!(spec.kind, Kind::Classification { .. } | Kind::Regression { .. });
        let official_files = labels && spec.choices == 0 && !self.is_table();
        let files = [
            ("train-file", self.train_file.is_some()),
            ("dev-file", self.dev_file.is_some()),
            ("test-file", self.test_file.is_some()),
        ];
        if let (true, Some((flag, _))) = (official_files, files.iter().find(|(_, given)| *given)) {
            return refuse(flag, "is for --task table, squad, squad2, conll and swag");
        }
        if self.test_file.is_some() && !self.is_table() && !spec.has_labels(Split::Test) {
            return refuse("test-file", "the task has no labelled test set; --predict answers a file");
        }
        if self.is_table() && self.columns.is_empty() {
            return refuse("columns", "--task table needs it: TEXT,LABEL or TEXT,TEXT_B,LABEL");
        }
        if self.data.is_none() && self.dev_file.is_none() {
            return refuse("dev-file", "without --data it must be given");
        }
        let distinct: std::collections::BTreeSet<&String> = self.labels.iter().collect();
        if distinct.len() != self.labels.len() || self.labels.len() == 1 {
            return refuse("labels", "must be two or more that differ from each other");
        }
        Ok(())
    }

    /// The file of a split: the one that is named, or the one in `--data`.
    ///
    /// # Errors
    /// Those of [`find_split`]; [`TaskProblem::Io`] where a named one is not there.
    pub(super) fn find_split(&self, split: Split) -> Result<SplitFile, TaskError> {
        let named = match split {
            Split::Train => &self.train_file,
            Split::Dev => &self.dev_file,
            Split::Test => &self.test_file,
            Split::DevMismatched | Split::TestMismatched => &None,
        };
        match (named, &self.data) {
            (Some(path), _) => match path.metadata() {
                Ok(_) => Ok(SplitFile { path: path.clone(), is_sample: false }),
                Err(source) => Err(TaskProblem::Io(source).at(path).into()),
            },
            (None, Some(data)) => find_split(self.task, data, split),
            (None, None) => Err(TaskError::NoSuchSplit { task: self.task, split }),
        }
    }

    /// The same with the classes or the range of a table found; any other task is as it is.
    ///
    /// # Errors
    /// Every way in which the table's files can be bad, with the line.
    pub(super) fn described(&self) -> Result<Self, Error> {
        if !self.is_table() {
            return Ok(self.clone());
        }
        let path = |split| self.find_split(split).map(|file| file.path);
        let (train, dev) = (path(Split::Train)?, path(Split::Dev)?);
        let test: Option<PathBuf> = match path(Split::Test) {
            Ok(test) => Some(test),
            // A test file is not needed, but one that is named must be there.
            Err(error) if self.test_file.is_some() => return Err(error.into()),
            Err(TaskError::NoSuchSplit { .. })
            | Err(TaskError::File(Located { problem: TaskProblem::MissingSplit { .. }, .. })) => None,
            Err(error) => return Err(error.into()),
        };
        let labels = match self.regression {
            true => Labels::Scores,
            false => Labels::Classes(&self.labels),
        };
        let task = describe_table(&self.columns, labels, &train, &dev, test.as_deref().map(Path::new))?;
        Ok(Self { task, ..self.clone() })
    }
}
