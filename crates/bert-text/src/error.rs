//! The error type, and the error for a row without text.

pub use bert_storage::{Class, Error, Result};

/// Returns the error for a row that has no text in its key or column.
pub(crate) fn no_text(column: &str, problem: &str) -> Error {
    Error::data(format!("{column:?} {problem} (see `.text_column`)"))
}

/// Returns the error for a column that is missing or has a different type.
pub(crate) fn wrong_column(column: &str, found: &str, expected: &str) -> Error {
    Error::data(format!("column {column:?} is {found}, expected {expected}")).absent()
}

/// Returns the error for a row of a table that is longer than the limit.
pub(crate) fn long_row(row: u64, limit: usize) -> Error {
    Error::data(format!("row {row} is longer than {limit} bytes"))
}

/// Returns the error for a row of a Parquet file that is not text.
pub(crate) fn not_utf8(row: u64) -> Error {
    Error::data(format!("row {row} is not UTF-8: the column has binary data or text in another encoding"))
}

/// Returns the error for an input that does not exist.
pub(crate) fn no_input() -> Error {
    Error::usage("this input does not exist").absent()
}

/// Returns the error for a Parquet file that is damaged or has features that are not supported.
pub(crate) fn no_parquet() -> Error {
    Error::data("cannot be read as Parquet")
}
