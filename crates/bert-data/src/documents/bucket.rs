//! A bucket: some documents of the text in memory, from which instances are made.
//!
//! The documents are in text order, with their numbers, regardless of where they were read from. A random next sentence
//! comes from the same bucket, and the number of a document selects its random stream. Buckets with the same documents
//! therefore yield the same instances.

use bert_random::{Domain, Permutation, Stream};

use crate::documents::{Documents, DocumentsBuilder};
use crate::error::Result;

/// Documents in text order, with their numbers.
#[derive(Debug)]
pub struct Bucket {
    documents: Documents,
    numbers: Vec<u64>,
}

/// Returns the order of the documents of a corpus in one pass of the builder.
pub(crate) fn order_of_pass(seed: u64, pass: u64, documents: u64) -> Permutation {
    Permutation::new(documents, &mut Stream::new(seed, Domain::Buckets, &[pass]))
}

impl Bucket {
    /// Creates a bucket from documents with ascending numbers.
    pub(crate) fn ascending(documents: Documents, numbers: Vec<u64>) -> Self {
        debug_assert!(
            numbers.is_sorted() && numbers.len() == documents.len(),
            "one ascending number per document"
        );
        Self { documents, numbers }
    }

    /// Creates a bucket from documents in any order.
    pub(crate) fn sorted(documents: DocumentsBuilder, mut numbers: Vec<u64>) -> Result<Self> {
        let documents = documents.finish()?;
        let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
        order.sort_unstable_by_key(|&index| numbers[index as usize]);
        numbers.sort_unstable();
        Ok(Self::ascending(documents.reordered(order), numbers))
    }

    /// Returns the documents.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns whether the bucket is empty.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the number, in text order, of the document at an index of the bucket.
    ///
    /// # Panics
    /// If `index` is outside the bucket.
    pub fn number(&self, index: usize) -> u64 {
        self.numbers[index]
    }

    /// Returns the index of the document with this number in the bucket.
    pub(crate) fn index_of(&self, number: u64) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }
}

/// Approximate number of tokens per bucket: 8 MB at two bytes per token.
pub(crate) const BUCKET_TOKENS: u64 = 1 << 22;
