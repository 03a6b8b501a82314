//! Hashes of the documents of a data set, by which two data sets are compared.
//!
//! A data set of any size keeps at most [`MAX`] hashes, the smallest ones (a bottom-k sketch). Hashes are evenly
//! distributed, so the hashes below a limit belong to a random sample of the documents. Equal documents have equal
//! hashes, so the samples of two data sets below a common limit contain the same shared documents.

use bert_tokenization::TokenId;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::documents::id_width::Width;

/// Maximum number of hashes of a data set.
const MAX: usize = 1 << 16;
/// Number of hexadecimal digits of a hash: among 10 million documents, a fraction of 1e-5 has the hash of another
/// document by chance.
const DIGITS: usize = 10;

/// The smallest hashes of the documents, each once. In JSON, they are one string with ten hexadecimal digits for each
/// hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DocumentHashes {
    /// Ascending after [`DocumentHashes::finish`].
    hashes: Vec<u64>,
}

/// The comparison of the documents of two data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedDocuments {
    /// Number of documents that were compared: all of a small data set, a random sample of a large one.
    pub compared: u64,
    /// Number of compared documents that the other data set has too.
    pub shared: u64,
}

impl SharedDocuments {
    /// Returns the share of the documents that the other data set has too, from 0 to 1.
    pub fn share(self) -> f64 {
        self.shared as f64 / self.compared as f64
    }
}

impl DocumentHashes {
    /// Adds the hash of a document, given its ids without word marks.
    pub(crate) fn add(&mut self, ids: &[TokenId], packed: &mut Vec<u8>) {
        packed.clear();
        Width::Four.put(ids, packed);
        self.hashes.push(XxHash3_64::oneshot(packed) >> (64 - 4 * DIGITS));
        if self.hashes.len() == 2 * MAX {
            self.keep_smallest();
        }
    }

    fn keep_smallest(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        self.hashes.truncate(MAX);
    }

    /// Returns the smallest hashes, after all documents were added.
    pub(crate) fn finish(mut self) -> Self {
        self.keep_smallest();
        self
    }

    /// Returns the largest hash up to which every document is listed.
    fn limit(&self) -> u64 {
        self.hashes.get(MAX - 1).copied().unwrap_or(u64::MAX)
    }

    /// Compares these documents with others; `None` if no document can be compared.
    pub(crate) fn shared_with(&self, others: &Self) -> Option<SharedDocuments> {
        let limit = self.limit().min(others.limit());
        let sample = &self.hashes[..self.hashes.partition_point(|&hash| hash <= limit)];
        let shared = sample.iter().filter(|hash| others.hashes.binary_search(hash).is_ok()).count();
        let found = SharedDocuments { compared: sample.len() as u64, shared: shared as u64 };
        (found.compared > 0 && !others.hashes.is_empty()).then_some(found)
    }
}

impl From<DocumentHashes> for String {
    fn from(hashes: DocumentHashes) -> Self {
        hashes.hashes.iter().map(|hash| format!("{hash:0DIGITS$x}")).collect()
    }
}

impl TryFrom<String> for DocumentHashes {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let hash = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == DIGITS)?;
            u64::from_str_radix(digits, 16).ok()
        };
        let hashes: Option<Vec<u64>> = text.as_bytes().chunks(DIGITS).map(hash).collect();
        hashes
            .filter(|hashes| hashes.len() <= MAX && hashes.is_sorted_by(|a, b| a < b))
            .map(|hashes| Self { hashes })
            .ok_or("expected hashes of documents: at most 65536 ascending numbers of ten hexadecimal digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(documents: std::ops::Range<u32>) -> DocumentHashes {
        let mut hashes = DocumentHashes::default();
        documents.for_each(|document| hashes.add(&[document, 7], &mut Vec::new()));
        hashes.finish()
    }

    #[test]
    fn all_documents_of_small_sets_are_compared() {
        let shared = |a, b| hashes(a).shared_with(&hashes(b));
        assert_eq!(shared(0..100, 60..500), Some(SharedDocuments { compared: 100, shared: 40 }));
        assert_eq!(shared(0..100, 100..500), Some(SharedDocuments { compared: 100, shared: 0 }));
        assert_eq!(shared(0..0, 0..5), None);
        assert_eq!(shared(0..5, 0..0), None);
    }

    /// The size of the sample and the share of common documents are within 5 sigma of their binomial distributions.
    #[test]
    fn large_sets_are_compared_by_a_sample() {
        let large = hashes(0..400_000);
        assert_eq!(large.hashes.len(), MAX);
        let held_out = hashes(396_000..404_000);
        let SharedDocuments { compared, shared } = held_out.shared_with(&large).unwrap();
        assert!((compared as f64 - 8000.0 * MAX as f64 / 400_000.0).abs() < 5.0 * 33.2, "{compared}");
        let share = SharedDocuments { compared, shared }.share();
        assert!((share - 0.5).abs() < 5.0 * 0.5 / (compared as f64).sqrt(), "{share}");
    }

    #[test]
    fn hashes_are_read_as_they_were_written() {
        let written = hashes(0..50);
        let text = String::from(written.clone());
        assert_eq!((text.len(), DocumentHashes::try_from(text.clone())), (500, Ok(written)));
        for wrong in [&text[1..], &text[..9], &text.repeat(2), "00000000zz"] {
            assert!(DocumentHashes::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
