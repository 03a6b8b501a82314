//! Opens a Parquet shard of a data set and reads it a row group at a time.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};

use crate::dataset::DataSet;
use crate::error::{Error, Result, ShardError};
use crate::parquet::open::{Batches, ParquetFile};
use crate::shard::schema::check_columns;

/// An open shard whose footer is known.
pub(crate) struct ShardFile {
    path: PathBuf,
    file: File,
    metadata: ArrowReaderMetadata,
    /// The first row of each row group, and the number of rows.
    starts: Vec<u64>,
}

impl ShardFile {
    /// Opens a shard of a data set; its digest is the caller's to compare ([`DataSet::check_shard`]).
    pub(crate) fn open(data: &DataSet, shard: usize) -> Result<Self> {
        let path = data.shard_path(shard);
        let open = || File::open(&path).map_err(Error::io("open", &path));
        let unreadable = |source| ShardError::Unreadable { path: path.clone(), source };
        let opened = ParquetFile::open(open()?, |_| true).map_err(unreadable)?;
        let metadata = opened.builder.metadata();
        let mut starts = vec![0u64];
        for group in metadata.row_groups() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
            starts.push(starts[starts.len() - 1].saturating_add(rows));
        }
        data.manifest().check_rows(
            data.folder(),
            shard,
            starts[starts.len() - 1],
            starts.len() as u64 - 1,
        )?;
        // As `ParquetFile` does: the Parquet types alone decide.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(metadata.clone(), options).map_err(unreadable)?;
        Ok(Self { file: open()?, path, metadata, starts })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.schema().fields().len()
    }

    /// Refuses columns with other names, order or types; one with marks may follow.
    pub(crate) fn check_columns(&self, expected: &Schema) -> Result<()> {
        check_columns(&self.path, self.schema(), expected, true)
    }

    /// Number of row groups.
    pub(crate) fn groups(&self) -> usize {
        self.starts.len() - 1
    }

    /// The first row of a row group and the one behind its last.
    pub(crate) fn rows_of(&self, group: usize) -> Range<u64> {
        self.starts[group]..self.starts[group + 1]
    }

    /// The row group with a row of the shard.
    pub(crate) fn group_of(&self, row: u64) -> usize {
        assert!(row < self.starts[self.groups()], "row {row} of {}", self.starts[self.groups()]);
        self.starts.partition_point(|&start| start <= row) - 1
    }

    /// The rows of a row group, so many at once.
    pub(crate) fn batches(&self, group: usize, at_once: usize) -> Result<Batches> {
        let file = self.file.try_clone().map_err(Error::io("open", &self.path))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
        let batches = Batches::of(builder.with_row_groups(vec![group]).with_batch_size(at_once));
        batches.map_err(|source| ShardError::Unreadable { path: self.path.clone(), source }.into())
    }
}
