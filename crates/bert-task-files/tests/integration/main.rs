//! Reads whole files through the public interface: small ones with the quirks of each format, and the published ones.

mod formats;
mod hub_glue;
mod real_data;

use std::path::Path;

use bert_task_files::{find_split, read_file};
use bert_tasks::{Error, Example, Split, Task};

/// Reads a split of a data folder, with labels if the published file has valid ones.
fn read_split(task: &Task, dir: &Path, split: Split) -> Result<Vec<Example>, Error> {
    read_file(task, &find_split(task, dir, split)?.path, task.spec().has_labels(split))
}
