//! Parses lines of tab-separated files, and of minBERT's `LABEL ||| TEXT`, into examples.
//!
//! These files have no quoting: a `"` is an ordinary character and often unpaired, so rows are split only at tabs.
//! Columns are found by name if there is a header, else by their official position. This reads both the official files
//! (MNLI has 12 columns in train, 16 in dev, 10 in test) and small files with only the required columns. CoLA's train
//! and dev have no header, and any other official file can be read without its header.

use bert_tasks::{Columns, Error, Example, Kind, Label, Task, missing_column, missing_label};
use bert_text::{ColumnLookup, ColumnPlace, find_column};

use crate::lines::{LabelUse, is_missing_class};

/// Converter of the lines of one file to examples.
pub(super) struct RowReader<'a> {
    task: &'a Task,
    labels: LabelUse,
    layout: Option<&'static Layout>,
    /// The columns found in line 1.
    positions: Option<ColumnIndices>,
    rows: usize,
    /// Number of rows left out so far, because they have no label.
    pub(super) without_label: usize,
}

impl<'a> RowReader<'a> {
    /// Creates a reader for the lines of a file.
    pub(super) fn new(task: &'a Task, labels: LabelUse) -> Self {
        RowReader { task, labels, layout: layout(task), positions: None, rows: 0, without_label: 0 }
    }

    /// Returns the example in a line; `None` for a header, for a row without annotator agreement, and for a row that is left
    /// out. Lines must be passed in order.
    pub(super) fn line(&mut self, text: &str) -> Result<Option<Example>, Error> {
        let example = match self.layout {
            None => self.minbert_line(text)?,
            Some(layout) => self.tsv_line(layout, text)?,
        };
        self.rows += usize::from(example.is_some());
        Ok(example)
    }

    fn tsv_line(&mut self, layout: &Layout, text: &str) -> Result<Option<Example>, Error> {
        let fields: Vec<&str> = text.split('\t').collect();
        let has_labels = self.labels.are_read();
        let positions = match self.positions {
            None if layout.is_header(&fields) => {
                self.positions = Some(layout.indices_in_header(&fields, has_labels)?);
                return Ok(None);
            }
            None => layout.indices_by_count(fields.len(), has_labels)?,
            Some(positions) => positions,
        };
        self.positions = Some(positions);
        check_column_count(fields.len(), positions.columns, "tab")?;
        let unlabelled = self.task.spec().unlabelled;
        if unlabelled.is_some_and(|mark| positions.label.is_some_and(|at| fields[at] == mark)) {
            return Ok(None);
        }
        let label = match positions.label.map(|at| self.label(fields[at])).transpose()? {
            None => None,
            Some(None) => return Ok(None),
            Some(label) => label,
        };
        let index = match positions.index {
            Some(at) => fields[at].to_string(),
            None => self.rows.to_string(),
        };
        Ok(Some(Example {
            index,
            text_a: fields[positions.text_a].to_string(),
            text_b: positions.text_b.map(|at| fields[at].to_string()),
            choices: vec![],
            label,
        }))
    }

    /// Returns the label in a field; `None` if its row is left out.
    fn label(&mut self, field: &str) -> Result<Option<Label>, Error> {
        let label = self.labels.unless_left_out(label_of(self.task, field))?;
        self.without_label += usize::from(label.is_none());
        Ok(label)
    }

    fn minbert_line(&mut self, text: &str) -> Result<Option<Example>, Error> {
        let (label, text) =
            text.split_once(" ||| ").ok_or_else(|| Error::data("expected \"LABEL ||| TEXT\""))?;
        // Check the label even if it is ignored: the placeholder in a test file must be a valid label too.
        let Some(label) = self.label(label.trim())? else { return Ok(None) };
        Ok(Some(Example {
            index: self.rows.to_string(),
            text_a: text.to_string(),
            text_b: None,
            choices: vec![],
            label: self.labels.are_read().then_some(label),
        }))
    }
}

/// Parses the label of an example: a class of the task, or a score in its range.
pub(super) fn label_of(task: &Task, text: &str) -> Result<Label, Error> {
    let missing = || {
        let may_be_class = task.table_columns().is_some();
        missing_label(text.trim(), may_be_class)
    };
    match task.spec().kind {
        Kind::Classification => match task.labels().position(|label| label == text) {
            Some(class) => Ok(Label::Class(class)),
            None if is_missing_class(text.trim()) => Err(missing()),
            None => {
                let known: Vec<&str> = task.labels().collect();
                Err(Error::data(format!(
                    "unknown label \"{text}\"; the labels of task {task} are {}",
                    known.join(", ")
                )))
            }
        },
        Kind::Regression { min, max } => match text.parse() {
            Ok(score) if (min..=max).contains(&score) => Ok(Label::Score(score)),
            _ if is_missing_class(text.trim()) => Err(missing()),
            _ => Err(Error::data(format!(
                "\"{text}\" is not a score of task {task} (a number from {min} to {max})"
            ))),
        },
        Kind::Spans { .. } | Kind::Tags => panic!("task {task} has no labels"),
    }
}

/// The columns in the official files of a task.
struct Layout {
    text_a: &'static str,
    text_b: Option<&'static str>,
    /// Possible names of the label column; the first existing one is used.
    label: &'static [&'static str],
    /// Column indices in files without a header.
    positions: &'static [ColumnIndices],
}

/// Returns the place of the column with this name, or with this number from 1, in the first row of a table.
///
/// # Errors
/// Fails when the header lacks the column, or when two columns have its name.
pub(crate) fn table_column(header: &[impl AsRef<str>], column: &str) -> Result<ColumnPlace, Error> {
    match find_column(header, column) {
        ColumnLookup::Found(place) => Ok(place),
        ColumnLookup::Twice => {
            Err(Error::data(format!("two columns are named \"{column}\"; rename one of them")))
        }
        ColumnLookup::Missing => {
            let header: Vec<String> = header.iter().map(|field| field.as_ref().to_string()).collect();
            Err(missing_column(column, &header))
        }
    }
}

/// Returns the index of a column in a header, as [`table_column`] does.
pub(crate) fn column_index(header: &[impl AsRef<str>], column: &str) -> Result<usize, Error> {
    table_column(header, column).map(|place| place.index)
}

/// Checks that a row has the same number of columns as the first one.
///
/// # Errors
/// Fails when the row has a different number of columns than the first one.
pub(crate) fn check_column_count(found: usize, columns: usize, separator: &'static str) -> Result<(), Error> {
    if found == columns {
        Ok(())
    } else {
        let expected = format!("{columns} as in the first row");
        Err(Error::data(format!("{found} {separator}-separated columns, expected {expected}")))
    }
}

/// Names of the column with the example's index, in files that have one.
const INDEX: &[&str] = &["index", "id", "pair_ID", "pairID"];

/// Indices of the columns in a row, from 0.
#[derive(Clone, Copy)]
pub(crate) struct ColumnIndices {
    /// Number of columns in every row.
    pub columns: usize,
    /// Column with the example's index.
    pub index: Option<usize>,
    /// Column with the (first) text.
    pub text_a: usize,
    /// Column with the second text.
    pub text_b: Option<usize>,
    /// Column with the label.
    pub label: Option<usize>,
}

const fn pair(columns: usize, texts: (usize, usize), label: Option<usize>) -> ColumnIndices {
    ColumnIndices { columns, index: Some(0), text_a: texts.0, text_b: Some(texts.1), label }
}

const fn single(columns: usize, index: Option<usize>, text_a: usize, label: Option<usize>) -> ColumnIndices {
    ColumnIndices { columns, index, text_a, text_b: None, label }
}

/// The layout of RTE and WNLI.
const SENTENCES: Layout = Layout {
    text_a: "sentence1",
    text_b: Some("sentence2"),
    label: &["label"],
    positions: &[pair(4, (1, 2), Some(3)), pair(3, (1, 2), None)],
};
const QNLI: Layout = Layout { text_a: "question", text_b: Some("sentence"), ..SENTENCES };
const SST2: Layout = Layout {
    text_a: "sentence",
    text_b: None,
    label: &["label"],
    positions: &[single(2, None, 0, Some(1)), single(2, Some(0), 1, None)],
};
const COLA: Layout =
    Layout { positions: &[single(4, None, 3, Some(1)), single(2, Some(0), 1, None)], ..SST2 };
const MRPC: Layout = Layout {
    text_a: "#1 String",
    text_b: Some("#2 String"),
    label: &["Quality"],
    positions: &[ColumnIndices { index: None, ..pair(5, (3, 4), Some(0)) }, pair(5, (3, 4), None)],
};
const QQP: Layout = Layout {
    text_a: "question1",
    text_b: Some("question2"),
    label: &["is_duplicate"],
    positions: &[pair(6, (3, 4), Some(5)), pair(4, (1, 2), Some(3)), pair(3, (1, 2), None)],
};
const MNLI: Layout = Layout {
    label: &["gold_label", "label"],
    positions: &[
        pair(12, (8, 9), Some(11)),
        pair(16, (8, 9), Some(15)),
        pair(10, (8, 9), None),
        pair(4, (1, 2), Some(3)),
        pair(3, (1, 2), None),
    ],
    ..SENTENCES
};
const STSB: Layout =
    Layout { label: &["score"], positions: &[pair(10, (7, 8), Some(9)), pair(9, (7, 8), None)], ..SENTENCES };

const SICK: Layout = Layout {
    text_a: "sentence_A",
    text_b: Some("sentence_B"),
    label: &["entailment_judgment"],
    positions: &[pair(5, (1, 2), Some(4)), pair(3, (1, 2), None)],
};
const SICK_R: Layout = Layout {
    label: &["relatedness_score"],
    positions: &[pair(5, (1, 2), Some(3)), pair(3, (1, 2), None)],
    ..SICK
};
const SNLI: Layout = Layout {
    label: &["gold_label", "label"],
    positions: &[ColumnIndices { index: Some(8), ..pair(14, (5, 6), Some(0)) }],
    ..SENTENCES
};

/// Returns the column layout of a published task; `None` for a task in another format.
fn layout(task: &Task) -> Option<&'static Layout> {
    match task {
        Task::Rte | Task::Wnli => Some(&SENTENCES),
        Task::Qnli => Some(&QNLI),
        Task::Sst2 => Some(&SST2),
        Task::Mrpc => Some(&MRPC),
        Task::Cola => Some(&COLA),
        Task::Qqp => Some(&QQP),
        Task::Mnli => Some(&MNLI),
        Task::Stsb => Some(&STSB),
        Task::Sick => Some(&SICK),
        Task::SickR => Some(&SICK_R),
        Task::Snli => Some(&SNLI),
        _ => None,
    }
}

/// Returns the names of the text and label columns in the header of a task's tables; `None` if its files are not such
/// tables.
pub fn text_columns(task: &Task) -> Option<Columns<'_>> {
    let columns = |of: &Layout| Columns { text_a: of.text_a, text_b: of.text_b, label: of.label[0] };
    task.table_columns().or_else(|| layout(task).map(columns))
}

impl Layout {
    /// Returns whether line 1 is a header, which has at least one known column name.
    fn is_header(&self, fields: &[&str]) -> bool {
        let names = INDEX.iter().chain(self.label).copied();
        let mut names = names.chain([self.text_a]).chain(self.text_b);
        names.any(|name| fields.contains(&name))
    }

    /// Finds the columns by their names in the header and returns their indices.
    fn indices_in_header(&self, fields: &[&str], has_labels: bool) -> Result<ColumnIndices, Error> {
        let label = self.label.iter().find(|name| fields.contains(name)).unwrap_or(&self.label[0]);
        Ok(ColumnIndices {
            columns: fields.len(),
            index: INDEX
                .iter()
                .find(|name| fields.contains(name))
                .map(|name| column_index(fields, name))
                .transpose()?,
            text_a: column_index(fields, self.text_a)?,
            text_b: self.text_b.map(|name| column_index(fields, name)).transpose()?,
            label: has_labels.then(|| column_index(fields, label)).transpose()?,
        })
    }

    /// Returns the indices of the official layout with the same number of columns as line 1. A file to predict may have
    /// the layout of a test file, or of a labelled file, whose labels are then ignored.
    fn indices_by_count(&self, columns: usize, has_labels: bool) -> Result<ColumnIndices, Error> {
        let same = |labelled: bool| {
            self.positions.iter().find(|p| p.columns == columns && p.label.is_some() == labelled)
        };
        let found = if has_labels { same(true) } else { same(false).or(same(true)) };
        let mut positions = *found.ok_or_else(|| {
            let known: Vec<String> = (self.positions.iter())
                .filter(|p| !has_labels || p.label.is_some())
                .map(|p| p.columns.to_string())
                .collect();
            let expected = format!("a header, or {} columns", known.join(" or "));
            Error::data(format!("{columns} tab-separated columns, expected {expected}"))
        })?;
        if !has_labels {
            positions.label = None;
        }
        Ok(positions)
    }
}
