//! Counts the tokens of the text that occur in no instance.
//!
//! Truncation cuts the ends of long pairs at random in every pass, and some rules omit text. A token that every pass
//! omits is never seen by the model. The generators of instances record the tokens that they use ([`Shown`]).
//! [`Coverage`] merges these records and counts the rest. A large text is sampled, so the records stay small.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Number of tokens up to which the whole text is examined.
const MOST: u64 = 1 << 18;
/// Number of tokens of a block, the unit of sampling.
const STRETCH: u64 = 1 << 12;

/// The sampled tokens of a text: every `every`-th block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    tokens: u64,
    /// Every `every`-th block is sampled.
    every: u64,
}

/// Sampled token positions that occur in some instance, as sorted, disjoint ranges (numbered over the sampled tokens
/// only).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Shown(Vec<(u32, u32)>);

/// The covered tokens of a text, one bit for each sampled token.
#[derive(Debug)]
pub(crate) struct Coverage {
    looked: Looked,
    bits: Vec<u64>,
}

/// The result of the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unseen {
    /// Number of sampled tokens.
    pub(crate) of: u64,
    /// Number of sampled tokens that occur in no instance.
    pub(crate) tokens: u64,
}

impl Unseen {
    pub(crate) fn add(&mut self, other: Self) {
        self.of = self.of.saturating_add(other.of);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

impl Looked {
    /// Samples a text with this number of tokens.
    pub(crate) fn new(tokens: u64) -> Self {
        Self::with_stretches(tokens, MOST / STRETCH)
    }

    /// Samples at most `most` blocks.
    fn with_stretches(tokens: u64, most: u64) -> Self {
        Self { tokens, every: tokens.div_ceil(STRETCH).div_ceil(most).max(1) }
    }

    /// Returns the number of sampled tokens.
    fn count(&self) -> u64 {
        let (full, rest) = (self.tokens / STRETCH, self.tokens % STRETCH);
        full.div_ceil(self.every) * STRETCH + if full.is_multiple_of(self.every) { rest } else { 0 }
    }

    /// Records tokens of a document as covered; `before` is the number of tokens before the document in the text.
    pub(crate) fn show(&self, before: u64, tokens: Range<usize>, shown: &mut Shown) {
        let (mut start, last) = (before + tokens.start as u64, before + tokens.end as u64);
        while start < last {
            let stretch = start / STRETCH;
            let end = last.min((stretch + 1) * STRETCH);
            if stretch.is_multiple_of(self.every) {
                let at = stretch / self.every * STRETCH + start % STRETCH;
                shown.push(at as u32, (at + (end - start)) as u32);
            }
            start = end;
        }
    }
}

impl Shown {
    fn push(&mut self, start: u32, end: u32) {
        match self.0.last_mut() {
            Some(last) if (last.0..=last.1).contains(&start) => last.1 = last.1.max(end),
            _ => self.0.push((start, end)),
        }
    }

    /// Sorts and merges the records.
    pub(crate) fn tidy(&mut self) {
        self.0.sort_unstable();
        for (start, end) in std::mem::take(&mut self.0) {
            self.push(start, end);
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.tidy();
    }
}

impl Coverage {
    /// Creates the coverage of a text with this number of tokens, none of them covered.
    pub(crate) fn new(tokens: u64) -> Self {
        Self::of(Looked::new(tokens))
    }

    fn of(looked: Looked) -> Self {
        Self { looked, bits: vec![0; looked.count().div_ceil(64) as usize] }
    }

    /// Adds records. Positions outside the sample, which occur only in forged records, are ignored.
    pub(crate) fn add(&mut self, shown: &Shown) {
        for &(start, end) in &shown.0 {
            for at in start..end.min(self.looked.count() as u32) {
                self.bits[at as usize / 64] |= 1 << (at % 64);
            }
        }
    }

    /// Returns the covered tokens as records.
    pub(crate) fn shown(&self) -> Shown {
        let mut shown = Shown::default();
        for (word, at) in self.bits.iter().zip((0u32..).step_by(64)) {
            (0..64).filter(|bit| word >> bit & 1 == 1).for_each(|bit| shown.push(at + bit, at + bit + 1));
        }
        shown
    }

    /// Counts the tokens that are not covered.
    pub(crate) fn unseen(&self) -> Unseen {
        let (of, shown) =
            (self.looked.count(), self.bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>());
        Unseen { of, tokens: of - shown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bert_random::{Domain, Random, Stream};

    #[test]
    fn unmarked_tokens_are_counted_as_a_set_counts_them() {
        let mut random = Stream::new(1, Domain::Pairs, &[]);
        for (tokens, most) in
            [(1, 4), (4096, 4), (4097, 4), (20_000, 8), (100_000, 8), (100_000, 25), (100_000, 1)]
        {
            let looked = Looked::with_stretches(tokens, most);
            let (mut coverage, mut notes) = (Coverage::of(looked), Shown::default());
            let mut shown = vec![false; tokens as usize];
            for _ in 0..random.below(2 * tokens as usize / 50 + 2) {
                let start = random.below(tokens as usize);
                let end = (start + random.below(200)).min(shown.len());
                shown[start..end].fill(true);
                looked.show(3.min(start as u64), start - 3.min(start)..end - 3.min(start), &mut notes);
            }
            let mut tidy = notes.clone();
            tidy.tidy();
            assert!(tidy.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "they do not touch");
            coverage.add(if tokens % 2 == 0 { &notes } else { &tidy });
            assert_eq!(coverage.shown(), tidy);
            let looked_at = |at: &usize| (*at as u64 / STRETCH).is_multiple_of(looked.every);
            let of = (0..shown.len()).filter(looked_at).count() as u64;
            let unseen = (0..shown.len()).filter(looked_at).filter(|&at| !shown[at]).count() as u64;
            assert_eq!(coverage.unseen(), Unseen { of, tokens: unseen }, "{tokens} tokens, {most} stretches");
            assert!(coverage.bits.len() as u64 <= most * STRETCH / 64);
            assert!(most * STRETCH < tokens || of == tokens, "a small text is looked at as a whole");
        }
    }
}
