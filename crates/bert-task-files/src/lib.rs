//! Finds the file of a split in a folder and reads its examples.
//!
//! | format | function | file |
//! |---|---|---|
//! | GLUE, SICK, SNLI: tab-separated; minBERT: `LABEL \|\|\| TEXT` | [`read_file`] | `glue_tsv.rs` |
//! | GLUE from the Hugging Face Hub: Parquet | [`read_file`] | `table/hub_glue.rs` |
//! | SWAG: comma-separated | [`read_file`] | `swag.rs` |
//! | custom table in CSV, TSV, JSON or Parquet | [`crate::table::describe`], [`read_file`] | `table/` |
//! | SQuAD: JSON | [`read_questions`] | `squad.rs` |
//! | CoNLL: one word a line | [`read_sentences`] | `conll.rs` |
//!
//! `lines.rs` opens untrusted files of all formats. [`bert_text::TableReader`] splits files into lines and rows.
//!
//! Texts are kept exactly as in the file, including the trailing spaces in SST-2; tokenizers drop those.

mod columns;
mod conll;
mod glue_tsv;
mod lines;
mod new_texts;
mod squad;
mod swag;
mod table;

pub use columns::TextColumns;
pub use conll::read_sentences;
pub use glue_tsv::text_columns;
pub use lines::{ExampleFile, LabelUse, read_lines};
pub use new_texts::{NewTexts, STANDARD_INPUT, TextLines};
pub use squad::{QuestionRules, read_questions};
pub use table::{
    DescribedTable, TableExamples, TableLabels, TableOptions, TextRow, column_names,
    describe as describe_table, table_examples,
};

use std::path::Path;

use bert_tasks::{Error, Example, Kind, Split, SplitFile, Task, missing_split, no_split};
use bert_text::TextFormat;

use crate::glue_tsv::RowReader;
use crate::lines::for_each_line;
use crate::swag::read_swag;
use crate::table::{find_table, hub_files, read_hub_file, read_table};
use bert_storage::exists;

/// Finds the file of a split in `dir`, or in the task's own folder within it (`dir/RTE`). Official files take
/// precedence over samples.
///
/// # Errors
/// Fails when the task does not have the split, when `dir` is a file, when the file of the split does not exist, or
/// when the system cannot tell whether it exists.
pub fn find_split(task: &Task, dir: &Path, split: Split) -> Result<SplitFile, Error> {
    let spec = task.spec();
    if matches!(task, Task::Table(_)) && matches!(split, Split::Train | Split::Dev | Split::Test) {
        return find_table(task, dir, split);
    }
    if !spec.has_split(split) {
        return Err(no_split(task, split));
    }
    if dir.is_file() {
        let tried: Vec<&str> = spec.file_names(split).collect();
        return Err(Error::data(format!(
            "this is a file, but `.data` is the folder with the files of task {task} ({})",
            tried.join(", ")
        ))
        .at(dir));
    }
    let mut tried = Vec::new();
    let official = spec.file_names(split).map(|name| (name, false));
    let samples = spec.sample_file_name(split).map(|name| (name, true));
    let in_folder = |(name, is_sample): (&str, bool)| {
        (vec![name.to_string(), format!("{}/{name}", spec.folder)], is_sample)
    };
    let on_hub = spec.file_names(split).filter_map(|name| Some((hub_files(task, name)?, false)));
    for (names, is_sample) in official.chain(samples).map(in_folder).chain(on_hub) {
        for relative in names {
            let path = dir.join(&relative);
            if exists(&path)? {
                return Ok(SplitFile { path, is_sample });
            }
            tried.push(relative);
        }
    }
    Err(missing_split(task, split, &tried).at(dir))
}

/// Reads a task file. Without `has_labels`, as in a file to predict, a label column is optional and ignored.
///
/// # Errors
/// Fails as [`read_examples`] does.
pub fn read_file(task: &Task, path: &Path, has_labels: bool) -> Result<Vec<Example>, Error> {
    let labels = if has_labels { LabelUse::Required } else { LabelUse::Ignored };
    Ok(read_examples(task, path, labels)?.examples)
}

/// Reads a task file, with a rule for its labels.
///
/// # Errors
/// Fails when the task's examples do not have one label each, when the file cannot be read, or when it deviates from
/// the task's format; errors in a line name it.
pub fn read_examples(task: &Task, path: &Path, labels: LabelUse) -> Result<ExampleFile<Example>, Error> {
    if let Some(columns) = task.table_columns() {
        return read_table(task, columns, path, labels);
    }
    if matches!(task.spec().kind, Kind::Spans { .. } | Kind::Tags) {
        return Err(Error::usage(format!("task {task} has no examples with one label each")));
    }
    if task.spec().choices > 0 {
        return read_swag(task, path, labels);
    }
    if TextFormat::from_path(path) == TextFormat::Parquet {
        return read_hub_file(task, path, labels);
    }
    let mut reader = RowReader::new(task, labels);
    let mut examples = Vec::new();
    for_each_line(path, |_, text| {
        examples.extend(reader.line(text)?);
        Ok(())
    })?;
    let without_label = reader.without_label;
    ExampleFile { examples, without_label, misplaced: 0 }.non_empty(path)
}
