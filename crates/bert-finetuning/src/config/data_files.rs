//! Locates the files of a task. For `--task table`, also reads them to infer the task's description.

use std::path::Path;

use bert_task_files::{
    DescribedTable, LabelUse, TableLabels, TableOptions, column_names, describe_table, find_split,
};
use bert_tasks::{Error, Split, SplitFile, no_split};

use crate::config::FinetuneConfig;

impl FinetuneConfig {
    /// Returns the file of a split: the named one, or the one in `--data`.
    ///
    /// # Errors
    /// Fails when a named file does not exist; otherwise as [`find_split`].
    pub(crate) fn find_split(&self, split: Split) -> Result<SplitFile, Error> {
        let table = self.data_table();
        let named = match split {
            Split::Train => self.train_file.as_deref().or(table),
            Split::Dev => self.dev_file.as_deref().or(table),
            Split::Test => self.test_file.as_deref(),
            Split::DevMismatched | Split::TestMismatched => None,
        };
        match (named, &self.data) {
            (Some(path), _) => match path.metadata() {
                Ok(_) => Ok(SplitFile { path: path.to_owned(), is_sample: false }),
                Err(source) => Err(Error::io("read", path)(source)),
            },
            (None, Some(data)) if table.is_none() => find_split(&self.task, data, split),
            (None, _) => Err(no_split(&self.task, split)),
        }
    }

    /// Returns the file of `--data` if it is a table instead of a folder.
    pub(super) fn data_table(&self) -> Option<&Path> {
        self.data.as_deref().filter(|data| self.is_table() && data.is_file())
    }

    /// Returns the table of `--data` that is divided into train and dev.
    pub(crate) fn single_table(&self) -> Option<&Path> {
        self.data_table().filter(|_| self.dev_file.is_none())
    }

    /// Returns the columns of a table: `--columns`, or those with the usual names.
    ///
    /// # Errors
    /// Fails when the table cannot be read, or when it lacks the usual names; the error then names its columns.
    fn columns_of(&self, train: &Path) -> Result<Vec<String>, Error> {
        if !self.table.columns.is_empty() {
            return Ok(self.table.columns.clone());
        }
        let found = column_names(train)?;
        let has = |name: &&str| found.iter().any(|column| column == name);
        if ["text", "label"].iter().all(has) {
            let usual = ["text", "text_b", "label"].into_iter().filter(has);
            return Ok(usual.map(String::from).collect());
        }
        let reason = format!(
            "is required, as TEXT,LABEL or TEXT,TEXT_B,LABEL: {} has no columns \"text\" and \"label\", but {}",
            train.display(),
            if found.is_empty() { "none".to_string() } else { found.join(", ") }
        );
        Err(Error::option("columns", reason))
    }

    /// Returns the configuration with a table's classes or range filled in, and remarks on its labels; other tasks are
    /// unchanged.
    ///
    /// # Errors
    /// Fails when a file of the table is invalid; the error names the line.
    pub(crate) fn described(&self) -> Result<(Self, Vec<String>), Error> {
        if !self.is_table() {
            return Ok((self.clone(), Vec::new()));
        }
        let path = |split| self.find_split(split).map(|file| file.path);
        let train = path(Split::Train)?;
        let dev = path(Split::Dev)?;
        let test = match path(Split::Test) {
            Ok(test) => Some(test),
            // A test file is optional, unless it is named.
            Err(error) if error.is_absent() => None,
            Err(error) => return Err(error),
        };
        let labels = if self.table.regression {
            TableLabels::Scores
        } else {
            TableLabels::Classes(&self.table.labels)
        };
        let columns = &self.columns_of(&train)?;
        let options =
            TableOptions { columns, labels, label_use: LabelUse::for_labelled(self.skip_unlabelled) };
        let DescribedTable { task, notes } = describe_table(options, &train, &dev, test.as_deref())?;
        Ok((Self { task, ..self.clone() }, notes))
    }
}
