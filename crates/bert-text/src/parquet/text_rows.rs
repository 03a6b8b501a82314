//! Reads chosen columns of a Parquet file as text, row by row, for any plain type.
//!
//! Numbers and booleans are returned in their printed form; a null has no text.

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, downcast_primitive_array};
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use serde_json::Value;

use crate::error::{Error, Result, no_parquet, not_utf8, wrong_column};
use crate::parquet::open::{Batches, ParquetFile};

/// Number of rows decoded at a time.
const ROWS: usize = 1024;

/// Reader of a Parquet file.
pub(crate) struct TextRows {
    path: PathBuf,
    names: Vec<String>,
    /// Indices of the columns to read.
    selected: Vec<usize>,
    batches: Option<Batches>,
    batch: Option<RecordBatch>,
    /// Number of rows of the batch that were read.
    at: usize,
    rows_read: u64,
}

impl TextRows {
    /// Opens a file; no column is selected yet.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or when it is not a Parquet file, is damaged or uses features that this
    /// program cannot read.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let schema = open(path, |_| false)?.builder.schema().clone();
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        let path = path.to_owned();
        Ok(Self { path, names, selected: Vec::new(), batches: None, batch: None, at: 0, rows_read: 0 })
    }

    /// Returns the names of all columns.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of rows read.
    pub(crate) fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// Selects the columns to read.
    ///
    /// # Errors
    /// Fails when the file cannot be read as Parquet, or when a column has values other than text, numbers and truth
    /// values.
    pub(crate) fn select(&mut self, columns: &[usize]) -> Result<()> {
        let path = &self.path;
        let names = &self.names;
        let builder = open(path, |root| columns.iter().any(|&at| names[at] == root))?.builder;
        for &at in columns {
            let kind = builder.schema().field(at).data_type();
            if !is_plain(kind) {
                let found = kind.to_string().to_lowercase();
                return Err(wrong_column(&names[at], &found, "text, numbers or truth values").at(path));
            }
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        let batches = Batches::new(builder.with_projection(mask).with_batch_size(ROWS));
        self.batches = Some(batches.map_err(|source| no_parquet().because(source).at(path))?);
        self.selected = columns.to_vec();
        Ok(())
    }

    /// Returns the values of the next row, one for each column; `None` for a null and for a column that is not selected.
    ///
    /// # Errors
    /// Fails when rows cannot be read, or when a value of a binary column is not UTF-8.
    pub(crate) fn next_values(&mut self) -> Result<Option<Vec<Option<String>>>> {
        let path = &self.path;
        let row = self.rows_read + 1;
        while self.batch.as_ref().is_none_or(|batch| batch.num_rows() == self.at) {
            let Some(batch) = self.batches.as_mut().and_then(Iterator::next) else { return Ok(None) };
            let rows = self.rows_read;
            self.batch = Some(batch.map_err(|source| {
                Error::data(format!("after row {rows}: cannot be read as Parquet")).because(source).at(path)
            })?);
            self.at = 0;
        }
        let mut values = vec![None; self.names.len()];
        for &column in &self.selected {
            let batch = self.batch.as_ref().expect("read above");
            let array = batch.column_by_name(&self.names[column]).expect("projected");
            values[column] = text(array, self.at).map_err(|_| not_utf8(row).at(path))?;
        }
        self.at += 1;
        self.rows_read = row;
        Ok(Some(values))
    }
}

pub(super) fn open(path: &Path, is_read: impl Fn(&str) -> bool) -> Result<ParquetFile> {
    // Checked before opening: opening a pipe without a writer would block forever.
    if !fs::metadata(path).map_err(Error::io("read", path))?.is_file() {
        return Err(Error::data("not a Parquet file: it does not begin with PAR1").at(path));
    }
    let file = File::open(path).map_err(Error::io("open", path))?;
    ParquetFile::open(file, is_read).map_err(|source| no_parquet().because(source).at(path))
}

fn is_plain(kind: &DataType) -> bool {
    use DataType as T;
    kind.is_integer() || kind.is_floating() || matches!(kind, T::Utf8 | T::Binary | T::Boolean | T::Null)
}

/// Returns a value of a column for which [`is_plain`] returns true. Old writers do not mark their bytes as UTF-8.
fn text(column: &dyn Array, row: usize) -> Result<Option<String>, FromUtf8Error> {
    if column.is_null(row) || *column.data_type() == DataType::Null {
        return Ok(None);
    }
    Ok(Some(downcast_primitive_array! {
        column => format!("{:?}", column.value(row)),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_string(),
        DataType::Binary => String::from_utf8(column.as_binary::<i32>().value(row).to_vec())?,
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        kind => unreachable!("a column of {kind}"),
    }))
}

/// Returns the names of the classes for which the numbers of a column stand, in the order of the numbers. The list is
/// empty if the file does not state the names.
///
/// # Errors
/// Fails when the file cannot be read, or when it is not a Parquet file, is damaged or uses features that this program
/// cannot read.
pub fn class_names(path: &Path, column: &str) -> Result<Vec<String>> {
    let file = open(path, |_| false)?;
    let metadata = file.builder.metadata().file_metadata().key_value_metadata();
    let stated = metadata.and_then(|all| all.iter().find(|one| one.key == "huggingface")?.value.as_deref());
    let stated: Value = serde_json::from_str(stated.unwrap_or_default()).unwrap_or_default();
    let names = stated["info"]["features"][column]["names"].as_array();
    Ok(names.into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{
        ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray, NullArray, StringArray,
    };
    use parquet::arrow::ArrowWriter;

    use super::*;

    fn file(columns: Vec<(&str, ArrayRef)>) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let columns = columns.into_iter().map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let mut writer = ArrowWriter::try_new(file.reopen().unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file
    }

    fn rows(path: &Path, names: &[&str]) -> Result<Vec<Vec<Option<String>>>> {
        let mut reader = TextRows::open(path)?;
        let position = |name: &&str| reader.names().iter().position(|n| n == name).unwrap();
        let columns: Vec<usize> = names.iter().map(position).collect();
        reader.select(&columns)?;
        let mut rows = Vec::new();
        while let Some(mut values) = reader.next_values()? {
            rows.push(columns.iter().map(|&at| values[at].take()).collect());
            assert_eq!(reader.rows_read() as usize, rows.len());
        }
        Ok(rows)
    }

    #[test]
    fn values_of_plain_columns_are_text() {
        let list: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None]));
        let file = file(vec![
            ("text", Arc::new(StringArray::from(vec![Some("a"), None]))),
            ("list", list),
            ("label", Arc::new(Int64Array::from(vec![3, 4]))),
            ("score", Arc::new(Float64Array::from(vec![0.5, 2.0]))),
            ("yes", Arc::new(BooleanArray::from(vec![true, false]))),
            ("bytes", Arc::new(BinaryArray::from(vec![Some(&b"c"[..]), None]))),
            ("none", Arc::new(NullArray::new(2))),
        ]);
        let some = |text: &str| Some(text.to_string());
        assert_eq!(
            rows(file.path(), &["label", "text"]).unwrap(),
            [[some("3"), some("a")], [some("4"), None]]
        );
        assert_eq!(
            rows(file.path(), &["score", "yes"]).unwrap(),
            [[some("0.5"), some("true")], [some("2.0"), some("false")]]
        );
        assert_eq!(rows(file.path(), &["bytes", "none"]).unwrap(), [[some("c"), None], [None, None]]);
        let error = rows(file.path(), &["list"]).unwrap_err();
        assert!(error.to_string().contains("column \"list\" is list"), "{error}");
        assert_eq!(error.exit_code(), 3);
    }

    #[test]
    fn other_files_are_rejected() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "text,label\n").unwrap();
        assert_eq!(rows(file.path(), &[]).unwrap_err().exit_code(), 3);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(rows(folder.path(), &[]).unwrap_err().exit_code(), 3);
    }
}
