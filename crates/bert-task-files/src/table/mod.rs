//! Creates a task from a custom table of texts and labels.
//!
//! The training file and the names of its columns define a [`Task`] like the published ones, with the classes or the
//! range found in the file. The rest of the code treats a table like any other task.

mod hub_glue;
mod in_memory;
mod notes;
mod rows;

pub(crate) use hub_glue::{hub_files, read_hub_file};
pub use in_memory::{TableExamples, TextRow, table_examples};
pub use rows::{TableLabels, column_names};
pub(crate) use rows::{text_at, wrong};

use std::collections::BTreeSet;
use std::path::Path;

use bert_tasks::{
    Columns, Error, Example, Kind, Label, Split, SplitFile, TableDescription, Task, missing_split,
    wrong_columns,
};
use rows::{Row, RowRules, TABLE_FORMATS, normalize_label, read_rows};

use crate::glue_tsv::label_of;
use crate::lines::{ExampleFile, LabelUse};
use bert_storage::exists;

/// Maximum number of classes; with more, the column most likely does not contain classes.
const MAX_CLASSES: usize = 1000;

/// A table's task, and remarks on its labels for the user.
#[derive(Debug, Clone)]
pub struct DescribedTable {
    /// The task.
    pub task: Task,
    /// Possible mistakes in the labels.
    pub notes: Vec<String>,
}

/// The rules by which the columns of a table are read.
#[derive(Debug, Clone, Copy)]
pub struct TableOptions<'a> {
    /// Names of the columns: text, optionally a second text, label.
    pub columns: &'a [String],
    /// The kind of the labels.
    pub labels: TableLabels<'a>,
    /// Whether rows without a label are errors or are left out.
    pub label_use: LabelUse,
}

/// Returns the task of a table. Unless given, its classes are the labels in `train`. A range of scores is the range in
/// `train`. `test` may have labels. Labels are normalized: surrounding white space is removed, `1.0` becomes `1`, and
/// `True` becomes `true`.
///
/// # Errors
/// Fails when the columns are not two or three different ones, when the labels of `train` cannot be classes, or when a
/// file cannot be read or has an error; errors in a line name it.
pub fn describe(
    options: TableOptions<'_>,
    train: &Path,
    dev: &Path,
    test: Option<&Path>,
) -> Result<DescribedTable, Error> {
    let TableOptions { columns, labels, label_use } = options;
    let columns_only = TableDescription { columns: columns.to_vec(), ..TableDescription::default() };
    let unread = Task::table(columns_only.clone())?;
    let names = unread.table_columns().ok_or_else(|| wrong_columns(columns))?;
    let read = |path: &Path, label_use| {
        read_rows(path, RowRules { columns: names, labels, label_use }).map(|file| file.examples)
    };
    let mut parts = vec![(train, read(train, label_use)?)];
    // A single table is both train and dev.
    if dev != train {
        parts.push((dev, read(dev, label_use)?));
    }
    let mut test_has_labels = false;
    if let Some(test) = test {
        // A test file without any label is not scored.
        test_has_labels = read(test, LabelUse::Ignored)?.iter().any(|row| row.label.is_some());
        if test_has_labels {
            parts.push((test, read(test, label_use)?));
        }
    }
    let mut description = TableDescription { test_has_labels, ..columns_only.clone() };
    if labels == TableLabels::Scores {
        let ranges = parts.iter().map(|(path, rows)| range_of_rows(rows, path, names));
        let ranges = ranges.collect::<Result<Vec<_>, Error>>()?;
        description.range = Some(ranges[0]);
        return Ok(DescribedTable { task: Task::table(description)?, notes: Vec::new() });
    }
    let found = parts
        .iter()
        .flat_map(|(path, rows)| [notes::surrounding_blanks(path, rows), notes::spellings(path, rows)]);
    let mut notes: Vec<String> = found.flatten().collect();
    description.labels = match labels {
        TableLabels::Classes(given) if !given.is_empty() => {
            given.iter().map(|label| normalize_label(label)).collect()
        }
        _ => classes(&parts[0].1, train, names)?,
    };
    let found = &description.labels;
    notes.extend([notes::similar_classes(found), notes::scores_as_classes(found)].into_iter().flatten());
    Ok(DescribedTable { task: Task::table(description)?, notes })
}

/// Returns the minimum and maximum score of some rows.
fn range_of_rows(rows: &[Row], path: &Path, names: Columns<'_>) -> Result<(f32, f32), Error> {
    let mut range = (f32::INFINITY, f32::NEG_INFINITY);
    for row in rows {
        let score = score(row, path, names)?;
        range = (range.0.min(score), range.1.max(score));
    }
    Ok(range)
}

/// Returns the distinct labels, sorted as numbers if all are integers, else as text.
fn classes(rows: &[Row], path: &Path, names: Columns<'_>) -> Result<Vec<String>, Error> {
    let found: BTreeSet<&String> = rows.iter().filter_map(|row| row.label.as_ref()).collect();
    if !(2..=MAX_CLASSES).contains(&found.len()) {
        let column = names.label.to_string();
        let found = found.len();
        let max = MAX_CLASSES;
        return Err(Error::data(format!(
            "{found} different label(s) in column \"{column}\"; a classification has 2 to {max} (name them with \
             `.labels`, or use `.regression` for numbers)"
        ))
        .at(path));
    }
    let mut found: Vec<String> = found.into_iter().cloned().collect();
    if found.iter().all(|label| label.parse::<i64>().is_ok()) {
        found.sort_by_key(|label| label.parse::<i64>().unwrap_or_default());
    }
    Ok(found)
}

fn score(row: &Row, path: &Path, names: Columns<'_>) -> Result<f32, Error> {
    let label = row.label.as_deref().unwrap_or_default();
    let problem = match label.parse::<f32>() {
        Ok(score) if score.is_finite() => return Ok(score),
        // The label is a number that overflows to infinity, and not the word `inf`.
        Ok(_) if label.contains(|c: char| c.is_ascii_digit()) => {
            Error::data(format!("\"{label}\" is too large for a score (at most {:e})", f32::MAX))
        }
        _ => Error::data(format!("\"{}\" is not a number, expected a score", names.label)),
    };
    Err(problem.at_line(path, row.line))
}

/// Returns the examples of a table, as [`crate::read_examples`] does.
pub(crate) fn read_table(
    task: &Task,
    columns: Columns<'_>,
    path: &Path,
    label_use: LabelUse,
) -> Result<ExampleFile<Example>, Error> {
    let classes: Vec<String> = task.labels().map(String::from).collect();
    let is_regression = matches!(task.spec().kind, Kind::Regression { .. });
    let labels = if is_regression { TableLabels::Scores } else { TableLabels::Classes(&classes) };
    let ExampleFile { examples: rows, without_label, misplaced } =
        read_rows(path, RowRules { columns, labels, label_use })?;
    let examples = examples(task, columns, rows, path, label_use.are_read())?;
    Ok(ExampleFile { examples, without_label, misplaced })
}

/// Converts rows to examples of a task.
fn examples(
    task: &Task,
    columns: Columns<'_>,
    rows: Vec<Row>,
    path: &Path,
    has_labels: bool,
) -> Result<Vec<Example>, Error> {
    let is_regression = matches!(task.spec().kind, Kind::Regression { .. });
    let example = |(at, row): (usize, Row)| {
        let label = match &row.label {
            Some(_) if has_labels && is_regression => Some(Label::Score(score(&row, path, columns)?)),
            Some(label) if has_labels => {
                Some(label_of(task, label).map_err(|problem| problem.at_line(path, row.line))?)
            }
            _ => None,
        };
        Ok(Example { index: at.to_string(), text_a: row.text_a, text_b: row.text_b, choices: vec![], label })
    };
    rows.into_iter().enumerate().map(example).collect()
}

/// Returns the table file of a split in a folder, such as `train.csv`, `train.jsonl` or `train.parquet`.
pub(crate) fn find_table(task: &Task, dir: &Path, split: Split) -> Result<SplitFile, Error> {
    let tried: Vec<String> = TABLE_FORMATS.iter().map(|extension| format!("{split}.{extension}")).collect();
    let mut found = Vec::new();
    for name in &tried {
        if exists(&dir.join(name))? {
            found.push(name.clone());
        }
    }
    match &found[..] {
        [] => Err(missing_split(task, split, &tried).at(dir)),
        [name] => Ok(SplitFile { path: dir.join(name), is_sample: false }),
        _ => Err(Error::usage(format!(
            "several {split} files ({}); choose one with `.{split}_file`",
            found.join(", ")
        ))
        .at(dir)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{find_split, read_examples, read_file};
    use bert_tasks::Metric;

    fn columns(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn options<'a>(columns: &'a [String], labels: TableLabels<'a>) -> TableOptions<'a> {
        TableOptions { columns, labels, label_use: LabelUse::Required }
    }

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn classes_are_found_and_sorted() {
        let train = "text,label\na,yes\nb,no\nc,yes\n";
        let folder =
            folder(&[("train.csv", train), ("dev.csv", "text,label\na,no\n"), ("test.csv", "text\na\n")]);
        let at = |name: &str| folder.path().join(name);
        let names = columns(&["text", "label"]);
        let describe = |labels| {
            describe(options(&names, labels), &at("train.csv"), &at("dev.csv"), Some(&at("test.csv")))
        };
        let task = describe(TableLabels::Classes(&[])).unwrap().task;
        let spec = task.spec();
        assert_eq!((task.num_labels(), spec.pair), (2, false));
        assert!(task.labels().eq(["no", "yes"]) && task.class_names().eq(["no", "yes"]));
        assert_eq!(
            (spec.metrics, spec.primary),
            (&[Metric::Accuracy, Metric::MacroF1][..], Metric::Accuracy)
        );
        assert!(!spec.has_labels(Split::Test));
        assert_eq!(describe(TableLabels::Classes(&[])).unwrap().task, task);
        let examples = read_file(&task, &at("train.csv"), true).unwrap();
        assert_eq!(examples[1].label, Some(Label::Class(0)));
        assert!(read_file(&task, &at("dev.csv"), false).unwrap()[0].label.is_none());

        let three = columns(&["yes", "no", "maybe"]);
        let two = columns(&["yes", "maybe"]);
        let other = describe(TableLabels::Classes(&three)).unwrap().task;
        assert!(other != task && other.labels().eq(["yes", "no", "maybe"]));
        let fewer = describe(TableLabels::Classes(&two)).unwrap().task;
        let error = read_file(&fewer, &at("train.csv"), true).unwrap_err().to_string();
        assert!(
            error.ends_with("train.csv:3: unknown label \"no\"; the labels of task table are yes, maybe")
        );
    }

    #[test]
    fn numeric_classes_sort_as_numbers() {
        let rows = |labels: &[&str]| {
            let row = |label: &&str| Row {
                line: 1,
                text_a: "a".into(),
                text_b: None,
                label: Some(label.to_string()),
                written: None,
            };
            labels.iter().map(row).collect::<Vec<Row>>()
        };
        let names = Columns { text_a: "text", text_b: None, label: "label" };
        let classes = |labels: &[&str]| classes(&rows(labels), Path::new("x.csv"), names);
        assert_eq!(classes(&["10", "9", "-1"]).unwrap(), ["-1", "9", "10"]);
        assert_eq!(classes(&["10", "9", "b"]).unwrap(), ["10", "9", "b"]);
        let error = classes(&["1", "1"]).unwrap_err();
        assert!(error.to_string().starts_with("x.csv: 1 different label(s) in column \"label\""), "{error}");
        assert_eq!(error.exit_code(), 3);
    }

    #[test]
    fn labels_are_equal_in_every_file_format() {
        let folder = folder(&[
            ("train.csv", "text,label\na,True\nb,FALSE\nc, true\n"),
            ("dev.jsonl", "{\"text\":\"a\",\"label\":true}\n{\"text\":\"b\",\"label\":false}\n"),
        ]);
        let at = |name: &str| folder.path().join(name);
        let names = columns(&["text", "label"]);
        let labels = columns(&["False", "TRUE"]);
        let described = describe(
            options(&names, TableLabels::Classes(&labels)),
            &at("train.csv"),
            &at("dev.jsonl"),
            None,
        )
        .unwrap();
        assert!(described.task.labels().eq(["false", "true"]));
        let classes = |name: &str| -> Vec<Option<Label>> {
            read_file(&described.task, &at(name), true).unwrap().iter().map(|example| example.label).collect()
        };
        assert_eq!(classes("train.csv"), [1, 0, 1].map(|class| Some(Label::Class(class))));
        assert_eq!(classes("dev.jsonl"), [1, 0].map(|class| Some(Label::Class(class))));
        assert!(
            described.notes[0]
                .ends_with("train.csv: 1 labels have surrounding white space, which is ignored")
        );
        assert!(
            described.notes[1].ends_with("labels with several spellings are one class: true (True, true)")
        );
    }

    #[test]
    fn rows_without_a_label_are_counted_and_left_out() {
        let folder = folder(&[
            ("train.csv", "text,label\na,0\nb,-1\nc,1\nd,\n"),
            ("dev.csv", "text,label\na,0\n"),
            ("test.csv", "text,label\na,-1\nb,-1\n"),
        ]);
        let at = |name: &str| folder.path().join(name);
        let names = columns(&["text", "label"]);
        let describe = |skips| {
            let labels = TableLabels::Classes(&[]);
            let options = TableOptions { columns: &names, labels, label_use: LabelUse::for_labelled(skips) };
            describe(options, &at("train.csv"), &at("dev.csv"), Some(&at("test.csv")))
        };
        let error = describe(false).unwrap_err().to_string();
        assert!(error.contains("train.csv:3: the label \"-1\" marks an example without a label"), "{error}");
        let task = describe(true).unwrap().task;
        assert!(task.labels().eq(["0", "1"]) && !task.spec().has_labels(Split::Test));
        let read = read_examples(&task, &at("train.csv"), LabelUse::LeftOut).unwrap();
        assert_eq!((read.examples.len(), read.without_label), (2, 2));
        assert!(read.remarks().eq(["2 examples without a label are left out"]));
        let error = read_examples(&task, &at("test.csv"), LabelUse::LeftOut).unwrap_err().to_string();
        assert!(error.contains("test.csv: all 2 examples of this file are left out"), "{error}");
    }

    #[test]
    fn a_regression_has_the_range_of_its_training_file() {
        let folder =
            folder(&[("train.tsv", "a\tb\ts\nx\ty\t1\nx\ty\t2.5\n"), ("dev.tsv", "a\tb\ts\nx\ty\t-1\n")]);
        let at = |name: &str| folder.path().join(name);
        let names = columns(&["a", "b", "s"]);
        let task = describe(options(&names, TableLabels::Scores), &at("train.tsv"), &at("dev.tsv"), None)
            .unwrap()
            .task;
        assert_eq!(task.spec().kind, Kind::Regression { min: 1.0, max: 2.5 });
        assert_eq!(read_file(&task, &at("dev.tsv"), true).unwrap()[0].label, Some(Label::Score(-1.0)));
        assert!(task.spec().pair && task.spec().primary == Metric::Pearson);
        std::fs::write(at("dev.tsv"), "a\tb\ts\nx\ty\thigh\n").unwrap();
        let error = describe(options(&names, TableLabels::Scores), &at("train.tsv"), &at("dev.tsv"), None)
            .unwrap_err();
        assert!(error.to_string().ends_with("dev.tsv:2: \"s\" is not a number, expected a score"), "{error}");
        std::fs::write(at("dev.tsv"), format!("a\tb\ts\nx\ty\t{}\n", "1".repeat(42))).unwrap();
        let error = describe(options(&names, TableLabels::Scores), &at("train.tsv"), &at("dev.tsv"), None)
            .unwrap_err();
        assert!(error.to_string().ends_with("is too large for a score (at most 3.4028235e38)"), "{error}");
    }

    #[test]
    fn a_table_task_serializes_its_description() {
        let description = TableDescription {
            columns: columns(&["text", "label"]),
            labels: columns(&["no", "yes"]),
            ..TableDescription::default()
        };
        let task = Task::table(description).unwrap();
        let json = serde_json::to_string(&task).unwrap();
        assert_eq!(serde_json::from_str::<Task>(&json).unwrap(), task);
        let named = serde_json::from_str::<Task>("\"table\"").unwrap();
        assert!(named != task && named == "table".parse().unwrap());
        assert_eq!(serde_json::to_string(&named).unwrap(), "\"table\"");
        assert_eq!((task.to_string(), named.to_string()), ("table".into(), "table".into()));
        for wrong in [&["text"][..], &["a", "a"], &["a", ""], &["a", "b", "c", "d"]] {
            let description = TableDescription { columns: columns(wrong), ..TableDescription::default() };
            assert_eq!(Task::table(description).unwrap_err().exit_code(), 2);
        }
    }

    #[test]
    fn several_tables_of_a_split_are_an_error() {
        let folder = folder(&[("train.csv", ""), ("dev.csv", ""), ("dev.parquet", "")]);
        let task = "table".parse().unwrap();
        let find = |split| find_split(&task, folder.path(), split);
        assert_eq!(find(Split::Train).unwrap().path, folder.path().join("train.csv"));
        let error = find(Split::Dev).unwrap_err();
        assert!(error.to_string().contains("dev.csv, dev.parquet"), "{error}");
        let error = find(Split::Test).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "(looked for test.csv, test.tsv, test.jsonl, test.ndjson, test.json, test.parquet)"
            ),
            "{error}"
        );
        assert!(find(Split::DevMismatched).is_err());
    }
}
