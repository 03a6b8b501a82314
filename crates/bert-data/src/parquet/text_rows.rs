//! Reads chosen columns of a Parquet file as text, row by row, for any plain type.
//!
//! Numbers and booleans are returned in their printed form; a null has no text. Corpora are read as blocks instead
//! ([`crate::input::table`]).

use std::fs::{self, File};
use std::path::Path;
use std::string::FromUtf8Error;

use arrow_array::cast::AsArray;
use arrow_array::{Array, downcast_primitive_array};
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;

use crate::error::{Error, InputProblem, Locate, Result};
use crate::parquet::open::{Batches, ParquetFile};

/// Number of rows decoded at a time.
const ROWS: usize = 1024;

/// Calls `each` with the number of every row, from 1, and its values of the columns that `choose` picks from all names.
///
/// # Errors
/// [`Error::Storage`], [`InputProblem::Parquet`], [`InputProblem::Batch`], [`InputProblem::Column`] for a column of
/// lists, structures or bytes; the errors of `choose` and `each`.
pub fn text_rows<E: From<Error>>(
    path: &Path,
    choose: impl FnOnce(&[String]) -> std::result::Result<Vec<usize>, E>,
    mut each: impl FnMut(u64, &[Option<&str>]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let names = open(path, |_| false)?.builder.schema().fields().iter().map(|f| f.name().clone()).collect();
    let names: Vec<String> = names;
    let chosen = choose(&names)?;
    let builder = open(path, |root| chosen.iter().any(|&at| names[at] == root))?.builder;
    for &at in &chosen {
        let kind = builder.schema().field(at).data_type();
        if !is_plain(kind) {
            let column = names[at].clone();
            let found = kind.to_string().to_lowercase();
            let expected = "text, numbers or truth values";
            return Err(Error::from(InputProblem::Column { column, found, expected }.located(path)).into());
        }
    }
    let mask = ProjectionMask::roots(builder.parquet_schema(), chosen.iter().copied());
    let unreadable = |source| Error::from(InputProblem::Parquet(source).located(path));
    let batches = Batches::new(builder.with_projection(mask).with_batch_size(ROWS)).map_err(unreadable)?;
    let mut rows = 0;
    for batch in batches {
        let batch = batch.map_err(|source| Error::from(InputProblem::Batch(rows, source).located(path)))?;
        let column = |at: &usize| batch.column_by_name(&names[*at]).expect("projected");
        let columns: Vec<_> = chosen.iter().map(column).collect();
        for row in 0..batch.num_rows() {
            rows += 1;
            let values = columns.iter().map(|column| text(column, row)).collect::<Result<Vec<_>, _>>();
            let values =
                values.map_err(|_| Error::from(InputProblem::RowNotUtf8 { row: rows }.located(path)))?;
            let values: Vec<Option<&str>> = values.iter().map(Option::as_deref).collect();
            each(rows, &values)?;
        }
    }
    Ok(())
}

fn open(path: &Path, is_read: impl Fn(&str) -> bool) -> Result<ParquetFile> {
    // Checked before opening: opening a pipe without a writer would block forever.
    if !fs::metadata(path).map_err(Error::io("read", path))?.is_file() {
        return Err(InputProblem::NotParquet.located(path).into());
    }
    let file = File::open(path).map_err(Error::io("open", path))?;
    ParquetFile::open(file, is_read).map_err(|source| InputProblem::Parquet(source).located(path).into())
}

fn is_plain(kind: &DataType) -> bool {
    use DataType as T;
    kind.is_integer() || kind.is_floating() || matches!(kind, T::Utf8 | T::Binary | T::Boolean | T::Null)
}

/// Returns a value of a column that [`is_plain`]. Old writers do not mark their bytes as UTF-8.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{
        ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray, NullArray, RecordBatch,
        StringArray,
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

    fn rows(path: &Path, names: &[&str]) -> std::result::Result<Vec<Vec<Option<String>>>, Error> {
        let mut rows = Vec::new();
        let choose = |all: &[String]| {
            Ok(names.iter().map(|name| all.iter().position(|n| n == name).unwrap()).collect())
        };
        text_rows(path, choose, |row, values| {
            rows.push(values.iter().map(|value| value.map(str::to_string)).collect());
            assert_eq!(row as usize, rows.len());
            Ok::<_, Error>(())
        })?;
        Ok(rows)
    }

    #[test]
    fn plain_columns_in_the_order_that_was_asked_for() {
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
