//! Packs token ids in scratch files: two bytes per id if the vocabulary is small enough, otherwise four.
//!
//! [`Tally`] compares sets by their size and an order-independent fingerprint: the wrapping sum of a 64-bit hash of
//! each member.

use bert_tokenization::TokenId;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// The number of bytes per packed id: two if the vocabulary is small enough, otherwise four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Two,
    Four,
}

impl Width {
    pub(crate) fn for_vocabulary(vocabulary: usize) -> Self {
        if vocabulary <= 1 << 16 { Self::Two } else { Self::Four }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    pub(crate) fn put(self, ids: &[TokenId], out: &mut Vec<u8>) {
        match self {
            Self::Two => ids.iter().for_each(|&id| out.extend_from_slice(&(id as u16).to_le_bytes())),
            Self::Four => ids.iter().for_each(|&id| out.extend_from_slice(&id.to_le_bytes())),
        }
    }

    /// Unpacks ids and appends them to `out`.
    pub(crate) fn get(self, bytes: &[u8], out: &mut Vec<TokenId>) {
        match self {
            Self::Two => {
                out.extend(bytes.as_chunks().0.iter().map(|&pair| u32::from(u16::from_le_bytes(pair))));
            }
            Self::Four => out.extend(bytes.as_chunks().0.iter().map(|&four| u32::from_le_bytes(four))),
        }
    }
}

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

    /// Adds the members of another set. A sum of counts that would overflow becomes the maximum, which no real set has.
    pub(crate) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
    }
}

/// The hash of a document, computed from the packed tokens of its sentences in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DocumentHash(u64);

impl DocumentHash {
    pub(crate) fn add_sentence(&mut self, packed: &[u8]) {
        self.0 = XxHash3_64::oneshot_with_seed(self.0, packed);
    }
}
