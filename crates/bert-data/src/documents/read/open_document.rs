//! The document that is being read, when documents are held out: its sentences wait until its hash is known.

use twox_hash::XxHash3_64;

use crate::config::BuildConfig;
use crate::config::hold_out::HoldOut;

/// A sentence, or a piece of one that was cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Whether this is the first piece of a sentence that was cut.
    pub(super) is_cut: bool,
    /// Whether the sentence is as long as a paragraph.
    pub(super) is_long: bool,
}

/// The modulus of the text hash: a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;
/// The base of the text hash: any large number below the modulus.
const BASE: u64 = 0x0A3C_59AC_2F03_1D97;
/// Number of bytes of a document that decide whether it is held out. A document is cut only after more bytes, so the
/// cut does not matter.
const DECIDING_BYTES: u64 = 1 << 20;

fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let sum = (product as u64 & PRIME) + (product >> 61) as u64;
    if sum >= PRIME { sum - PRIME } else { sum }
}

/// The hash of a text without its spaces: a polynomial of its bytes. The hash of two concatenated texts follows from
/// their hashes, so neither the division into lines and sentences nor the division into blocks matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextHash {
    hash: u64,
    /// The base to the power of the number of bytes.
    power: u64,
    bytes: u64,
}

impl Default for TextHash {
    fn default() -> Self {
        Self { hash: 0, power: 1, bytes: 0 }
    }
}

impl TextHash {
    /// Returns the hash of a text.
    pub(crate) fn new(text: &str) -> Self {
        let mut sum = Self::default();
        for c in text.chars().filter(|c| !c.is_whitespace()) {
            for &byte in c.encode_utf8(&mut [0; 4]).as_bytes() {
                sum.hash = (times(sum.hash, BASE) + u64::from(byte) + 1) % PRIME;
                sum.power = times(sum.power, BASE);
                sum.bytes += 1;
            }
        }
        sum
    }

    /// Appends the text of another hash, unless this one is already long enough to decide.
    pub(crate) fn push(&mut self, next: Self) {
        if self.bytes < DECIDING_BYTES {
            self.hash = (times(self.hash, next.power) + next.hash) % PRIME;
            self.power = times(self.power, next.power);
            self.bytes += next.bytes;
        }
    }

    /// Returns a number that is evenly distributed over 64 bits.
    pub(crate) fn finish(self) -> u64 {
        XxHash3_64::oneshot_with_seed(self.bytes, &self.hash.to_le_bytes())
    }
}

/// The sentences of the open document.
#[derive(Debug, Default)]
pub(super) struct OpenDocument {
    pub(super) ids: Vec<u32>,
    /// Number of tokens of each sentence or piece of one.
    pub(super) sentences: Vec<(u32, Piece)>,
    text: TextHash,
}

impl OpenDocument {
    /// Adds the text of a line or row, whose sentences follow.
    pub(super) fn push_text(&mut self, text: TextHash) {
        self.text.push(text);
    }

    /// Appends a sentence, or a piece of one.
    pub(super) fn push(&mut self, ids: &[u32], piece: Piece) {
        self.ids.extend_from_slice(ids);
        self.sentences.push((ids.len() as u32, piece));
    }

    /// Removes the sentences; keeps the text hash if the document continues.
    pub(super) fn clear(&mut self, continues: bool) {
        self.ids.clear();
        self.sentences.clear();
        if !continues {
            self.text = TextHash::default();
        }
    }

    /// Returns whether the document belongs to the data set: the training data, or the held-out data.
    pub(super) fn is_wanted(&self, config: &BuildConfig) -> bool {
        let is_held = |share: HoldOut| share.selects(config.random_seed, self.text.finish());
        config.hold_out.is_none_or(|share| is_held(share) == config.held_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_ignores_the_division_of_a_text() {
        let whole = TextHash::new("The mill burnt. It rained, \u{e9}t\u{e9}.");
        for parts in [
            ["The mill burnt.", "It rained, \u{e9}t\u{e9}."],
            ["The mill bur", "nt.\nIt  rained,\u{a0}\u{e9}t\u{e9}."],
        ] {
            let mut sum = TextHash::default();
            parts.iter().for_each(|part| sum.push(TextHash::new(part)));
            assert_eq!(sum, whole);
        }
        assert_ne!(TextHash::new("The mill burnt. It rained, ete.").finish(), whole.finish());
        assert_ne!(TextHash::new("").finish(), TextHash::new("\0").finish());
    }

    #[test]
    fn only_the_beginning_of_a_long_document_decides() {
        let line = TextHash::new(&"a b c d ".repeat(1 << 16));
        let sum = |lines: usize, last: &str| {
            let mut sum = TextHash::default();
            (0..lines).for_each(|_| sum.push(line));
            sum.push(TextHash::new(last));
            sum.finish()
        };
        assert_eq!(sum(4, "x"), sum(9, "y"));
        assert_ne!(sum(3, "x"), sum(3, "y"));
    }
}
