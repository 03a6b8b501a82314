//! Reads GLUE in the form of the Hugging Face Hub: Parquet with different names of files and columns, and numbers for
//! classes.

use std::path::Path;

use bert_tasks::{Columns, Error, Example, Kind, Task};
use bert_text::class_names;

use super::rows::{Row, RowRules, TableLabels, read_rows};
use crate::glue_tsv::label_of;
use crate::lines::{ExampleFile, LabelUse};

/// Returns the names that an official file has on the Hub, each without and with the folder of the task. For example,
/// `MNLI/dev_matched.tsv` is named `mnli/validation_matched-00000-of-00001.parquet`, or
/// `mnli/validation_matched/0000.parquet` in the revision `~parquet`. Returns `None` for tasks outside GLUE.
pub(crate) fn hub_files(task: &Task, official: &str) -> Option<Vec<String>> {
    let spec = task.spec();
    let name = official.strip_suffix(".tsv").filter(|_| !spec.submissions.is_empty())?;
    let name = name.strip_prefix("dev").map_or(name.to_string(), |rest| format!("validation{rest}"));
    let folder = spec.folder.to_lowercase().replace('-', "");
    let files = [format!("{name}-00000-of-00001.parquet"), format!("{name}/0000.parquet")];
    Some(files.into_iter().flat_map(|file| [file.clone(), format!("{folder}/{file}")]).collect())
}

/// Reads the examples of a file. The file's metadata has the name of each class number.
///
/// # Errors
/// Fails as [`crate::read_examples`] does.
pub(crate) fn read_hub_file(
    task: &Task,
    path: &Path,
    label_use: LabelUse,
) -> Result<ExampleFile<Example>, Error> {
    let spec = task.spec();
    let columns = |text_a, text_b| Columns { text_a, text_b, label: "label" };
    let columns = match task {
        Task::Qnli => columns("question", Some("sentence")),
        Task::Qqp => columns("question1", Some("question2")),
        Task::Mnli => columns("premise", Some("hypothesis")),
        _ if spec.pair => columns("sentence1", Some("sentence2")),
        _ => columns("sentence", None),
    };
    let names = class_names(path, columns.label)?;
    let numbers: Vec<String> = (0..names.len()).map(|number| number.to_string()).collect();
    let is_regression = matches!(spec.kind, Kind::Regression { .. });
    let labels = if is_regression { TableLabels::Scores } else { TableLabels::Classes(&numbers) };
    let ExampleFile { examples: rows, mut without_label, misplaced } =
        read_rows(path, RowRules { columns, labels, label_use })?;
    let named = |label: String| match numbers.iter().position(|number| *number == label) {
        None => label,
        Some(number) => {
            let class = spec.class_names.iter().position(|known| *known == names[number]);
            class.map_or_else(|| names[number].clone(), |class| spec.labels[class].to_string())
        }
    };
    let mut examples = Vec::new();
    for Row { line, text_a, text_b, label, .. } in rows {
        let label = label.filter(|_| label_use.are_read()).map(|label| {
            let found = label_of(task, &named(label));
            label_use.unless_left_out(found).map_err(|problem| problem.at_line(path, line))
        });
        let label = label.transpose()?;
        if label == Some(None) {
            without_label += 1;
            continue;
        }
        let index = examples.len().to_string();
        examples.push(Example { index, text_a, text_b, choices: vec![], label: label.flatten() });
    }
    ExampleFile { examples, without_label, misplaced }.non_empty(path)
}
