//! Packs token ids in scratch files: two bytes per id if the vocabulary is small enough, otherwise four.

use bert_tokenization::TokenId;

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
