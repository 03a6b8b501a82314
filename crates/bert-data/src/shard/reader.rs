//! Reads a Parquet shard back as [`ShardRows`] and checks every row.
//!
//! A damaged or foreign file is an error that names the shard and the row, never a panic. Digests are not compared
//! here.

use std::fs::File;
use std::path::Path;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::config::Columns;
use crate::error::{Error, Result, RowProblem, ShardError};
use crate::parquet::open::{Batches, ParquetFile};
use crate::shard::hf_columns::append_hf;
use crate::shard::row::ShardRows;
use crate::shard::schema::BATCH;
use crate::shard::schema::check_columns;
use crate::shard::schema::schema;
use crate::shard::schema::{HF_COLUMNS, hf_schema};

/// Reads a whole shard, with the columns of either kind, and checks its columns and rows.
///
/// # Errors
/// [`Error::Shard`] or [`Error::Storage`].
pub fn read_shard(path: &Path) -> Result<ShardRows> {
    let builder = open(path)?;
    let is_hf = builder.schema().fields().get(1).is_some_and(|field| field.name() == HF_COLUMNS[1]);
    read_rows(path, builder, if is_hf { Columns::Hf } else { Columns::Reference })
}

fn read_rows(path: &Path, builder: Builder, columns: Columns) -> Result<ShardRows> {
    check_shard_columns(path, builder.schema(), columns)?;
    let batches = Batches::of(builder.with_batch_size(BATCH));
    let batches = batches.map_err(|source| ShardError::Unreadable { path: path.to_owned(), source })?;
    let mut rows = ShardRows::default();
    for batch in batches {
        let batch = batch.map_err(|source| ShardError::BatchUnreadable { path: path.to_owned(), source })?;
        append_batch(&mut rows, &batch, columns).map_err(|(row, problem)| {
            Error::Shard(ShardError::Row { path: path.to_owned(), row, problem })
        })?;
    }
    Ok(rows)
}

/// A shard of instances must have the columns of its kind.
pub(crate) fn check_shard_columns(path: &Path, found: &Schema, columns: Columns) -> Result<()> {
    match columns {
        Columns::Reference => check_columns(path, found, &schema(), true),
        Columns::Hf => check_columns(path, found, &hf_schema(), false),
    }
}

/// Appends a batch of either kind of columns; the error is the number of a row and what is wrong with it.
pub(crate) fn append_batch(
    rows: &mut ShardRows,
    batch: &RecordBatch,
    columns: Columns,
) -> Result<(), (u64, RowProblem)> {
    match columns {
        Columns::Reference => rows.append(batch),
        Columns::Hf => append_hf(batch, rows),
    }
}

type Builder = ParquetRecordBatchReaderBuilder<File>;

fn open(path: &Path) -> Result<Builder> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let opened = ParquetFile::open(file, |_| true)
        .map_err(|source| ShardError::Unreadable { path: path.to_owned(), source })?;
    Ok(opened.builder)
}
