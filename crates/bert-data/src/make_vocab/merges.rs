//! Byte-pair encoding: repeatedly merges the most frequent pair of adjacent pieces into one piece.
//!
//! The rules follow `BpeTrainer` of the `tokenizers` crate, and the vocabularies are identical, token by token. That
//! trainer counts pairs in 32 bits, which overflow on several gigabytes of text, and needs 32 bytes for each character
//! of each word. Here counts have 64 bits and a character needs 4 bytes. Nothing depends on the order of a hash map.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use ahash::AHashMap;
use compact_str::CompactString;

/// Prefix of a piece that continues a word.
pub(super) const CONTINUES: &str = "##";

/// Two adjacent pieces.
type Pair = (u32, u32);

/// A pair that may be merged: its count when it was added, and the words that contain it. Among pairs with equal
/// counts, the pair of older pieces is first; among entries of one pair, the earliest entry is first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    count: u64,
    pair: Reverse<Pair>,
    entry: Reverse<usize>,
    words: Vec<u32>,
}

/// The words as pieces, in one list.
struct Words {
    pieces: Vec<u32>,
    /// Start of each word in `pieces`, and its current number of pieces.
    positions: Vec<(usize, u8)>,
    counts: Vec<u64>,
}

/// The tokens and their ids.
struct Tokens {
    tokens: Vec<String>,
    ids: AHashMap<CompactString, u32>,
}

impl Tokens {
    fn id_of(&mut self, token: String) -> u32 {
        *self.ids.entry(token.as_str().into()).or_insert_with(|| {
            self.tokens.push(token);
            (self.tokens.len() - 1) as u32
        })
    }

    /// Returns the token for a merged pair.
    fn joined(&mut self, (left, right): Pair) -> u32 {
        let [left, right] = [left, right].map(|id| self.tokens[id as usize].as_str());
        let joined = format!("{left}{}", right.strip_prefix(CONTINUES).unwrap_or(right));
        self.id_of(joined)
    }
}

/// Adds merged pieces to the first tokens, until there are `size` tokens or no pair occurs `min_frequency` times. The
/// first tokens must contain every character of the words, and with the prefix [`CONTINUES`] every character that
/// continues a word.
pub(super) fn merge(
    words: &[(CompactString, u64)],
    first: Vec<String>,
    size: usize,
    min_frequency: u64,
) -> Vec<String> {
    let ids = first.iter().zip(0..).map(|(token, id)| (token.as_str().into(), id)).collect();
    let mut tokens = Tokens { tokens: first, ids };
    let mut words = Words::new(words, &mut tokens);
    let (mut counts, candidates) = words.pairs();
    let mut queue = BinaryHeap::from(candidates);
    let mut entries = queue.len();
    while tokens.tokens.len() < size {
        let Some(mut top) = queue.pop() else { break };
        let Reverse(pair) = top.pair;
        let now = counts[&pair].max(0) as u64;
        if top.count != now {
            top.count = now;
            queue.push(top);
            continue;
        }
        if now < min_frequency.max(1) {
            break;
        }
        let new = tokens.joined(pair);
        // Sorted by pair, so that the order of the new candidates does not depend on hashing.
        let mut formed: BTreeMap<Pair, Vec<u32>> = BTreeMap::new();
        for word in top.words {
            let count = words.counts[word as usize] as i64;
            words.merge(word, pair, new, |pair, change| {
                *counts.entry(pair).or_default() += change * count;
                if change > 0 {
                    add_word(formed.entry(pair).or_default(), word);
                }
            });
        }
        for (pair, words) in formed {
            let count = counts[&pair].max(0) as u64;
            if count > 0 {
                queue.push(Candidate { count, pair: Reverse(pair), entry: Reverse(entries), words });
                entries += 1;
            }
        }
    }
    tokens.tokens
}

/// Adds a word unless it is already the last one.
fn add_word(words: &mut Vec<u32>, word: u32) {
    if words.last() != Some(&word) {
        words.push(word);
    }
}

impl Words {
    fn new(words: &[(CompactString, u64)], tokens: &mut Tokens) -> Self {
        let characters = words.iter().map(|(word, _)| word.chars().count()).sum();
        let positions = Vec::with_capacity(words.len());
        let counts = Vec::with_capacity(words.len());
        let mut result = Self { pieces: Vec::with_capacity(characters), positions, counts };
        let mut piece = String::new();
        for (word, count) in words {
            let start = result.pieces.len();
            for (position, c) in word.chars().enumerate() {
                piece.clear();
                piece.push_str(if position == 0 { "" } else { CONTINUES });
                piece.push(c);
                result.pieces.push(match tokens.ids.get(piece.as_str()) {
                    Some(&id) => id,
                    None => tokens.id_of(piece.clone()),
                });
            }
            result.positions.push((start, (result.pieces.len() - start) as u8));
            result.counts.push(*count);
        }
        result
    }

    fn word(&self, word: u32) -> &[u32] {
        let (start, length) = self.positions[word as usize];
        &self.pieces[start..start + usize::from(length)]
    }

    /// Returns all pairs with their counts, and the merge candidates.
    fn pairs(&self) -> (AHashMap<Pair, i64>, Vec<Candidate>) {
        let mut counts: AHashMap<Pair, i64> = AHashMap::new();
        let mut words: AHashMap<Pair, Vec<u32>> = AHashMap::new();
        for word in 0..self.positions.len() as u32 {
            for pair in self.word(word).windows(2) {
                let pair = (pair[0], pair[1]);
                *counts.entry(pair).or_default() += self.counts[word as usize] as i64;
                add_word(words.entry(pair).or_default(), word);
            }
        }
        // The pairs are distinct, so the order of insertion does not matter.
        let candidates = words.into_iter().map(|(pair, mut words)| {
            words.shrink_to_fit();
            let count = counts[&pair].max(0) as u64;
            Candidate { count, pair: Reverse(pair), entry: Reverse(0), words }
        });
        let candidates = candidates.collect();
        (counts, candidates)
    }

    /// Merges a pair wherever it occurs in a word, and calls `changed` with each pair whose count rises or falls by
    /// one.
    fn merge(&mut self, word: u32, (left, right): Pair, new: u32, mut changed: impl FnMut(Pair, i64)) {
        let (start, length) = self.positions[word as usize];
        let pieces = &mut self.pieces[start..start + usize::from(length)];
        let mut read = 0;
        let mut written = 0;
        while read < pieces.len() {
            if pieces[read] != left || pieces.get(read + 1) != Some(&right) {
                pieces[written] = pieces[read];
                (read, written) = (read + 1, written + 1);
                continue;
            }
            if written > 0 {
                changed((pieces[written - 1], left), -1);
                changed((pieces[written - 1], new), 1);
            }
            if let Some(&next) = pieces.get(read + 2) {
                changed((right, next), -1);
                changed((new, next), 1);
            }
            pieces[written] = new;
            (read, written) = (read + 2, written + 1);
        }
        self.positions[word as usize].1 = written as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(words: &[(&str, u64)], first: &[&str], size: usize, min_frequency: u64) -> Vec<String> {
        let words: Vec<_> = words.iter().map(|(word, count)| (CompactString::from(*word), *count)).collect();
        let first: Vec<String> = first.iter().map(ToString::to_string).collect();
        merge(&words, first.clone(), size, min_frequency).split_off(first.len())
    }

    const LETTERS: [&str; 5] = ["a", "b", "##a", "##b", "##c"];

    #[test]
    fn the_most_frequent_pair_is_merged_first() {
        let words = [("abc", 5), ("bc", 4), ("ab", 1)];
        // a ##b occurs 6 times, ##b ##c 5 times, b ##c 4 times; then ab ##c 5 times.
        assert_eq!(merged(&words, &LETTERS, 99, 1), ["ab", "abc", "bc"]);
        assert_eq!(merged(&words, &LETTERS, 99, 5), ["ab", "abc"]);
        assert_eq!(merged(&words, &LETTERS, 6, 1), ["ab"]);
    }

    /// A pair with 2^33 + 1 occurrences is more frequent than a pair with two.
    #[test]
    fn counts_do_not_wrap() {
        let words = [("ab", (1 << 33) + 1), ("ba", 2)];
        assert_eq!(merged(&words, &LETTERS, 6, 1), ["ab"]);
        assert_eq!(merged(&words, &LETTERS, 99, 3), ["ab"], "twice is below three times");
        assert_eq!(merged(&words, &LETTERS, 99, 2), ["ab", "ba"]);
    }
}
