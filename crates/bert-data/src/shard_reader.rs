//! One shard of instances, read a row group at a time.
//!
//! In goes a shard of a data folder, out come [`ShardRows`] of the row groups that are asked for: so memory is that of row
//! groups, however large a shard is. The footer is read once. Not for whole shards of any folder ([`crate::read_shard`]).

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use crate::config::Columns;
use crate::error::{Error, Result, ShardError};
use crate::manifest::Manifest;
use crate::parquet_file::{Batches, ParquetFile};
use crate::shard::BATCH;
use crate::shard_rows::{ShardRows, append_batch, check_shard_columns};

/// An open shard whose footer is known.
pub struct ShardReader {
    path: PathBuf,
    file: File,
    metadata: ArrowReaderMetadata,
    /// The first row of each row group, and the number of rows.
    starts: Vec<u64>,
    columns: Columns,
    limits: RowLimits,
}

/// What every row of a data set keeps to.
#[derive(Clone, Copy)]
struct RowLimits {
    vocabulary: usize,
    max_seq_length: usize,
    max_masks: usize,
    marks: bool,
}

impl ShardReader {
    /// Opens a shard of a data folder; its digest is the caller's to compare ([`Manifest::verify_digest`]).
    ///
    /// # Errors
    /// One of the `Shard...` variants of [`Error`], or [`Error::Io`]; [`crate::ManifestError::Count`] when it has not the
    /// manifest's number of rows.
    pub fn open(manifest: &Manifest, folder: &Path, shard: usize) -> Result<Self> {
        let path = manifest.shard_path(folder, shard);
        let open = || File::open(&path).map_err(Error::io("open", &path));
        let opened = ParquetFile::open(open()?, |_| true)
            .map_err(|source| ShardError::Unreadable { path: path.clone(), source })?;
        check_shard_columns(&path, opened.builder.schema(), manifest.config.columns)?;
        let metadata = opened.builder.metadata();
        let mut starts = vec![0u64];
        for group in metadata.row_groups() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
            starts.push(starts[starts.len() - 1].saturating_add(rows));
        }
        manifest.check_rows(folder, shard, starts[starts.len() - 1])?;
        let options = Default::default();
        let metadata = ArrowReaderMetadata::try_new(metadata.clone(), options)
            .map_err(|source| ShardError::Unreadable { path: path.clone(), source })?;
        let limits = RowLimits {
            vocabulary: manifest.vocabulary.size,
            max_seq_length: manifest.config.max_seq_length,
            max_masks: manifest.max_stored_masks(),
            marks: manifest.has_marks(),
        };
        Ok(Self { file: open()?, path, metadata, starts, columns: manifest.config.columns, limits })
    }

    /// Number of row groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.starts.len() - 1
    }

    /// The first row of a row group and the one behind its last.
    ///
    /// # Panics
    /// When there is no such row group.
    #[must_use]
    pub fn rows_of(&self, group: usize) -> std::ops::Range<u64> {
        self.starts[group]..self.starts[group + 1]
    }

    /// The row group with a row of the shard.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn group_of(&self, row: u64) -> usize {
        assert!(row < self.starts[self.groups()], "row {row} of {}", self.starts[self.groups()]);
        self.starts.partition_point(|&start| start <= row) - 1
    }

    /// The rows of some row groups, in the order in which these are named; every one is checked.
    ///
    /// # Errors
    /// One of the `Shard...` variants of [`Error`], or [`Error::Io`].
    pub fn read(&self, groups: &[usize]) -> Result<ShardRows> {
        let unreadable = |source| ShardError::Unreadable { path: self.path.clone(), source };
        let mut all = ShardRows::default();
        for &group in groups {
            let file = self.file.try_clone().map_err(Error::io("open", &self.path))?;
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
            let batches = Batches::of(builder.with_row_groups(vec![group]).with_batch_size(BATCH));
            let before = all.len();
            // A row is named by its place in the shard.
            let at = |row: u64| self.starts[group] + row - before as u64;
            for batch in batches.map_err(unreadable)? {
                let unreadable = |source| ShardError::BatchUnreadable { path: self.path.clone(), source };
                let batch = batch.map_err(unreadable)?;
                append_batch(&mut all, &batch, self.columns).map_err(|(row, problem)| {
                    Error::Shard(ShardError::Row { path: self.path.clone(), row: at(row), problem })
                })?;
            }
            let RowLimits { vocabulary, max_seq_length, max_masks, .. } = self.limits;
            all.check_from(before, vocabulary, max_seq_length, max_masks).map_err(|(row, problem)| {
                Error::Shard(ShardError::Row { path: self.path.clone(), row: at(row), problem })
            })?;
        }
        match all.is_empty() || all.has_marks() == self.limits.marks {
            true => Ok(all),
            false => Err(crate::manifest::wrong_marks(self.path.clone(), self.limits.marks)),
        }
    }
}
