//! Rows in memory as the examples of a task.

use bert_task_files::{TableExamples, TableLabels, TextRow, table_examples};
use bert_tasks::Example;
use bert_training::Error;

use crate::config::FinetuneConfig;

/// Examples in memory.
pub(crate) struct RowExamples {
    pub(crate) train: Vec<Example>,
    pub(crate) dev: Vec<Example>,
}

/// Rows in memory: to train on, and to score on.
#[derive(Clone, Copy, Debug)]
pub struct TrainingRows<'a> {
    /// The rows to train on.
    pub train: &'a [TextRow],
    /// The rows to score on. They choose the epoch too, unless the configuration says otherwise.
    pub dev: &'a [TextRow],
}

impl TrainingRows<'_> {
    /// Returns the configuration with the classes or the range of the rows, remarks on the labels, and the examples.
    pub(crate) fn described(
        self,
        config: &FinetuneConfig,
    ) -> Result<(FinetuneConfig, Vec<String>, RowExamples), Error> {
        let labels = if config.table.regression {
            TableLabels::Scores
        } else {
            TableLabels::Classes(&config.table.labels)
        };
        let TableExamples { task, train, dev, notes } = table_examples(self.train, self.dev, labels)?;
        Ok((FinetuneConfig { task, ..config.clone() }, notes, RowExamples { train, dev }))
    }
}
