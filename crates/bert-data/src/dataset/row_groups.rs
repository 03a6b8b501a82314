//! Reads one shard of instances a row group at a time, so memory does not grow with the shard.
//!
//! A [`ShardReader`] reads the footer once and then the row groups that are asked for. [`crate::read_shard`] reads a
//! whole shard from any folder.

use crate::config::Columns;
use crate::dataset::DataSet;
use crate::dataset::shard_file::ShardFile;
use crate::error::{Error, Result, ShardError};
use crate::shard::reader::{append_batch, check_shard_columns};
use crate::shard::row::ShardRows;
use crate::shard::schema::BATCH;

/// An open shard.
pub struct ShardReader {
    file: ShardFile,
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
    /// Opens a shard of a data set; its digest is the caller's to compare ([`DataSet::check_shard`]).
    ///
    /// # Errors
    /// [`Error::Shard`] or [`Error::Storage`]; [`crate::ManifestError::Count`] when it has
    /// not the manifest's number of rows.
    pub fn open(data: &DataSet, shard: usize) -> Result<Self> {
        let (file, manifest) = (ShardFile::open(data, shard)?, data.manifest());
        let columns = manifest.config.columns;
        check_shard_columns(file.path(), file.schema(), columns)?;
        let limits = RowLimits {
            vocabulary: manifest.vocabulary.size,
            max_seq_length: manifest.config.max_seq_length,
            max_masks: manifest.max_stored_masks(),
            marks: manifest.has_marks(),
        };
        Ok(Self { file, columns, limits })
    }

    /// Number of row groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.file.groups()
    }

    /// The first row of a row group and the one behind its last.
    ///
    /// # Panics
    /// When there is no such row group.
    #[must_use]
    pub fn rows_of(&self, group: usize) -> std::ops::Range<u64> {
        self.file.rows_of(group)
    }

    /// The row group with a row of the shard.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn group_of(&self, row: u64) -> usize {
        self.file.group_of(row)
    }

    /// The rows of some row groups, in the order in which these are named; every one is checked.
    ///
    /// # Errors
    /// [`Error::Shard`] or [`Error::Storage`].
    pub fn read(&self, groups: &[usize]) -> Result<ShardRows> {
        let path = || self.file.path().to_owned();
        let mut all = ShardRows::default();
        for &group in groups {
            let before = all.len();
            // A row is named by its place in the shard.
            let wrong = |(row, problem): (u64, _)| {
                let row = self.file.rows_of(group).start + row - before as u64;
                Error::Shard(ShardError::Row { path: path(), row, problem })
            };
            for batch in self.file.batches(group, BATCH)? {
                let batch = batch.map_err(|source| ShardError::BatchUnreadable { path: path(), source })?;
                append_batch(&mut all, &batch, self.columns).map_err(wrong)?;
            }
            let RowLimits { vocabulary, max_seq_length, max_masks, .. } = self.limits;
            all.check_from(before, vocabulary, max_seq_length, max_masks).map_err(wrong)?;
        }
        match all.is_empty() || all.has_marks() == self.limits.marks {
            true => Ok(all),
            false => Err(crate::shard::schema::wrong_marks(path(), self.limits.marks)),
        }
    }
}
