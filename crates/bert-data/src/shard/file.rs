//! Opens a Parquet shard and reads it a row group at a time, so memory does not grow with the shard.
//!
//! A damaged file, or a file of another program, is an error that names the shard and the row, never a panic. Digests
//! are not compared here.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_schema::{DataType, Schema};
use bert_storage::open_file;
use bert_text::{Batches, ParquetFile};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};

use crate::config::Columns;
use crate::error::{Error, Result};
use crate::shard::hf_columns::append_hf;
use crate::shard::row::{Row, ShardRows, check_row};
use crate::shard::schema::{BATCH, COLUMNS, HF_COLUMNS, ListColumn, check_nulls, marks_of, row_schema};

/// Reads a whole shard of any folder, with the columns of either kind, and checks its columns and rows.
///
/// # Errors
/// Fails when the shard cannot be read, when it is damaged, or when its columns differ from the columns of a shard.
pub fn read_shard(path: &Path) -> Result<ShardRows> {
    let file = ShardFile::open(path, open_file(path).map_err(Error::io("open", path))?)?;
    let second = file.metadata.schema().fields().get(1);
    let is_hf = second.is_some_and(|field| field.name() == HF_COLUMNS[1]);
    let columns = if is_hf { Columns::Hf } else { Columns::Reference };
    // Without a manifest it is unknown whether the shard has word marks.
    if is_hf || file.check_columns(&row_schema(columns, true)).is_err() {
        file.check_columns(&row_schema(columns, false))?;
    }
    let mut rows = ShardRows::default();
    (0..file.groups()).try_for_each(|group| file.append_rows(group, columns, &mut rows))?;
    Ok(rows)
}

/// An open shard whose footer was read.
pub struct ShardFile {
    path: PathBuf,
    file: File,
    metadata: ArrowReaderMetadata,
    /// The first row of each row group, and the number of rows.
    starts: Vec<u64>,
}

impl ShardFile {
    /// Reads the footer of a shard; `path` is its name.
    pub(crate) fn open(path: &Path, file: File) -> Result<Self> {
        let copy = file.try_clone().map_err(Error::io("open", path))?;
        let unreadable = |source| Error::data("this shard is damaged").because(source).at(path);
        let parquet = ParquetFile::open(copy, |_| true).map_err(unreadable)?;
        let metadata = parquet.builder.metadata();
        let mut starts = vec![0u64];
        for group in metadata.row_groups() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
            starts.push(starts[starts.len() - 1].saturating_add(rows));
        }
        // Only the Parquet types decide, as in `ParquetFile`; an embedded Arrow schema is ignored.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(metadata.clone(), options).map_err(unreadable)?;
        Ok(Self { path: path.to_owned(), file, metadata, starts })
    }

    /// Checks that the columns have the right names, order and types. Nullable columns are accepted, because other
    /// writers produce them; nulls are checked for in the rows.
    pub(crate) fn check_columns(&self, expected: &Schema) -> Result<()> {
        fn describe(kind: &DataType) -> String {
            match kind {
                DataType::List(item) => format!("list<{}>", describe(item.data_type())),
                other => other.to_string().to_lowercase(),
            }
        }
        let wrong = |column: &str, found, expected: &str| {
            let column = column.to_owned();
            let expected = expected.to_owned();
            Err(Error::data(format!("column {column:?} is {found}, expected {expected}")).at(&self.path))
        };
        let found = self.metadata.schema().fields();
        for (index, field) in expected.fields().iter().enumerate() {
            let wanted = describe(field.data_type());
            let actual = found.get(index).filter(|actual| actual.name() == field.name());
            let actual = actual.map_or_else(|| "missing".to_owned(), |actual| describe(actual.data_type()));
            if actual != wanted {
                return wrong(field.name(), actual, &wanted);
            }
        }
        match found.get(expected.fields().len()) {
            Some(extra) => wrong(extra.name(), describe(extra.data_type()), "no further column"),
            None => Ok(()),
        }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.starts[self.groups()]
    }

    /// Returns the number of row groups.
    pub fn groups(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the range of the rows of a row group.
    ///
    /// # Panics
    /// Panics if the row group does not exist.
    pub fn rows_of(&self, group: usize) -> Range<u64> {
        self.starts[group]..self.starts[group + 1]
    }

    /// Returns the row group that contains a row of the shard.
    pub(crate) fn group_of(&self, row: u64) -> usize {
        assert!(row < self.rows(), "row {row} of {}", self.rows());
        self.starts.partition_point(|&start| start <= row) - 1
    }

    /// Returns the rows of a row group in batches of a given size.
    pub(crate) fn batches(
        &self,
        group: usize,
        at_once: usize,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let file = self.file.try_clone().map_err(Error::io("open", &self.path))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
        let batches = Batches::new(builder.with_row_groups(vec![group]).with_batch_size(at_once));
        let batches =
            batches.map_err(|source| Error::data("this shard is damaged").because(source).at(&self.path))?;
        Ok(batches.map(|batch| {
            batch.map_err(|source| Error::data("this shard is damaged").because(source).at(&self.path))
        }))
    }

    /// Appends the instances of a row group, each row checked by itself.
    pub(crate) fn append_rows(&self, group: usize, columns: Columns, rows: &mut ShardRows) -> Result<()> {
        let start = rows.len();
        for batch in self.batches(group, BATCH)? {
            let append = match columns {
                Columns::Reference => append_reference,
                Columns::Hf => append_hf,
            };
            let before = rows.len() - start;
            append(&batch?, rows)
                .map_err(|(row, problem)| self.wrong(group, (before + row) as u64, problem))?;
        }
        Ok(())
    }

    /// Returns the error for a row of a row group, numbered within the shard.
    pub(crate) fn wrong(&self, group: usize, row: u64, problem: Error) -> Error {
        let row = self.rows_of(group).start.saturating_add(row);
        Error::data(format!("row {row}: {problem}")).at(&self.path)
    }
}

/// Appends the rows of a batch with the reference's columns. An error has the number of its row in the batch.
pub(crate) fn append_reference(batch: &RecordBatch, rows: &mut ShardRows) -> Result<(), (usize, Error)> {
    check_nulls(batch, &COLUMNS)?;
    let marks = marks_of(batch, COLUMNS.len())?;
    let input_ids = ListColumn::of::<Int32Type>(batch, 0);
    let segments = ListColumn::of::<Int8Type>(batch, 1);
    let [positions, ids] = [2, 3].map(|at| ListColumn::of::<Int32Type>(batch, at));
    let labels = batch.column(4).as_primitive::<Int8Type>();
    for index in 0..batch.num_rows() {
        let row = Row {
            input_ids: input_ids.row(index),
            segment_ids: segments.row(index),
            masked_lm_positions: positions.row(index),
            masked_lm_ids: ids.row(index),
            next_sentence_label: labels.value(index),
            continues_word: marks.get(input_ids.range(index)).unwrap_or_default(),
        };
        check_row(row).map_err(|problem| (index, problem))?;
        rows.push(row);
    }
    Ok(())
}
