//! The flags of a custom table.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, check};
use crate::finetune::config::FinetuneConfig;
use crate::finetune::config::resolve::reject_first;
use bert_tasks::Split;

/// Flags of `--task table`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args), command(next_help_heading = "Custom table (--task table)"))]
#[setters(prefix = "with_", strip_option)]
#[setters(generate_delegates(ty = "crate::finetune::FinetuneConfig", field = "table"))]
#[serde(default)]
pub struct TableArgs {
    /// Names of the text column, optionally the second text column, and the label or score column.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TEXT[,TEXT_B],LABEL", value_delimiter = ','))]
    pub columns: Vec<String>,

    /// The classes in the order of their numbers [default: the labels of the training file, sorted].
    #[cfg_attr(
        feature = "cli",
        arg(
            long,
            hide_short_help = true,
            value_name = "A,B,...",
            value_delimiter = ',',
            conflicts_with = "regression"
        )
    )]
    pub labels: Vec<String>,

    /// Predict a number; its range is read from the files.
    #[cfg_attr(feature = "cli", arg(long))]
    pub regression: bool,
}

impl FinetuneConfig {
    /// Checks the flags for files and tables against the task and each other.
    pub(super) fn check_files(&self) -> Result<(), Error> {
        let (table, is_table) = (&self.table, self.is_table());
        let table_flags = [
            ("columns", !is_table && !table.columns.is_empty()),
            ("labels", !is_table && !table.labels.is_empty()),
            ("regression", !is_table && table.regression),
        ];
        reject_first(&table_flags, "works with --task table only")?;
        let has_official_files = self.gives_labels() && !is_table;
        let files = [
            ("train-file", has_official_files && self.train_file.is_some()),
            ("dev-file", has_official_files && self.dev_file.is_some()),
            ("test-file", has_official_files && self.test_file.is_some()),
        ];
        reject_first(&files, "works with --task table, squad, squad2, conll and swag only")?;
        check(
            self.test_file.is_none() || is_table || self.task.spec().has_labels(Split::Test),
            "test-file",
            "the task has no labelled test set; predict an unlabelled file with --predict",
        )?;
        let needed = "is required with --task table: TEXT,LABEL or TEXT,TEXT_B,LABEL";
        check(!is_table || !table.columns.is_empty(), "columns", needed)?;
        let has_dev = self.data.is_some() || self.dev_file.is_some();
        check(has_dev, "dev-file", "is required without --data")?;
        let distinct: BTreeSet<&String> = table.labels.iter().collect();
        let are_valid = distinct.len() == table.labels.len() && table.labels.len() != 1;
        check(are_valid, "labels", "must be two or more that differ from each other")
    }
}
