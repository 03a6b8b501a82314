//! Compares sets by their size and an order-independent fingerprint: the wrapping sum of a 64-bit hash of each member.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// The size and fingerprint of a set whose members are added in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) fingerprint: u64,
}

impl Tally {
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(Self { count: 1, fingerprint: XxHash3_64::oneshot(bytes) });
    }

    pub(crate) fn add_document(&mut self, document: DocumentHash) {
        self.add(Self { count: 1, fingerprint: document.0 });
    }

    /// Adds the members of another set. A count that overflows stays at the maximum and then never matches.
    pub(crate) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
    }
}

/// The hash of a document: of the packed tokens of its sentences, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DocumentHash(u64);

impl DocumentHash {
    pub(crate) fn add_sentence(&mut self, packed: &[u8]) {
        self.0 = XxHash3_64::oneshot_with_seed(self.0, packed);
    }
}
