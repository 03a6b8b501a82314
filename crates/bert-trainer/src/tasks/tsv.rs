//! Parses lines of tab-separated files, and of minBERT's `LABEL ||| TEXT`, into examples.
//!
//! These files have no quoting: a `"` is a character like any other and often stands alone, so rows are cut at tabs
//! and nothing else. `columns.rs` says which column is which.

use std::path::Path;

use super::columns::{Layout, Positions, layout};
use super::error::TaskError;
use super::spec::Kind;
use super::task::Task;
use crate::tasks::example::Example;
use crate::tasks::example::Label;

/// Makes examples of the lines of one file.
pub(super) struct RowReader<'a> {
    task: Task,
    path: &'a Path,
    has_labels: bool,
    layout: Option<&'static Layout>,
    /// Known from line 1 on.
    positions: Option<Positions>,
    rows: usize,
}

impl<'a> RowReader<'a> {
    /// A reader for the lines of the file at `path`, which is used in messages alone.
    pub(super) fn new(task: Task, path: &'a Path, has_labels: bool) -> Self {
        RowReader { task, path, has_labels, layout: layout(task), positions: None, rows: 0 }
    }

    /// The example in a line; `None` for a header and for a row without a label that annotators agreed on. Lines must
    /// come in order.
    pub(super) fn line(&mut self, line: usize, text: &str) -> Result<Option<Example>, TaskError> {
        let example = match self.layout {
            None => Some(self.minbert_line(line, text)?),
            Some(layout) => self.tsv_line(layout, line, text)?,
        };
        self.rows += usize::from(example.is_some());
        Ok(example)
    }

    fn tsv_line(&mut self, layout: &Layout, line: usize, text: &str) -> Result<Option<Example>, TaskError> {
        let fields: Vec<&str> = text.split('\t').collect();
        let positions = match self.positions {
            None if layout.is_header(&fields) => {
                self.positions = Some(layout.by_name(&fields, self.has_labels, self.path)?);
                return Ok(None);
            }
            None => layout.by_count(fields.len(), self.has_labels, self.path)?,
            Some(positions) => positions,
        };
        self.positions = Some(positions);
        if fields.len() != positions.columns {
            return Err(TaskError::WrongColumns {
                path: self.path.into(),
                line,
                found: fields.len(),
                expected: format!("{} as in line 1", positions.columns),
            });
        }
        let unlabelled = self.task.spec().unlabelled;
        if unlabelled.is_some_and(|mark| positions.label.is_some_and(|at| fields[at] == mark)) {
            return Ok(None);
        }
        let label = positions.label.map(|at| label_of(self.task, self.path, line, fields[at])).transpose()?;
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

    fn minbert_line(&self, line: usize, text: &str) -> Result<Example, TaskError> {
        let (label, text) = text
            .split_once(" ||| ")
            .ok_or_else(|| TaskError::MissingSeparator { path: self.path.into(), line })?;
        // Checked even where it does not count: a test file's blanked label is a label in form.
        let label = label_of(self.task, self.path, line, label.trim())?;
        Ok(Example {
            index: self.rows.to_string(),
            text_a: text.to_string(),
            text_b: None,
            choices: vec![],
            label: self.has_labels.then_some(label),
        })
    }
}

/// A label of a task as it stands in line `line` of the file at `path`.
pub(super) fn label_of(task: Task, path: &Path, line: usize, text: &str) -> Result<Label, TaskError> {
    let (path, label) = (path.into(), text.into());
    match task.spec().kind {
        Kind::Classification { labels } => match labels.iter().position(|label| *label == text) {
            Some(class) => Ok(Label::Class(class)),
            None => Err(TaskError::UnknownLabel { path, line, task, label, known: labels }),
        },
        Kind::Regression { min, max } => match text.parse() {
            Ok(score) if (min..=max).contains(&score) => Ok(Label::Score(score)),
            _ => Err(TaskError::BadScore { path, line, task, label, min, max }),
        },
        Kind::Spans { .. } | Kind::Tags => panic!("task {task} has no labels"),
    }
}
