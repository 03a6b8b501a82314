//! Counts the tokens of the text that occur in no instance.
//!
//! Truncation cuts the ends of long pairs at random in every pass, and some rules omit text. A token that every pass
//! omits is never seen by the model. The generators of instances record the tokens that they use ([`CoveredRanges`]).
//! [`Coverage`] merges these records and counts the rest. A large text is sampled, so the records stay small.

use std::ops::Range;

use bert_tokenization::TokenId;
use serde::{Deserialize, Serialize};

use crate::instance::pairs::Instance;

/// Maximum number of sampled tokens; a text of at most this length is examined completely.
const MAX_SAMPLED_TOKENS: u64 = 1 << 18;
/// Number of tokens of a block, the unit of sampling.
const BLOCK_TOKENS: u64 = 1 << 12;

/// The sampled tokens of a text: every `every`-th block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampledBlocks {
    tokens: u64,
    /// Every `every`-th block is sampled.
    every: u64,
}

/// Sampled token positions that occur in some instance, as sorted, disjoint ranges (numbered over the sampled tokens
/// only).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct CoveredRanges(Vec<(u32, u32)>);

/// The covered tokens of a text, one bit for each sampled token.
#[derive(Debug)]
pub(crate) struct Coverage {
    sample: SampledBlocks,
    bits: Vec<u64>,
}

/// Numbers of sampled and of uncovered tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Uncovered {
    /// Number of sampled tokens.
    #[serde(rename = "of")]
    pub(crate) sampled: u64,
    /// Number of sampled tokens that occur in no instance.
    pub(crate) tokens: u64,
}

impl Uncovered {
    pub(crate) fn add(&mut self, other: Self) {
        self.sampled = self.sampled.saturating_add(other.sampled);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

impl SampledBlocks {
    /// Returns the sampled blocks of a text with this number of tokens.
    pub(crate) fn new(tokens: u64) -> Self {
        Self::with_max_blocks(tokens, MAX_SAMPLED_TOKENS / BLOCK_TOKENS)
    }

    /// Returns the sampled blocks of a text, at most `max_blocks` of them.
    fn with_max_blocks(tokens: u64, max_blocks: u64) -> Self {
        Self { tokens, every: tokens.div_ceil(BLOCK_TOKENS).div_ceil(max_blocks).max(1) }
    }

    /// Returns the number of sampled tokens.
    fn count(&self) -> u64 {
        let full = self.tokens / BLOCK_TOKENS;
        let rest = self.tokens % BLOCK_TOKENS;
        full.div_ceil(self.every) * BLOCK_TOKENS + if full.is_multiple_of(self.every) { rest } else { 0 }
    }

    /// Records tokens of a document as covered; `before` is the number of tokens before the document in the text.
    pub(crate) fn cover(&self, before: u64, tokens: Range<usize>, covered: &mut CoveredRanges) {
        let mut start = before + tokens.start as u64;
        let last = before + tokens.end as u64;
        while start < last {
            let block = start / BLOCK_TOKENS;
            let end = last.min((block + 1) * BLOCK_TOKENS);
            if block.is_multiple_of(self.every) {
                let at = block / self.every * BLOCK_TOKENS + start % BLOCK_TOKENS;
                covered.push(at as u32, (at + (end - start)) as u32);
            }
            start = end;
        }
    }
}

impl CoveredRanges {
    fn push(&mut self, start: u32, end: u32) {
        match self.0.last_mut() {
            Some(last) if (last.0..=last.1).contains(&start) => last.1 = last.1.max(end),
            _ => self.0.push((start, end)),
        }
    }

    /// Sorts and merges the records.
    pub(crate) fn normalize(&mut self) {
        self.0.sort_unstable();
        for (start, end) in std::mem::take(&mut self.0) {
            self.push(start, end);
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.normalize();
    }
}

impl Coverage {
    /// Creates the coverage of a text with this number of tokens, none of them covered.
    pub(crate) fn new(tokens: u64) -> Self {
        Self::of(SampledBlocks::new(tokens))
    }

    fn of(sample: SampledBlocks) -> Self {
        Self { sample, bits: vec![0; sample.count().div_ceil(64) as usize] }
    }

    /// Marks the recorded tokens as covered. Positions outside the sample, which occur only in forged records, are
    /// ignored.
    pub(crate) fn add(&mut self, covered: &CoveredRanges) {
        for &(start, end) in &covered.0 {
            for at in start..end.min(self.sample.count() as u32) {
                self.bits[at as usize / 64] |= 1 << (at % 64);
            }
        }
    }

    /// Returns the covered tokens as records.
    pub(crate) fn covered(&self) -> CoveredRanges {
        let mut covered = CoveredRanges::default();
        for (word, at) in self.bits.iter().zip((0u32..).step_by(64)) {
            (0..64).filter(|bit| word >> bit & 1 == 1).for_each(|bit| covered.push(at + bit, at + bit + 1));
        }
        covered
    }

    /// Counts the tokens that are not covered.
    pub(crate) fn uncovered(&self) -> Uncovered {
        let sampled = self.sample.count();
        let covered = self.bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        Uncovered { sampled, tokens: sampled - covered }
    }
}

/// Sums over instances. Addition is commutative, so the sums do not depend on the number of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counters {
    pub(crate) instances: u64,
    pub(crate) tokens: u64,
    pub(crate) random_next: u64,
    pub(crate) masked: u64,
    pub(crate) mask_tokens: u64,
    #[serde(rename = "kept")]
    pub(crate) unchanged: u64,
    /// Number of text tokens that are in an instance of their own document; random next sentences are not counted.
    #[serde(rename = "shown")]
    pub(crate) own_tokens: u64,
    pub(crate) lengths: Vec<u64>,
}

impl Counters {
    pub(crate) fn new(max_seq_length: usize) -> Self {
        Self { lengths: vec![0; max_seq_length + 1], ..Self::default() }
    }

    pub(crate) fn count(&mut self, row: &Instance, mask: TokenId) {
        self.instances += 1;
        self.tokens += row.tokens.len() as u64;
        self.lengths[row.tokens.len()] += 1;
        self.random_next += u64::from(row.is_random_next);
        self.masked += row.masked_lm_positions.len() as u64;
        for (&position, &original) in row.masked_lm_positions.iter().zip(&row.masked_lm_ids) {
            let token = row.tokens[position as usize];
            self.mask_tokens += u64::from(token == mask);
            self.unchanged += u64::from(token != mask && token == original);
        }
    }

    /// Adds with saturation: only a forged receipt can overflow.
    pub(crate) fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.instances, other.instances);
        add(&mut self.tokens, other.tokens);
        add(&mut self.random_next, other.random_next);
        add(&mut self.masked, other.masked);
        add(&mut self.mask_tokens, other.mask_tokens);
        add(&mut self.unchanged, other.unchanged);
        add(&mut self.own_tokens, other.own_tokens);
        self.lengths.iter_mut().zip(&other.lengths).for_each(|(sum, more)| add(sum, *more));
    }

    /// Returns whether these counts agree with each other and with the maximum length.
    pub(crate) fn is_consistent(&self, max_seq_length: usize) -> bool {
        let weighted = |(length, count): (u128, &u64)| length * u128::from(*count);
        let instances: u128 = self.lengths.iter().map(|&count| u128::from(count)).sum();
        let tokens: u128 = (0..).zip(&self.lengths).map(weighted).sum();
        self.lengths.len().checked_sub(1) == Some(max_seq_length)
            && (instances, tokens) == (self.instances.into(), self.tokens.into())
            && self.random_next <= self.instances
            && self.masked <= self.tokens
            && self.mask_tokens.saturating_add(self.unchanged) <= self.masked
            && self.own_tokens <= self.tokens
    }
}

#[cfg(test)]
mod tests {
    use bert_random::{Domain, Random, Stream};

    use super::*;

    #[test]
    fn uncovered_tokens_are_counted_exactly() {
        let mut random = Stream::new(1, Domain::Pairs, &[]);
        for (tokens, max_blocks) in
            [(1, 4), (4096, 4), (4097, 4), (20_000, 8), (100_000, 8), (100_000, 25), (100_000, 1)]
        {
            let sample = SampledBlocks::with_max_blocks(tokens, max_blocks);
            let mut coverage = Coverage::of(sample);
            let mut ranges = CoveredRanges::default();
            let mut covered = vec![false; tokens as usize];
            for _ in 0..random.below(2 * tokens as usize / 50 + 2) {
                let start = random.below(tokens as usize);
                let end = (start + random.below(200)).min(covered.len());
                covered[start..end].fill(true);
                sample.cover(3.min(start as u64), start - 3.min(start)..end - 3.min(start), &mut ranges);
            }
            let mut normalized = ranges.clone();
            normalized.normalize();
            assert!(normalized.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "they do not touch");
            coverage.add(if tokens % 2 == 0 { &ranges } else { &normalized });
            assert_eq!(coverage.covered(), normalized);
            let is_sampled = |at: &usize| (*at as u64 / BLOCK_TOKENS).is_multiple_of(sample.every);
            let sampled = (0..covered.len()).filter(is_sampled).count() as u64;
            let uncovered = (0..covered.len()).filter(is_sampled).filter(|&at| !covered[at]).count() as u64;
            assert_eq!(
                coverage.uncovered(),
                Uncovered { sampled, tokens: uncovered },
                "{tokens} tokens, {max_blocks} blocks"
            );
            assert!(coverage.bits.len() as u64 <= max_blocks * BLOCK_TOKENS / 64);
            assert!(
                max_blocks * BLOCK_TOKENS < tokens || sampled == tokens,
                "a short text is sampled completely"
            );
        }
    }
}
