//! Creates a task from rows in memory, as [`super::describe`] does from files.

use std::path::Path;

use bert_tasks::{Error, Example, TableDescription, Task, wrong_columns};

use super::rows::{Row, RowRules};
use super::{TableLabels, classes, examples, notes, range_of_rows};
use crate::lines::LabelUse;
use crate::table::rows::normalize_label;

/// A text, or a pair of texts, with its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextRow {
    /// The (first) text.
    pub text: String,
    /// The second text of a pair.
    pub second: Option<String>,
    /// The class, or the score as a decimal number.
    pub label: String,
}

impl TextRow {
    /// Returns a row with one text.
    pub fn new(text: impl Into<String>, label: impl ToString) -> Self {
        Self { text: text.into(), second: None, label: label.to_string() }
    }

    /// Returns a row with a pair of texts.
    pub fn pair(text: impl Into<String>, second: impl Into<String>, label: impl ToString) -> Self {
        Self { second: Some(second.into()), ..Self::new(text, label) }
    }
}

/// Rows in memory as examples of their task.
#[derive(Debug, Clone)]
pub struct TableExamples {
    /// The task.
    pub task: Task,
    /// The examples to train on.
    pub train: Vec<Example>,
    /// The examples to score on.
    pub dev: Vec<Example>,
    /// Possible mistakes in the labels.
    pub notes: Vec<String>,
}

/// Names of the two parts in errors, which give the number of a row as its line.
const PARTS: [&str; 2] = ["rows to train on", "rows of dev"];

/// Returns the task of these rows and their examples. Unless given, the classes are the labels of `train`. The range of
/// scores is the range in `train`. Labels are normalized as in files.
///
/// # Errors
/// Fails when the rows are empty, when only some rows have a second text, when the labels cannot be classes, or when a
/// label is missing, unknown or invalid; errors in a row have its number, from 1.
pub fn table_examples(
    train: &[TextRow],
    dev: &[TextRow],
    labels: TableLabels<'_>,
) -> Result<TableExamples, Error> {
    let is_pair = train.first().is_some_and(|row| row.second.is_some());
    let columns: &[&str] = if is_pair { &["text", "second", "label"] } else { &["text", "label"] };
    let columns = columns.iter().map(|&name| name.to_string()).collect();
    let mut description = TableDescription { columns, test_has_labels: false, ..TableDescription::default() };
    let unread = Task::table(description.clone())?;
    let names = unread.table_columns().ok_or_else(|| wrong_columns(&description.columns))?;
    let [train_path, dev_path] = PARTS.map(Path::new);
    let rules = RowRules { columns: names, labels, label_use: LabelUse::Required };
    let train = rows(train, rules, train_path)?;
    let dev = rows(dev, rules, dev_path)?;
    let mut notes = Vec::new();
    match labels {
        TableLabels::Classes([]) => description.labels = classes(&train, train_path, names)?,
        TableLabels::Classes(given) => {
            description.labels = given.iter().map(|label| normalize_label(label)).collect();
        }
        TableLabels::Scores => {
            description.range = Some(range_of_rows(&train, train_path, names)?);
        }
    }
    if labels != TableLabels::Scores {
        let found = &description.labels;
        notes.extend([notes::similar_classes(found), notes::scores_as_classes(found)].into_iter().flatten());
    }
    let task = Task::table(description)?;
    let train = examples(&task, names, train, train_path, true)?;
    let dev = examples(&task, names, dev, dev_path, true)?;
    Ok(TableExamples { task, train, dev, notes })
}

/// Converts the rows of one part.
fn rows(given: &[TextRow], rules: RowRules<'_>, part: &Path) -> Result<Vec<Row>, Error> {
    if given.is_empty() {
        return Err(Error::data("there are no rows").at(part));
    }
    let row = |(line, row): (u64, &TextRow)| {
        if row.second.is_some() != rules.columns.text_b.is_some() {
            return Err(Error::data(
                "either all rows have a second text, or none; this row differs from the first one",
            )
            .at_line(part, line));
        }
        let label = rules.label(&row.label).map_err(|problem| problem.at_line(part, line))?;
        Ok(Row {
            line,
            text_a: row.text.clone(),
            text_b: row.second.clone(),
            label: Some(label),
            written: Some(row.label.clone()),
        })
    };
    (1..).zip(given).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bert_tasks::{Kind, Label};

    fn moods() -> Vec<TextRow> {
        vec![
            TextRow::new("a warm day", "good"),
            TextRow::new("cold rain", " bad "),
            TextRow::new("sun", "good"),
        ]
    }

    #[test]
    fn rows_become_examples_of_their_classes() {
        let found = table_examples(&moods(), &moods()[..1], TableLabels::Classes(&[])).unwrap();
        assert!(found.task.labels().eq(["bad", "good"]) && !found.task.spec().pair);
        let labels: Vec<_> = found.train.iter().map(|example| example.label).collect();
        assert_eq!(labels, [1, 0, 1].map(|class| Some(Label::Class(class))));
        assert_eq!((found.dev.len(), found.dev[0].text_a.as_str()), (1, "a warm day"));
        let pairs = [TextRow::pair("a", "b", 1), TextRow::pair("c", "d", 2.5)];
        let found = table_examples(&pairs, &pairs, TableLabels::Scores).unwrap();
        assert_eq!(found.task.spec().kind, Kind::Regression { min: 1.0, max: 2.5 });
        assert_eq!(found.train[1].text_b.as_deref(), Some("d"));
    }

    #[test]
    fn errors_have_the_number_of_the_row() {
        let of = |train: &[TextRow], dev: &[TextRow], labels| {
            table_examples(train, dev, labels).unwrap_err().to_string()
        };
        let classes = TableLabels::Classes(&[]);
        let unknown = [TextRow::new("x", "good"), TextRow::new("x", "mixed")];
        assert!(of(&moods(), &unknown, classes).starts_with("rows of dev:2: unknown label \"mixed\""));
        let missing = [TextRow::new("x", "good"), TextRow::new("x", "nan")];
        assert!(
            of(&moods(), &missing, classes)
                .starts_with("rows of dev:2: the label \"nan\" marks an example without")
        );
        let pair = [TextRow::pair("x", "y", "good")];
        assert!(of(&moods(), &pair, classes).starts_with("rows of dev:1: "));
        assert!(of(&[], &moods(), classes).starts_with("rows to train on: "));
        assert!(of(&moods()[..1], &moods(), classes).contains("1 different label(s)"));
        assert!(of(&moods(), &moods(), TableLabels::Scores).contains("is not a number"));
    }
}
