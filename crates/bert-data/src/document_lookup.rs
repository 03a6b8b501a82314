//! Single documents, each read from its shard when it is looked at (`--layout documents`).
//!
//! In goes a document's number, out comes the document, after its shard's digest was compared once: what looking at a few
//! instances of a large data set takes, of which the rest is then not read. Not for reading many (`document_shard`). Nothing
//! here is from the reference.

use std::ops::Range;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use crate::column::Column;
use crate::document::{Counts, Documents, DocumentsBuilder, Look};
use crate::document_shard::{append, document_schema};
use crate::error::{Error, ManifestError, Result, ShardError};
use crate::manifest::Manifest;
use crate::packed::Width;
use crate::parquet_file::Batches;
use crate::shard_rows::open_shard;

/// Reads single documents.
#[derive(Debug)]
pub(crate) struct DocumentLookup {
    folder: PathBuf,
    manifest: Manifest,
    /// Whether the digest of each shard was compared.
    verified: Vec<bool>,
}

/// One document. Its sentences and tokens have numbers that no other document's have: its own number above, their place
/// in it below.
#[derive(Clone, Debug)]
pub(crate) struct SingleDocument {
    number: u64,
    ids: Vec<u32>,
    /// Where each sentence begins, and where the last one ends.
    starts: Vec<u64>,
}

/// Where the number of the document begins in that of a sentence or a token.
const NUMBER: u32 = 32;

impl SingleDocument {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn sentences(&self) -> Range<u64> {
        let first = self.number << NUMBER;
        first..first + self.starts.len() as u64 - 1
    }

    pub(crate) fn sentence_start(&self, sentence: u64) -> u64 {
        let first = self.number << NUMBER;
        first + self.starts[(sentence - first) as usize]
    }

    pub(crate) fn tokens(&self, range: Range<u64>) -> &[u32] {
        let first = self.number << NUMBER;
        &self.ids[(range.start - first) as usize..(range.end - first) as usize]
    }
}

impl DocumentLookup {
    /// Reads one document.
    pub(crate) fn read(&mut self, number: u64) -> Result<SingleDocument> {
        let (mut shard, mut row) = (0, number);
        while row >= self.manifest.shards[shard].rows {
            row -= self.manifest.shards[shard].rows;
            shard += 1;
        }
        if !self.verified[shard] {
            self.manifest.verify_digest(&self.folder, shard)?;
            self.verified[shard] = true;
        }
        let path = self.manifest.shard_path(&self.folder, shard);
        let only = RowSelection::from(vec![RowSelector::skip(row as usize), RowSelector::select(1)]);
        let batches = Batches::of(open_shard(&path, &document_schema())?.with_row_selection(only));
        let unreadable = |source| Error::Shard(ShardError::Unreadable { path: path.clone(), source });
        let mut builder = DocumentsBuilder::new(self.manifest.id_space());
        for batch in batches.map_err(unreadable)? {
            let batch = batch.map_err(|source| ShardError::BatchUnreadable { path: path.clone(), source })?;
            let wrong = |(_, problem)| Error::Shard(ShardError::Row { path: path.clone(), row, problem });
            append(&batch, self.manifest.vocabulary.size, &mut builder, wrong)?;
        }
        if builder.len() != 1 {
            let (path, expected) = (Manifest::path(&self.folder), self.manifest.shards[shard].rows);
            return Err(ManifestError::Count { path, what: "the shard's rows", found: row, expected }.into());
        }
        let alone = builder.finish()?;
        let mut reader = alone.reader();
        let (mut ids, mut starts) = (Vec::new(), Vec::new());
        for sentence in 0..=alone.sentences() as u64 {
            starts.push(reader.sentence_start(Look::Here, sentence)?);
        }
        reader.append_tokens(Look::Here, 0..alone.tokens(), &mut ids)?;
        Ok(SingleDocument { number, ids, starts })
    }
}

impl Documents {
    /// The documents of a data folder, each read when it is looked at. Slow where many are: some milliseconds for each.
    ///
    /// The numbers of sentences and tokens are then not those in the corpus; they ascend within a document.
    pub(crate) fn one_by_one(folder: &Path, manifest: &Manifest) -> Self {
        let report = &manifest.report;
        let (documents, sentences, tokens) = (report.documents, report.sentences, report.tokens);
        let none = || Column::Resident(Vec::new());
        let lookup = DocumentLookup {
            folder: folder.to_owned(),
            manifest: manifest.clone(),
            verified: vec![false; manifest.shards.len()],
        };
        Self {
            width: Width::of(manifest.id_space()),
            tokens: none(),
            sentences: none(),
            index: none(),
            counts: Counts { documents, sentences, tokens, ..Counts::default() },
            order: None,
            lookup: Some(lookup.into()),
            _scratch: None,
        }
    }
}
