//! A bucket: some documents of the text in memory, from which instances are made.
//!
//! The documents are in the order of the text, with their numbers, wherever they were read from. A random next sentence
//! comes from the same bucket, and a document's number addresses its draws. So buckets with the same documents give the
//! same instances.

use crate::documents::{Documents, DocumentsBuilder};
use crate::error::Result;
use bert_random::{Domain, Permutation, Stream};

/// Documents in the order of the text, with their numbers.
#[derive(Debug)]
pub struct Bucket {
    documents: Documents,
    numbers: Vec<u64>,
}

/// The order of the documents of a corpus in one pass of the builder.
pub(crate) fn order_of_pass(seed: u64, pass: u64, documents: u64) -> Permutation {
    Permutation::new(documents, &mut Stream::new(seed, Domain::Buckets, &[pass]))
}

impl Bucket {
    /// Documents that ascend by their numbers.
    pub(crate) fn ascending(documents: Documents, numbers: Vec<u64>) -> Self {
        debug_assert!(
            numbers.is_sorted() && numbers.len() == documents.len(),
            "numbers are those of documents"
        );
        Self { documents, numbers }
    }

    /// Documents in any order.
    pub(crate) fn sorted(documents: DocumentsBuilder, mut numbers: Vec<u64>) -> Result<Self> {
        let documents = documents.finish()?;
        let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
        order.sort_unstable_by_key(|&place| numbers[place as usize]);
        numbers.sort_unstable();
        Ok(Self::ascending(documents.in_order(order), numbers))
    }

    /// The documents.
    #[must_use]
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// Number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The number of the document at a place, in the order of the text.
    ///
    /// # Panics
    /// When there is no such place.
    #[must_use]
    pub fn number(&self, index: usize) -> u64 {
        self.numbers[index]
    }

    /// The place of the document with a number.
    pub(crate) fn place_of(&self, number: u64) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }
}

/// Tokens of a bucket, roughly: 8 MB of two bytes each.
pub(crate) const BUCKET_TOKENS: u64 = 1 << 22;
