//! Finds the text columns (or keys) in tables of new examples.

use bert_tasks::{Columns, Task, TaskProblem, check_column_count, column_index, json_type};
use serde_json::{Map, Value};

/// Names of text columns that are tried for any model.
const DEFAULT_COLUMNS: [[&str; 2]; 2] = [["text", "text_b"], ["question", "context"]];

/// Columns of a table, or keys of JSON Lines, to read.
#[derive(Clone, Debug, Default)]
pub struct TextColumns {
    /// The text column and optionally the second one. If empty, uses the fine-tuning's names, else the usual ones.
    pub texts: Vec<String>,
    /// A column whose values are copied to the output.
    pub id: Option<String>,
}

/// Positions of the text columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ColumnPositions {
    /// Number of fields in every row.
    columns: usize,
    text_a: usize,
    text_b: Option<usize>,
    id: Option<usize>,
}

/// The values read from a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowTexts {
    pub(crate) text_a: String,
    pub(crate) text_b: Option<String>,
    pub(crate) id: Option<Value>,
}

/// The column names to look for, given the task that the model was trained on.
pub(crate) struct ColumnNames<'a> {
    requested: &'a TextColumns,
    trained_task: Option<Task>,
}

impl<'a> ColumnNames<'a> {
    pub(crate) fn new(requested: &'a TextColumns, trained_task: Option<Task>) -> Self {
        Self { requested, trained_task }
    }

    /// Returns the positions of the text columns in a header.
    pub(crate) fn positions(&self, header: &[String]) -> Result<ColumnPositions, TaskProblem> {
        let has = |name: &str| header.iter().any(|field| field == name);
        let (text_a, text_b) = match (&self.requested.texts[..], self.trained_columns()) {
            ([a, rest @ ..], _) => (a.as_str(), rest.first().map(String::as_str)),
            ([], Some(Columns { text_a, text_b, .. })) if has(text_a) => (text_a, text_b),
            ([], columns) => match DEFAULT_COLUMNS.into_iter().find(|[a, _]| has(a)) {
                Some([a, b]) => (a, Some(b).filter(|b| has(b))),
                None => (columns.map_or(DEFAULT_COLUMNS[0][0], |columns| columns.text_a), None),
            },
        };
        Ok(ColumnPositions {
            columns: header.len(),
            text_a: column_index(header, text_a)?,
            text_b: text_b.map(|name| column_index(header, name)).transpose()?,
            id: self.requested.id.as_ref().map(|name| column_index(header, name)).transpose()?,
        })
    }

    /// Returns the positions of the text columns in a tab-separated file if its first line is a header; `None` if each line
    /// consists of one or two texts. The number of columns says nothing about their meaning.
    pub(crate) fn tsv_positions(&self, first: &[String]) -> Result<Option<ColumnPositions>, TaskProblem> {
        let has = |name: &str| first.iter().any(|field| field == name);
        let has_trained = self.trained_columns().is_some_and(|columns| has(columns.text_a));
        let has_default = first.len() > 1 && DEFAULT_COLUMNS.into_iter().any(|[a, _]| has(a));
        let has_header =
            !self.requested.texts.is_empty() || self.requested.id.is_some() || has_trained || has_default;
        has_header.then(|| self.positions(first)).transpose()
    }

    /// Returns the texts of a JSON object.
    ///
    /// # Errors
    /// [`TaskProblem::WrongValue`] when a text is missing or is not a string.
    pub(crate) fn texts_of_object(&self, mut object: Map<String, Value>) -> Result<RowTexts, TaskProblem> {
        let id = match &self.requested.id {
            Some(name) => Some(object.get(name).cloned().ok_or_else(|| wrong(name, "missing", "an id"))?),
            None => None,
        };
        let mut take = |column: &str| match object.remove(column) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(column, json_type(&other), "a text")),
        };
        let own = match (&self.requested.texts[..], self.trained_columns()) {
            ([a, rest @ ..], _) => Some((a.as_str(), rest.first().map(String::as_str))),
            ([], Some(Columns { text_a, text_b, .. })) => Some((text_a, text_b)),
            ([], None) => None,
        };
        if let Some((name_a, name_b)) = own
            && let Some(text_a) = take(name_a)?
        {
            let text_b = name_b.map(&mut take).transpose()?.flatten();
            return Ok(RowTexts { text_a, text_b, id });
        }
        if let Some(name) = self.requested.texts.first() {
            return Err(wrong(name, "missing", "a text"));
        }
        let [text, question] = [take("text")?, take("question")?];
        let is_table = matches!(self.trained_task, Some(Task::Table(_)));
        let name = own.filter(|_| is_table).map_or("text", |(name, _)| name);
        let text_a = text.or(question).ok_or_else(|| wrong(name, "missing", "a text"))?;
        let [text_b, context] = [take("text_b")?, take("context")?];
        Ok(RowTexts { text_a, text_b: text_b.or(context), id })
    }

    /// Returns the columns of the table, or of the official files, that the model was trained on.
    fn trained_columns(&self) -> Option<Columns<'_>> {
        self.trained_task.as_ref().and_then(Task::text_columns)
    }
}

impl ColumnPositions {
    /// Returns the columns to read, the first text first.
    pub(crate) fn selected(&self) -> Vec<usize> {
        [Some(self.text_a), self.text_b, self.id].into_iter().flatten().collect()
    }

    /// Returns the texts of a row.
    pub(crate) fn texts(&self, fields: &[String], separator: &'static str) -> Result<RowTexts, TaskProblem> {
        check_column_count(fields.len(), self.columns, separator)?;
        Ok(RowTexts {
            text_a: fields[self.text_a].clone(),
            text_b: self.text_b.map(|at| fields[at].clone()),
            id: self.id.map(|at| fields[at].clone().into()),
        })
    }

    /// Returns the texts from the values of [`Self::selected`].
    ///
    /// # Errors
    /// [`TaskProblem::WrongValue`] when a text is null.
    pub(crate) fn texts_of(&self, values: &[Option<&str>]) -> Result<RowTexts, TaskProblem> {
        let text = |value: &Option<&str>| {
            value.map(str::to_string).ok_or_else(|| wrong("text", "missing", "a text"))
        };
        let mut values = values.iter();
        let text_a = text(values.next().unwrap_or(&None))?;
        let text_b = self.text_b.and_then(|_| values.next()).map(text).transpose()?;
        let id = self.id.and_then(|_| values.next()).map(|id| id.map_or(Value::Null, Value::from));
        Ok(RowTexts { text_a, text_b, id })
    }
}

fn wrong(column: &str, found: &'static str, expected: &'static str) -> TaskProblem {
    TaskProblem::WrongValue { column: column.to_string(), found, expected }
}
