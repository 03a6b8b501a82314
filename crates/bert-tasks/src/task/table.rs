//! Creates the tasks of custom tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::catalog;
use crate::task::error::{Error, wrong_columns};
use crate::task::metric::Metric;
use crate::task::spec::{Kind, TaskSpec};
use crate::task::{TableDescription, TableTask, Task};

impl Task {
    /// Returns the task of a table.
    ///
    /// # Errors
    /// Fails when the columns are set but are not two or three different ones.
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
