//! The instances of a data folder in their stored order, whatever its layout.
//!
//! In goes a data folder, out come its rows by number: those of the shards or, where the documents are stored, those of
//! pass 0 under the data set's own seed. Masks that are not stored are made with that seed too, so that everyone who
//! looks at a data set or evaluates on it sees the same. Not for training, which has its own order and masks.

use std::path::{Path, PathBuf};

use crate::config::Layout;
use crate::document::Documents;
use crate::document_pass::DocumentPasses;
use crate::document_shard::read_all_documents;
use crate::dynamic::{RowMasker, masked};
use crate::error::{ManifestError, Result};
use crate::manifest::Manifest;
use crate::shard_rows::{Row, ShardRows};
use crate::vocabulary::Vocabulary;

/// Rows of documents that are in memory at once, at least.
const ROWS: usize = 4096;

/// Reads rows by number; fast where the numbers ascend.
pub struct StoredRows {
    folder: PathBuf,
    manifest: Manifest,
    masks: Option<RowMasker>,
    /// Where documents are stored.
    passes: Option<DocumentPasses>,
    documents: Option<Documents>,
    loaded: Option<Loaded>,
}

/// Some consecutive rows.
struct Loaded {
    /// The number of the first.
    first: u64,
    rows: ShardRows,
    /// The shard or the document after them.
    next: usize,
}

impl StoredRows {
    /// The rows of a data folder; reads no shard yet.
    #[must_use]
    pub fn new(folder: &Path, manifest: &Manifest, vocabulary: &Vocabulary) -> Self {
        let seed = manifest.config.random_seed;
        Self {
            folder: folder.to_owned(),
            manifest: manifest.clone(),
            masks: RowMasker::fixed(manifest, vocabulary),
            passes: DocumentPasses::new(manifest, vocabulary, seed),
            documents: None,
            loaded: None,
        }
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
                Layout::Instances => self.read_shard(index, first, next)?,
                Layout::Documents => self.make_rows(first, next)?,
            });
        }
    }

    /// The shard with row `index`; the next one to look at is `shard`, whose first row is `first`.
    fn read_shard(&self, index: u64, mut first: u64, mut shard: usize) -> Result<Loaded> {
        while index >= first + self.manifest.shards[shard].rows {
            first += self.manifest.shards[shard].rows;
            shard += 1;
        }
        self.manifest.verify_shard(&self.folder, shard, false)?;
        let rows = self.manifest.read_verified(&self.folder, shard)?;
        Ok(Loaded { first, rows, next: shard + 1 })
    }

    /// The next rows, made of the documents from `document` on.
    fn make_rows(&mut self, first: u64, mut document: usize) -> Result<Loaded> {
        if self.documents.is_none() {
            self.documents = Some(read_all_documents(&self.folder, &self.manifest)?);
        }
        let (Some(passes), Some(documents)) = (&mut self.passes, &self.documents) else {
            unreachable!("the layout is documents")
        };
        let (mut pairs, mut rows) = (ShardRows::default(), ShardRows::default());
        while rows.len() < ROWS && document < documents.len() {
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
