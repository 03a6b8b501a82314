//! Digests of the ranges of a file, from which the BLAKE3 digest of the whole file is computed.
//!
//! BLAKE3 is a tree of chunks. A range that begins at a multiple of a power of two of chunks has separate chaining
//! values, so the ranges of a file can be read by different processes.

use std::ops::Range;

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};
use serde::{Deserialize, Serialize};

/// Minimum and maximum number of bytes for each chaining value; powers of two.
const BLOCK: Range<u64> = 1 << 10..1 << 20;

/// Returns the number of bytes for each chaining value. Ranges of about `bytes` bytes begin and end at multiples of
/// this number.
pub(crate) fn block_size(bytes: u64) -> u64 {
    1 << bytes.clamp(BLOCK.start, BLOCK.end).ilog2()
}

/// The chaining values of the blocks of a range, as hex digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainingValues(Vec<String>);

impl ChainingValues {
    /// Appends the values of the next range.
    pub fn add(&mut self, next: &Self) {
        self.0.extend_from_slice(&next.0);
    }

    /// Returns the BLAKE3 digest in hex of a file of `bytes` bytes, or `None` unless there is one value for each of
    /// its blocks of `block` bytes, of which there must be at least two.
    pub fn digest(&self, block: u64, bytes: u64) -> Option<String> {
        let values: Option<Vec<ChainingValue>> =
            self.0.iter().map(|hex| Some(*blake3::Hash::from_hex(hex).ok()?.as_bytes())).collect();
        let values =
            values.filter(|values| values.len() > 1 && values.len() as u64 == bytes.div_ceil(block))?;
        let (left, right, left_bytes) = halves(&values, block, bytes);
        let [left, right] = [(left, left_bytes), (right, bytes - left_bytes)]
            .map(|(values, bytes)| subtree(values, block, bytes));
        Some(merge_subtrees_root(&left, &right, Mode::Hash).to_hex().to_string())
    }
}

/// Divides a subtree of several blocks into its two children. Also returns the number of bytes of the left one.
fn halves(values: &[ChainingValue], block: u64, bytes: u64) -> (&[ChainingValue], &[ChainingValue], u64) {
    let left = left_subtree_len(bytes);
    let (first, second) = values.split_at((left / block) as usize);
    (first, second, left)
}

/// Returns the chaining value of a subtree.
fn subtree(values: &[ChainingValue], block: u64, bytes: u64) -> ChainingValue {
    if let [value] = values {
        return *value;
    }
    let (left, right, left_bytes) = halves(values, block, bytes);
    let left = subtree(left, block, left_bytes);
    let right = subtree(right, block, bytes - left_bytes);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

/// Hasher that computes the chaining values of the blocks of a range while the range is read.
#[derive(Clone)]
pub(crate) struct RangeHasher {
    /// Number of bytes of each block.
    block: u64,
    /// Offset in the file of the next byte.
    at: u64,
    /// The block that is being read.
    hasher: Option<Hasher>,
    values: Vec<String>,
}

impl RangeHasher {
    /// Creates a hasher of a range that begins at `start`, a multiple of `block`.
    pub(crate) fn new(start: u64, block: u64) -> Self {
        debug_assert!(start.is_multiple_of(block), "a range of whole blocks");
        Self { block, at: start, hasher: None, values: Vec::new() }
    }

    /// Adds the next bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.block - self.at % self.block;
            let (next, rest) = bytes.split_at(bytes.len().min(room as usize));
            let hasher = self.hasher.get_or_insert_with(|| {
                let mut hasher = Hasher::new();
                hasher.set_input_offset(self.at);
                hasher
            });
            hasher.update(next);
            self.at += next.len() as u64;
            if self.at.is_multiple_of(self.block) {
                self.end_block();
            }
            bytes = rest;
        }
    }

    fn end_block(&mut self) {
        if let Some(hasher) = self.hasher.take() {
            self.values.push(blake3::Hash::from_bytes(hasher.finalize_non_root()).to_hex().to_string());
        }
    }

    /// Returns the values of all blocks; the last one may be shorter.
    pub(crate) fn finish(mut self) -> ChainingValues {
        self.end_block();
        ChainingValues(self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_give_the_digest_of_the_file() {
        let bytes: Vec<u8> = (0..40_000u32).map(|at| (at % 251) as u8).collect();
        for (length, block) in [(40_000, 1024), (4096, 1024), (4097, 2048), (1025, 1024), (39_999, 8192)] {
            let file = &bytes[..length];
            for cut in [block, (length - 1) / block * block] {
                let mut values = ChainingValues::default();
                for (start, range) in [(0, &file[..cut]), (cut, &file[cut..])] {
                    let mut hasher = RangeHasher::new(start as u64, block as u64);
                    range.chunks(700).for_each(|bytes| hasher.update(bytes));
                    values.add(&hasher.finish());
                }
                let digest = values.digest(block as u64, length as u64).unwrap();
                assert_eq!(digest, blake3::hash(file).to_hex().to_string(), "{length} bytes, cut at {cut}");
            }
        }
    }

    #[test]
    fn missing_blocks_give_no_digest() {
        let mut hasher = RangeHasher::new(0, 1024);
        hasher.update(&[7; 3000]);
        let values = hasher.finish();
        assert!(values.digest(1024, 3000).is_some());
        assert!(values.digest(1024, 4000).is_none() && ChainingValues::default().digest(1024, 0).is_none());
        assert_eq!([10, 5000, u64::MAX].map(block_size), [1024, 4096, 1 << 20]);
    }
}
