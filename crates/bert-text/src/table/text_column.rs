//! Finds the text column of a Parquet file, also inside structures, and reads its rows.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Fields};
use bert_storage::did_you_mean;

use crate::MAX_LINE_BYTES;
use crate::error::{Error, long_row, not_utf8, wrong_column};
use crate::json::push_sentence;

/// A column of text, or of lists of sentences.
pub(crate) struct TextColumn {
    /// Names of the structures and of the column, without the root.
    path: Vec<String>,
    has_lists: bool,
}

impl TextColumn {
    /// Finds a column by its name, or by its path such as `doc.text`; rejects one that is missing, duplicated, or neither
    /// text nor a list of texts nor all null.
    pub(crate) fn find(fields: &Fields, column: &str) -> Result<Self, Error> {
        let mut named = fields.iter().filter(|field| field.name() == column);
        let first = named.next();
        let second = named.next();
        let (kind, path) = match (first, second) {
            (Some(_), Some(_)) => return Err(wrong(column, "there twice".to_owned())),
            (Some(field), None) => (field.data_type(), Vec::new()),
            (None, _) => inside(fields, column).ok_or_else(|| missing(fields, column))?,
        };
        let is_list_of_texts =
            |item: &Field| is_text(item.data_type()) || *item.data_type() == DataType::Null;
        match kind {
            DataType::Null => Ok(Self { path, has_lists: false }),
            kind if is_text(kind) => Ok(Self { path, has_lists: false }),
            DataType::List(item) if is_list_of_texts(item) => Ok(Self { path, has_lists: true }),
            kind => Err(other_type(fields, column, kind)),
        }
    }

    /// Returns whether the rows are lists of sentences.
    pub(crate) fn has_lists(&self) -> bool {
        self.has_lists
    }

    /// Appends the text of a row, which has this number in the file; sentences of a list become lines. Returns `false`
    /// for a null.
    pub(crate) fn append(
        &self,
        root: &ArrayRef,
        row: usize,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let mut column = root;
        for name in &self.path {
            if column.is_null(row) {
                return Ok(false);
            }
            let Some(inner) = column.as_struct_opt().and_then(|outer| outer.column_by_name(name)) else {
                return Ok(false);
            };
            column = inner;
        }
        if column.is_null(row) || *column.data_type() == DataType::Null {
            return Ok(false);
        }
        if !self.has_lists {
            let Some(text) = bytes(column, row, number)? else { return Ok(false) };
            out.extend_from_slice(text);
            return Ok(true);
        }
        let list = column.as_list::<i32>().value(row);
        let mut lines = String::new();
        for item in 0..list.len() {
            if let Some(text) = bytes(&list, item, number)? {
                push_sentence(&String::from_utf8_lossy(text), &mut lines);
            }
        }
        if lines.len() > MAX_LINE_BYTES {
            return Err(long_row(number, MAX_LINE_BYTES));
        }
        out.extend_from_slice(lines.as_bytes());
        Ok(true)
    }
}

/// Returns the type of the column at a path, and the path without its root.
fn inside<'f>(fields: &'f Fields, column: &str) -> Option<(&'f DataType, Vec<String>)> {
    let root = fields
        .iter()
        .find(|field| column.strip_prefix(field.name().as_str()).is_some_and(|rest| rest.starts_with('.')))?;
    let mut kind = root.data_type();
    let mut path = Vec::new();
    for name in column[root.name().len() + 1..].split('.') {
        let DataType::Struct(fields) = kind else { return None };
        kind = fields.iter().find(|field| field.name() == name)?.data_type();
        path.push(name.to_owned());
    }
    Some((kind, path))
}

/// Returns the names of the columns for which `is_listed` returns true.
fn names(fields: &Fields, is_listed: fn(&DataType) -> bool) -> String {
    let listed = fields.iter().filter(|field| is_listed(field.data_type()));
    listed.map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
}

fn wrong(column: &str, found: String) -> Error {
    wrong_column(column, &found, "text (see `.text_column`)")
}

fn missing(fields: &Fields, column: &str) -> Error {
    let similar = did_you_mean(column, fields.iter().map(|field| field.name().as_str()));
    let nested = fields.iter().find_map(|field| match field.data_type() {
        DataType::Struct(inner) if inner.iter().any(|field| field.name() == column) => Some(field.name()),
        _ => None,
    });
    let hint = nested
        .map(|outer| format!("; `.text_column` {outer}.{column} reads the one inside of {outer}"))
        .unwrap_or_default();
    wrong(column, format!("missing (columns: {}{similar}{hint})", names(fields, |_| true)))
}

fn other_type(fields: &Fields, column: &str, kind: &DataType) -> Error {
    let kind = kind.to_string().to_lowercase();
    let texts = names(fields, is_text);
    wrong(column, if texts.is_empty() { kind } else { format!("{kind} (columns of text: {texts})") })
}

/// Returns whether a column contains text. Old writers (Impala, Hive, Spark) do not mark their bytes as UTF-8.
fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::Binary)
}

/// Returns the bytes of a row of a column of text, `None` for a null. Errors name the number of the row in the file.
fn bytes(column: &ArrayRef, row: usize, number: u64) -> Result<Option<&[u8]>, Error> {
    let bytes = match column.data_type() {
        _ if column.is_null(row) => return Ok(None),
        DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes(),
        DataType::Binary => column.as_binary::<i32>().value(row),
        _ => return Ok(None),
    };
    if bytes.len() > MAX_LINE_BYTES {
        return Err(long_row(number, MAX_LINE_BYTES));
    }
    if *column.data_type() == DataType::Binary && str::from_utf8(bytes).is_err() {
        return Err(not_utf8(number));
    }
    Ok(Some(bytes))
}
