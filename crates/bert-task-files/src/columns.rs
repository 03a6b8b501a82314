//! Finds the text columns (or keys) in tables of new examples.

use bert_tasks::{Columns, Error, Task};
use bert_text::{ColumnPlace, value_at};
use serde_json::{Map, Value};

use crate::glue_tsv::{check_column_count, table_column, text_columns};
use crate::table::{text_at, wrong};

/// Names of text columns that are tried for any model.
const DEFAULT_COLUMNS: [[&str; 2]; 2] = [["text", "text_b"], ["question", "context"]];

/// Columns of a table, or keys of JSON Lines, to read.
#[derive(Clone, Debug, Default)]
pub struct TextColumns {
    /// The text column and optionally the second one. If empty, the column names from fine-tuning are used if the table
    /// has them, else the default names.
    pub texts: Vec<String>,
    /// A column whose values are copied to the output.
    pub id: Option<String>,
}

/// Positions of the text columns and of the id column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnPositions {
    /// Number of fields in every row.
    columns: usize,
    texts: Vec<ColumnPlace>,
    id: Option<ColumnPlace>,
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
    pub(crate) fn positions(&self, header: &[String]) -> Result<ColumnPositions, Error> {
        let has = |name: &str| header.iter().any(|field| field == name);
        let (text_a, text_b) = match (&self.requested.texts[..], self.trained_columns()) {
            ([a, rest @ ..], _) => (a.as_str(), rest.first().map(String::as_str)),
            ([], Some(Columns { text_a, text_b, .. })) if has(text_a) => (text_a, text_b),
            ([], columns) => match DEFAULT_COLUMNS.into_iter().find(|[a, _]| has(a)) {
                Some([a, b]) => (a, Some(b).filter(|b| has(b))),
                None => (columns.map_or(DEFAULT_COLUMNS[0][0], |columns| columns.text_a), None),
            },
        };
        let place = |name: &str| table_column(header, name);
        let texts = [Some(text_a), text_b].into_iter().flatten().map(place).collect::<Result<Vec<_>, _>>()?;
        let id = self.requested.id.as_deref().map(place).transpose()?;
        Ok(ColumnPositions { columns: header.len(), texts, id })
    }

    /// Returns the positions of the text columns in a tab-separated file if its first line is a header; `None` if each line
    /// consists of one or two texts. The number of columns says nothing about their meaning.
    pub(crate) fn tsv_positions(&self, first: &[String]) -> Result<Option<ColumnPositions>, Error> {
        // Ignore case here: the error of `positions` then names the column that differs in case.
        let has = |name: &str| first.iter().any(|field| field.eq_ignore_ascii_case(name));
        let has_trained = self.trained_columns().is_some_and(|columns| has(columns.text_a));
        let has_default = first.len() > 1 && DEFAULT_COLUMNS.into_iter().any(|[a, _]| has(a));
        let has_header =
            !self.requested.texts.is_empty() || self.requested.id.is_some() || has_trained || has_default;
        has_header.then(|| self.positions(first)).transpose()
    }

    /// Returns the texts of a JSON object.
    ///
    /// # Errors
    /// Fails when a text or the requested id is missing, or when a text is not a string.
    pub(crate) fn texts_of_object(&self, object: &Map<String, Value>) -> Result<RowTexts, Error> {
        let id = match &self.requested.id {
            Some(name) => {
                Some(value_at(object, name).cloned().ok_or_else(|| wrong(name, "missing", "an id"))?)
            }
            None => None,
        };
        let take = |column: &str| Ok::<_, Error>(text_at(object, column)?.map(str::to_string));
        let own = match (&self.requested.texts[..], self.trained_columns()) {
            ([a, rest @ ..], _) => Some((a.as_str(), rest.first().map(String::as_str))),
            ([], Some(Columns { text_a, text_b, .. })) => Some((text_a, text_b)),
            ([], None) => None,
        };
        if let Some((name_a, name_b)) = own
            && let Some(text_a) = take(name_a)?
        {
            let text_b = name_b.map(take).transpose()?.flatten();
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
        self.trained_task.as_ref().and_then(text_columns)
    }
}

impl ColumnPositions {
    /// Returns the columns to read: the texts, then the id.
    pub(crate) fn selected(&self) -> Vec<ColumnPlace> {
        self.texts.iter().chain(&self.id).copied().collect()
    }

    /// Returns the texts of a row.
    ///
    /// # Errors
    /// Fails when the row has a different number of columns than the first one, or when a text is null.
    pub(crate) fn texts(
        &self,
        fields: &[Option<String>],
        separator: &'static str,
    ) -> Result<RowTexts, Error> {
        check_column_count(fields.len(), self.columns, separator)?;
        let text = |place: &ColumnPlace| {
            fields[place.index].clone().ok_or_else(|| wrong("text", "missing", "a text"))
        };
        let mut texts = self.texts.iter().map(text);
        Ok(RowTexts {
            text_a: texts.next().transpose()?.unwrap_or_default(),
            text_b: texts.next().transpose()?,
            id: self.id.map(|place| fields[place.index].clone().map_or(Value::Null, Value::from)),
        })
    }
}
