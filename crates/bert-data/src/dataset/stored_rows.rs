//! Reads the instances of a data set by number, in their stored order, whatever its layout.
//!
//! Where documents are stored, the rows are those that each row group of documents gives by itself in pass 0 under the
//! data set's own seed. Masks that are not stored are made with that seed too. So everyone who looks at a data set or
//! evaluates on it sees the same rows. Training has its own order and masks.

use crate::config::Layout;
use crate::dataset::DataSet;
use crate::dataset::document_groups::DocumentGroups;
use crate::dataset::manifest::Manifest;
use crate::dataset::row_masker::{DocumentPasses, RowMasker, masked};
use crate::error::{Locate, ManifestProblem, Result};
use crate::shard::file::ShardFile;
use crate::shard::row::{Row, ShardRows};

/// Reads rows by number; fast where the numbers ascend.
pub struct StoredRows {
    data: DataSet,
    masks: Option<RowMasker>,
    /// Where documents are stored.
    passes: Option<DocumentPasses>,
    groups: DocumentGroups,
    /// The number of each shard's first row, where instances are stored.
    starts: Vec<u64>,
    /// The shard that was read last.
    open: Option<(usize, ShardFile)>,
    loaded: Option<Loaded>,
}

/// Some consecutive rows.
struct Loaded {
    /// The number of the first.
    first: u64,
    rows: ShardRows,
    /// The row group after them, where documents are stored.
    next: u64,
}

impl StoredRows {
    /// The rows of a data set; reads no shard yet.
    #[must_use]
    pub fn new(data: &DataSet) -> Self {
        let (manifest, vocabulary) = (data.manifest(), data.vocabulary());
        let seed = manifest.config.random_seed;
        Self {
            starts: manifest.first_rows(),
            open: None,
            data: data.clone(),
            masks: RowMasker::fixed(manifest, vocabulary),
            passes: DocumentPasses::new(manifest, vocabulary, seed),
            groups: DocumentGroups::new(data),
            loaded: None,
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.data.manifest().instances
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One row with its masks.
    ///
    /// # Errors
    /// When a shard cannot be read or is not what the manifest says.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&mut self, index: u64) -> Result<Row<'_>> {
        let at = self.seek(index)?;
        let loaded = self.loaded.as_ref().expect("loaded by seek");
        Ok(masked(&mut self.masks, loaded.rows.row(at), 0, index))
    }

    /// One row as it is stored: with masks only if these are stored.
    ///
    /// # Errors
    /// As [`StoredRows::row`].
    ///
    /// # Panics
    /// When there is no such row.
    pub fn stored(&mut self, index: u64) -> Result<Row<'_>> {
        let at = self.seek(index)?;
        Ok(self.loaded.as_ref().expect("loaded by seek").rows.row(at))
    }

    /// Has a row in memory and returns its place there.
    fn seek(&mut self, index: u64) -> Result<usize> {
        assert!(index < self.len(), "row {index} of {}", self.len());
        if self.loaded.as_ref().is_none_or(|loaded| index < loaded.first) {
            self.loaded = None;
        }
        loop {
            let (mut first, mut next) = (0, 0);
            if let Some(loaded) = &self.loaded {
                let end = loaded.first + loaded.rows.len() as u64;
                if index < end {
                    return Ok((index - loaded.first) as usize);
                }
                (first, next) = (end, loaded.next);
            }
            // The rows before are given back before others are read.
            self.loaded = None;
            self.loaded = Some(match self.data.manifest().config.layout {
                Layout::Instances => self.read_group(index)?,
                Layout::Documents => self.make_rows(first, next)?,
            });
        }
    }

    /// The row group with row `index`.
    fn read_group(&mut self, index: u64) -> Result<Loaded> {
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
        Ok(Loaded { first, rows, next: 0 })
    }

    /// The next rows: those of a row group of documents.
    fn make_rows(&mut self, first: u64, group: u64) -> Result<Loaded> {
        let Some(passes) = &mut self.passes else { unreachable!("the layout is documents") };
        if group == self.groups.len() {
            let (what, expected) = ("the instances of one pass", self.len());
            let problem = ManifestProblem::Count { what, found: first, expected };
            return Err(problem.at(Manifest::path(self.data.folder())).into());
        }
        let bucket = self.groups.read([group])?;
        let (mut pairs, mut rows) = (ShardRows::default(), ShardRows::default());
        for place in 0..bucket.len() {
            pairs.clear();
            passes.append_pairs(&bucket, 0, place, &mut pairs)?;
            for (number, row) in (0..).zip(pairs.iter()) {
                rows.push(passes.mask(row, 0, bucket.number(place), number));
            }
        }
        Ok(Loaded { first, rows, next: group + 1 })
    }
}
