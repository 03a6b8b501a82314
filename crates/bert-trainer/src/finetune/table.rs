//! Finds the files of a task. For `--task table` it also reads them, to describe a task like the published ones.

use bert_storage::{Locate, Located};

use crate::error::Error;
use crate::finetune::config::FinetuneConfig;
use crate::tasks::{
    DescribedTable, Labels, Split, SplitFile, TaskError, TaskProblem, describe_table, find_split,
};

impl FinetuneConfig {
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

    /// The same with the classes or the range of a table found, and remarks on its labels; any other task is as it is.
    ///
    /// # Errors
    /// Every way in which the table's files can be bad, with the line.
    pub(super) fn described(&self) -> Result<(Self, Vec<String>), Error> {
        if !self.is_table() {
            return Ok((self.clone(), Vec::new()));
        }
        let path = |split| self.find_split(split).map(|file| file.path);
        let (train, dev) = (path(Split::Train)?, path(Split::Dev)?);
        let test = match path(Split::Test) {
            Ok(test) => Some(test),
            // A test file is not needed, but one that is named must be there.
            Err(TaskError::NoSuchSplit { .. })
            | Err(TaskError::File(Located { problem: TaskProblem::MissingSplit { .. }, .. })) => None,
            Err(error) => return Err(error.into()),
        };
        let labels = match self.regression {
            true => Labels::Scores,
            false => Labels::Classes(&self.labels),
        };
        let DescribedTable { task, notes } =
            describe_table(&self.columns, labels, &train, &dev, test.as_deref())?;
        Ok((Self { task, ..self.clone() }, notes))
    }
}
