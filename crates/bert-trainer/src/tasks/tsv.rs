//! Parses lines of tab-separated files, and of minBERT's `LABEL ||| TEXT`, into examples.
//!
//! These files have no quoting: a `"` is a character like any other and often stands alone, so rows are cut at tabs
//! and nothing else. `columns.rs` says which column is which.

use super::columns::{Layout, Positions, layout, same_columns};
use super::error::TaskProblem;
use super::spec::Kind;
use super::task::Task;
use crate::tasks::example::Example;
use crate::tasks::example::Label;

/// Makes examples of the lines of one file.
pub(super) struct RowReader {
    task: Task,
    has_labels: bool,
    layout: Option<&'static Layout>,
    /// Known from line 1 on.
    positions: Option<Positions>,
    rows: usize,
}

impl RowReader {
    /// A reader for the lines of a file.
    pub(super) fn new(task: Task, has_labels: bool) -> Self {
        RowReader { task, has_labels, layout: layout(task), positions: None, rows: 0 }
    }

    /// The example in a line; `None` for a header and for a row without a label that annotators agreed on. Lines must
    /// come in order.
    pub(super) fn line(&mut self, text: &str) -> Result<Option<Example>, TaskProblem> {
        let example = match self.layout {
            None => Some(self.minbert_line(text)?),
            Some(layout) => self.tsv_line(layout, text)?,
        };
        self.rows += usize::from(example.is_some());
        Ok(example)
    }

    fn tsv_line(&mut self, layout: &Layout, text: &str) -> Result<Option<Example>, TaskProblem> {
        let fields: Vec<&str> = text.split('\t').collect();
        let positions = match self.positions {
            None if layout.is_header(&fields) => {
                self.positions = Some(layout.by_name(&fields, self.has_labels)?);
                return Ok(None);
            }
            None => layout.by_count(fields.len(), self.has_labels)?,
            Some(positions) => positions,
        };
        self.positions = Some(positions);
        same_columns(fields.len(), positions.columns, "tab")?;
        let unlabelled = self.task.spec().unlabelled;
        if unlabelled.is_some_and(|mark| positions.label.is_some_and(|at| fields[at] == mark)) {
            return Ok(None);
        }
        let label = positions.label.map(|at| label_of(self.task, fields[at])).transpose()?;
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

    fn minbert_line(&self, text: &str) -> Result<Example, TaskProblem> {
        let (label, text) = text.split_once(" ||| ").ok_or(TaskProblem::MissingSeparator)?;
        // Checked even where it does not count: a test file's blanked label is a label in form.
        let label = label_of(self.task, label.trim())?;
        Ok(Example {
            index: self.rows.to_string(),
            text_a: text.to_string(),
            text_b: None,
            choices: vec![],
            label: self.has_labels.then_some(label),
        })
    }
}

/// A label of a task as it stands in a file.
pub(super) fn label_of(task: Task, text: &str) -> Result<Label, TaskProblem> {
    let label = text.into();
    match task.spec().kind {
        Kind::Classification { labels } => match labels.iter().position(|label| *label == text) {
            Some(class) => Ok(Label::Class(class)),
            None => Err(TaskProblem::UnknownLabel { task, label, known: labels }),
        },
        Kind::Regression { min, max } => match text.parse() {
            Ok(score) if (min..=max).contains(&score) => Ok(Label::Score(score)),
            _ => Err(TaskProblem::BadScore { task, label, min, max }),
        },
        Kind::Spans { .. } | Kind::Tags => panic!("task {task} has no labels"),
    }
}
