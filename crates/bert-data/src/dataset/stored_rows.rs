//! Reads the instances of a data set by number, in stored order, for every layout.
//!
//! If documents are stored, the rows are the instances that each row group yields on its own in pass 0 with the seed of
//! the data set. Masks that are not stored are generated with the same seed. Everyone who displays a data set or
//! evaluates on it therefore sees the same rows. Training uses its own order and masks.

use crate::config::Layout;
use crate::dataset::DataSet;
use crate::dataset::document_groups::DocumentGroups;
use crate::dataset::manifest::Manifest;
use crate::dataset::row_masker::{DocumentPasses, RowMasker};
use crate::error::{Error, Result};
use crate::shard::file::ShardFile;
use crate::shard::row::{Row, ShardRows};

/// Reader of rows by number, which is fast if the numbers ascend.
pub struct StoredRows {
    data: DataSet,
    masks: Option<RowMasker>,
    /// The instance generator, if documents are stored.
    passes: Option<DocumentPasses>,
    groups: DocumentGroups,
    /// Number of each shard's first row, if instances are stored.
    starts: Vec<u64>,
    /// The shard that was read last.
    open: Option<(usize, ShardFile)>,
    block: Option<RowBlock>,
}

/// Consecutive rows in memory.
struct RowBlock {
    /// Number of the first row.
    first: u64,
    rows: ShardRows,
    /// The next row group, if documents are stored.
    next: u64,
}

impl StoredRows {
    /// Creates a reader for the rows of a data set; reads no shard yet.
    pub fn new(data: &DataSet) -> Self {
        let manifest = data.manifest();
        let vocabulary = data.vocabulary();
        let seed = manifest.config.random_seed;
        Self {
            starts: manifest.first_rows(),
            open: None,
            data: data.clone(),
            masks: RowMasker::fixed(manifest, vocabulary),
            passes: DocumentPasses::new(manifest, vocabulary, seed),
            groups: DocumentGroups::new(data),
            block: None,
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u64 {
        self.data.manifest().instances
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a row with its masks.
    ///
    /// # Errors
    /// Fails if a shard cannot be read or does not match the manifest.
    ///
    /// # Panics
    /// Panics if the row does not exist.
    pub fn row(&mut self, index: u64) -> Result<Row<'_>> {
        let offset = self.seek(index)?;
        let block = self.block.as_ref().expect("seek loads a block");
        let row = block.rows.row(offset);
        Ok(match &mut self.masks {
            Some(masks) => masks.mask(row, 0, index),
            None => row,
        })
    }

    /// Returns a row as stored: with masks only if they are stored.
    ///
    /// # Errors
    /// Fails as [`StoredRows::row`] does.
    ///
    /// # Panics
    /// Panics if the row does not exist.
    pub fn stored(&mut self, index: u64) -> Result<Row<'_>> {
        let offset = self.seek(index)?;
        Ok(self.block.as_ref().expect("seek loads a block").rows.row(offset))
    }

    /// Loads a row into memory and returns its position there.
    fn seek(&mut self, index: u64) -> Result<usize> {
        assert!(index < self.len(), "row {index} of {}", self.len());
        if self.block.as_ref().is_none_or(|block| index < block.first) {
            self.block = None;
        }
        loop {
            let mut first = 0;
            let mut next = 0;
            if let Some(block) = &self.block {
                let end = block.first + block.rows.len() as u64;
                if index < end {
                    return Ok((index - block.first) as usize);
                }
                (first, next) = (end, block.next);
            }
            // Free the previous rows before reading more.
            self.block = None;
            self.block = Some(match self.data.manifest().config.layout {
                Layout::Instances => self.read_group(index)?,
                Layout::Documents => self.generate_rows(first, next)?,
            });
        }
    }

    /// Reads the row group that contains row `index`.
    fn read_group(&mut self, index: u64) -> Result<RowBlock> {
        let shard = self.starts.partition_point(|&start| start <= index) - 1;
        let file = match self.open.take() {
            Some((open, file)) if open == shard => file,
            _ => {
                self.data.check_shard(shard)?;
                self.data.open_rows(shard)?
            }
        };
        let group = file.group_of(index - self.starts[shard]);
        let first = self.starts[shard] + file.rows_of(group).start;
        let rows = self.data.read_groups(&file, &[group])?;
        self.open = Some((shard, file));
        Ok(RowBlock { first, rows, next: 0 })
    }

    /// Generates the next rows from a row group of documents.
    fn generate_rows(&mut self, first: u64, group: u64) -> Result<RowBlock> {
        let Some(passes) = &mut self.passes else { unreachable!("the layout is documents") };
        if group == self.groups.len() {
            let what = "the instances of one pass";
            let expected = self.len();
            let problem = Error::data(format!("{what} is {first}, expected {expected}"));
            return Err(problem.at(Manifest::path(self.data.folder())));
        }
        let bucket = self.groups.read([group])?;
        let mut pairs = ShardRows::default();
        let mut rows = ShardRows::default();
        for index in 0..bucket.len() {
            pairs.clear();
            passes.append_pairs(&bucket, 0, index, &mut pairs)?;
            for (number, row) in (0..).zip(pairs.iter()) {
                rows.push(passes.mask(row, 0, bucket.number(index), number));
            }
        }
        Ok(RowBlock { first, rows, next: group + 1 })
    }
}
