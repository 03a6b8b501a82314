//! Reads the documents of a data set a few row groups at a time (`--layout documents`).
//!
//! The documents are stored in the order of the builder's pass 0, which is random, so row groups are samples of the
//! text. The original position of a document in the text is computed from that order, not stored. Row groups are
//! numbered across all shards. The digest of a shard is compared before its first use.

use std::ops::Range;

use bert_random::Permutation;

use crate::dataset::DataSet;
use crate::dataset::manifest::{Manifest, ShardEntry, check_equal};
use crate::documents::{Bucket, DocumentsBuilder, order_of_pass};
use crate::error::Result;
use crate::shard::documents::{DOCUMENTS_PER_BATCH, append, document_schema};
use crate::shard::file::ShardFile;
use crate::shard::schema::with_marks;

/// Reader of row groups of documents.
pub struct DocumentGroups {
    data: DataSet,
    /// Index of each shard's first row group and first document, counted across all shards.
    starts: Vec<(u64, u64)>,
    groups: u64,
    order: Permutation,
    /// Whether the digest of each shard has been compared.
    verified: Vec<bool>,
}

impl DocumentGroups {
    /// Creates a reader for the row groups of a data set with documents; reads no row group yet.
    pub fn new(data: &DataSet) -> Self {
        let manifest = data.manifest();
        let mut groups = 0;
        let mut documents = 0;
        let start = |shard: &ShardEntry| {
            let start = (groups, documents);
            groups += shard.row_groups;
            documents += shard.rows;
            start
        };
        let starts = manifest.shards.iter().map(start).collect();
        let verified = vec![false; manifest.shards.len()];
        let order = order_of_pass(manifest.config.random_seed, 0, documents);
        Self { data: data.clone(), starts, groups, order, verified }
    }

    /// Returns the number of row groups.
    pub fn len(&self) -> u64 {
        self.groups
    }

    /// Returns whether there are no row groups.
    pub fn is_empty(&self) -> bool {
        self.groups == 0
    }

    /// Returns the row groups of a shard.
    pub(crate) fn in_shard(&self, shard: usize) -> Range<u64> {
        let (first, _) = self.starts[shard];
        first..first + self.data.manifest().shards[shard].row_groups
    }

    /// Reads and checks all documents of these row groups.
    ///
    /// # Errors
    /// Fails if a shard cannot be read or does not match the manifest.
    ///
    /// # Panics
    /// Panics if a row group does not exist.
    pub fn read(&mut self, groups: impl IntoIterator<Item = u64>) -> Result<Bucket> {
        let ids = self.data.manifest().ids();
        let mut documents = DocumentsBuilder::new(ids.size());
        let mut numbers = Vec::new();
        let mut open: Option<(usize, ShardFile)> = None;
        for group in groups {
            assert!(group < self.groups, "row group {group} of {}", self.groups);
            let shard = self.starts.partition_point(|&(first, _)| first <= group) - 1;
            let file = match open.take() {
                Some((number, file)) if number == shard => file,
                _ => self.open(shard)?,
            };
            let (first_group, first_document) = self.starts[shard];
            let group = (group - first_group) as usize;
            let mut before = 0;
            for batch in file.batches(group, DOCUMENTS_PER_BATCH)? {
                let batch = batch?;
                let wrong = |(row, problem): (usize, _)| file.wrong(group, (before + row) as u64, problem);
                append(&batch, ids, &mut documents, wrong)?;
                before += batch.num_rows();
            }
            numbers.extend(file.rows_of(group).map(|row| self.order.get(first_document + row)));
            open = Some((shard, file));
        }
        Bucket::sorted(documents, numbers)
    }

    fn open(&mut self, shard: usize) -> Result<ShardFile> {
        if !self.verified[shard] {
            self.data.check_shard(shard)?;
            self.verified[shard] = true;
        }
        self.data.open_shard(shard, &with_marks(document_schema(), self.data.manifest().has_marks()))
    }
}

/// Reads all documents of a data set into memory.
///
/// # Errors
/// Fails as [`DocumentGroups::read`] does, and if the counts differ from the manifest.
pub fn read_all_documents(data: &DataSet) -> Result<Bucket> {
    let mut groups = DocumentGroups::new(data);
    let all = groups.read(0..groups.len())?;
    let documents = all.documents();
    let report = &data.manifest().report;
    check_equal("the sentences of all shards", documents.sentences(), report.sentences)
        .and_then(|()| check_equal("the tokens of all shards", documents.tokens(), report.tokens))
        .map_err(|error| error.at(Manifest::path(data.folder())))?;
    Ok(all)
}
