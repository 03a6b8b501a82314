//! Fine-tunes on rows in memory: texts or pairs of texts with a class or a score.

use std::path::PathBuf;

use bert_inference::StopFlag;
use bert_training::{Error, Resume, check};

use crate::config::FinetuneConfig;
use crate::data::datasets::TrainingRows;
use crate::events::FinetuneEvent;
use crate::finetune::{Action, Source, with_task};
use crate::output::report::FinetuneReport;

/// The value of `data` in the report of a fine-tuning on rows.
const IN_MEMORY: &str = "(rows in memory)";

/// Fine-tunes a checkpoint on rows in memory, once per seed, like [`finetune`](crate::finetune::finetune) on the files
/// of `--task table`. Either all rows have a second text, or none. The classes are `config.table.labels`, or the labels
/// of the training rows if that list is empty; with `config.table.regression` the labels are scores. With `resume`,
/// continues a stopped fine-tuning on the same rows.
///
/// # Errors
/// Fails when the configuration names files or a task that is not a table; otherwise as
/// [`table_examples`](bert_task_files::table_examples) and [`finetune`](crate::finetune::finetune).
pub fn finetune_rows(
    config: &FinetuneConfig,
    rows: TrainingRows<'_>,
    resume: Resume,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinetuneReport, Error> {
    let reason = format!("is {}, but rows in memory are a table", config.task);
    check(config.is_table(), "task", &reason)?;
    let files = [
        ("data", &config.data),
        ("train_file", &config.train_file),
        ("dev_file", &config.dev_file),
        ("test_file", &config.test_file),
        ("predict", &config.predict),
    ];
    for (flag, path) in files {
        check(path.is_none(), flag, "names files, but the rows are in memory")?;
    }
    let mut config = FinetuneConfig { data: Some(PathBuf::from(IN_MEMORY)), ..config.clone() };
    let is_pair = rows.train.first().is_some_and(|row| row.second.is_some());
    let columns: &[&str] = if is_pair { &["text", "second", "label"] } else { &["text", "label"] };
    config.table.columns = columns.iter().map(|&name| name.to_string()).collect();
    with_task(&config, Source::Rows(rows), Action::Train { resume: resume == Resume::Yes, stop }, on_event)
}
