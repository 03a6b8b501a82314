//! The instances of a data folder in their stored order, whatever its layout.
//!
//! In goes a data folder, out come its rows by number: those of the shards or, where the documents are stored, those of
//! pass 0 under the data set's own seed. Masks that are not stored are made with that seed too, so that everyone who
//! looks at a data set or evaluates on it sees the same. Not for training, which has its own order and masks.

use std::path::{Path, PathBuf};

use crate::config::Layout;
use crate::document::Documents;
use crate::document_pass::DocumentPasses;
use crate::document_shard::read_documents_within;
use crate::dynamic::{RowMasker, masked};
use crate::error::{ManifestError, Result};
use crate::manifest::{Manifest, ShardEntry};
use crate::shard_reader::ShardReader;
use crate::shard_rows::{Row, ShardRows};
use crate::vocabulary::Vocabulary;

/// Rows of documents that are in memory at once, at least.
const ROWS: usize = 4096;
/// From the instances of so many documents on, all documents are read, even for [`StoredRows::at_a_glance`].
const SINGLE_DOCUMENTS: usize = 64;
/// Bytes of documents that are held in memory at most.
const DOCUMENT_MEMORY: u64 = 256 << 20;

/// Reads rows by number; fast where the numbers ascend.
pub struct StoredRows {
    folder: PathBuf,
    manifest: Manifest,
    masks: Option<RowMasker>,
    /// Where documents are stored.
    passes: Option<DocumentPasses>,
    documents: Option<Documents>,
    /// Whether the first documents are read one by one.
    at_a_glance: bool,
    /// The number of each shard's first row, where instances are stored.
    starts: Vec<u64>,
    /// The shard that was read last.
    open: Option<(usize, ShardReader)>,
    loaded: Option<Loaded>,
}

/// Some consecutive rows.
struct Loaded {
    /// The number of the first.
    first: u64,
    rows: ShardRows,
    /// The document after them, where documents are stored.
    next: usize,
}

impl StoredRows {
    /// The rows of a data folder; reads no shard yet.
    #[must_use]
    pub fn new(folder: &Path, manifest: &Manifest, vocabulary: &Vocabulary) -> Self {
        let seed = manifest.config.random_seed;
        let mut rows = 0;
        let first = |shard: &ShardEntry| {
            rows += shard.rows;
            rows - shard.rows
        };
        Self {
            starts: manifest.shards.iter().map(first).collect(),
            open: None,
            folder: folder.to_owned(),
            manifest: manifest.clone(),
            masks: RowMasker::fixed(manifest, vocabulary),
            passes: DocumentPasses::new(manifest, vocabulary, seed),
            documents: None,
            at_a_glance: false,
            loaded: None,
        }
    }

    /// For a look at the first rows: where documents are stored, no more is read and verified than these rows are made of.
    #[must_use]
    pub(crate) fn at_a_glance(self) -> Self {
        Self { at_a_glance: true, ..self }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.manifest.instances
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
            self.loaded = Some(match self.manifest.config.layout {
                Layout::Instances => self.read_group(index)?,
                Layout::Documents => self.make_rows(first, next)?,
            });
        }
    }

    /// The row group with row `index`.
    fn read_group(&mut self, index: u64) -> Result<Loaded> {
        let shard = self.starts.partition_point(|&start| start <= index) - 1;
        let reader = match self.open.take() {
            Some((open, reader)) if open == shard => reader,
            _ => {
                self.manifest.verify_shard(&self.folder, shard, false)?;
                self.manifest.verify_digest(&self.folder, shard)?;
                ShardReader::open(&self.manifest, &self.folder, shard)?
            }
        };
        let group = reader.group_of(index - self.starts[shard]);
        let (first, rows) = (self.starts[shard] + reader.rows_of(group).start, reader.read(&[group])?);
        self.open = Some((shard, reader));
        Ok(Loaded { first, rows, next: 0 })
    }

    /// The next rows, made of the documents from `document` on.
    fn make_rows(&mut self, first: u64, mut document: usize) -> Result<Loaded> {
        let early = self.at_a_glance && document < SINGLE_DOCUMENTS;
        let single = early && self.documents.as_ref().is_none_or(Documents::is_single);
        if single {
            let one_by_one = || Documents::one_by_one(&self.folder, &self.manifest);
            self.documents.get_or_insert_with(one_by_one);
        } else if self.documents.as_ref().is_none_or(Documents::is_single) {
            self.documents = Some(read_documents_within(&self.folder, &self.manifest, DOCUMENT_MEMORY)?);
        }
        let enough = if single { 1 } else { ROWS };
        let (Some(passes), Some(documents)) = (&mut self.passes, &self.documents) else {
            unreachable!("the layout is documents")
        };
        let (mut pairs, mut rows) = (ShardRows::default(), ShardRows::default());
        while rows.len() < enough && document < documents.len() {
            pairs.clear();
            passes.append_pairs(documents, 0, document, &mut pairs)?;
            for (number, row) in pairs.iter().enumerate() {
                rows.push(passes.mask(row, 0, document, number as u64));
            }
            document += 1;
        }
        if rows.is_empty() {
            let (path, expected) = (Manifest::path(&self.folder), self.len());
            return Err(ManifestError::Count {
                path,
                what: "the instances of one pass",
                found: first,
                expected,
            }
            .into());
        }
        Ok(Loaded { first, rows, next: document })
    }
}
