//! Reads one shard of instances a row group at a time, so memory does not grow with the shard.
//!
//! A [`ShardReader`] reads the footer once and then the row groups that are asked for. [`crate::read_shard`] reads a
//! whole shard from any folder.

use crate::dataset::DataSet;
use crate::error::Result;
use crate::shard::file::ShardFile;
use crate::shard::row::ShardRows;
use crate::shard::schema::wrong_marks;

/// An open shard.
pub struct ShardReader {
    data: DataSet,
    file: ShardFile,
}

impl ShardReader {
    /// Opens a shard of a data set; its digest is the caller's to compare ([`DataSet::check_shard`]).
    ///
    /// # Errors
    /// [`Error::Shard`](crate::Error::Shard) or [`Error::Storage`](crate::Error::Storage);
    /// [`crate::ManifestProblem::Count`] when it has not the manifest's number of rows.
    pub fn open(data: &DataSet, shard: usize) -> Result<Self> {
        let file = data.open_shard(shard)?;
        file.check_row_columns(data.manifest().config.columns)?;
        Ok(Self { data: data.clone(), file })
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
    /// [`Error::Shard`](crate::Error::Shard) or [`Error::Storage`](crate::Error::Storage).
    pub fn read(&self, groups: &[usize]) -> Result<ShardRows> {
        let (mut all, manifest) = (ShardRows::default(), self.data.manifest());
        let (config, vocabulary) = (&manifest.config, manifest.vocabulary.size);
        for &group in groups {
            let before = all.len();
            self.file.append_rows(group, config.columns, &mut all)?;
            let fits = all.check_from(before, vocabulary, config.max_seq_length, manifest.max_stored_masks());
            fits.map_err(|(row, problem)| self.file.wrong(group, row - before as u64, problem))?;
        }
        match all.is_empty() || all.has_marks() == manifest.has_marks() {
            true => Ok(all),
            false => Err(wrong_marks(self.file.path(), manifest.has_marks())),
        }
    }
}
