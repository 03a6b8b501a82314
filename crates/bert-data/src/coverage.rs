//! Which tokens of the text stand in no instance.
//!
//! Truncation cuts the ends of long pairs, at random and anew in every pass, and some rules leave text out. A token that
//! every pass leaves out is lost to the model. [`Coverage`] marks the tokens that an instance shows, one bit each, and
//! counts the rest. A large text is sampled, so that the bits take 8 MiB at most. The reference does not count.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Tokens up to which every one is looked at.
const MOST: u64 = 1 << 26;
/// Tokens that are looked at or left out together.
const STRETCH: u64 = 1 << 12;

/// The tokens of a text that were shown. Many threads may mark; their order changes nothing.
#[derive(Debug)]
pub(crate) struct Coverage {
    tokens: u64,
    /// Of so many stretches one is looked at.
    every: u64,
    /// A bit for each token of the stretches that are looked at.
    bits: Vec<AtomicU64>,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unseen {
    /// Tokens that were looked at.
    pub(crate) of: u64,
    /// Those of them that no instance shows.
    pub(crate) tokens: u64,
}

impl Unseen {
    pub(crate) fn add(&mut self, other: Self) {
        self.of = self.of.saturating_add(other.of);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

impl Coverage {
    /// Of a text of so many tokens, none of them shown.
    pub(crate) fn new(tokens: u64) -> Self {
        Self::with_stretches(tokens, MOST / STRETCH)
    }

    /// Looks at so many stretches at most.
    fn with_stretches(tokens: u64, most: u64) -> Self {
        let stretches = tokens.div_ceil(STRETCH);
        let every = stretches.div_ceil(most).max(1);
        let words = stretches.div_ceil(every) * (STRETCH / 64);
        Self { tokens, every, bits: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Marks tokens, by their places in the text, as shown.
    pub(crate) fn show(&self, tokens: Range<u64>) {
        let mut start = tokens.start;
        while start < tokens.end {
            let stretch = start / STRETCH;
            let end = tokens.end.min((stretch + 1) * STRETCH);
            if stretch.is_multiple_of(self.every) {
                let base = stretch / self.every * STRETCH;
                self.mark(base + start % STRETCH..base + start % STRETCH + (end - start));
            }
            start = end;
        }
    }

    fn mark(&self, bits: Range<u64>) {
        let mut start = bits.start;
        while start < bits.end {
            let end = bits.end.min((start / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (end - start))) << (start % 64);
            let word = &self.bits[(start / 64) as usize];
            // Most tokens are shown in the first pass: a look saves the other passes from writing.
            if word.load(Ordering::Relaxed) & mask != mask {
                word.fetch_or(mask, Ordering::Relaxed);
            }
            start = end;
        }
    }

    /// Counts the tokens that are not marked.
    pub(crate) fn unseen(&self) -> Unseen {
        let shown: u64 =
            self.bits.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum();
        let (full, rest) = (self.tokens / STRETCH, self.tokens % STRETCH);
        let of = full.div_ceil(self.every) * STRETCH + if full.is_multiple_of(self.every) { rest } else { 0 };
        Unseen { of, tokens: of - shown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Domain, Random, Stream};

    #[test]
    fn unmarked_tokens_are_counted_as_a_set_counts_them() {
        let mut random = Stream::new(1, Domain::Pairs, &[]);
        for (tokens, most) in
            [(1, 4), (4096, 4), (4097, 4), (20_000, 8), (100_000, 8), (100_000, 25), (100_000, 1)]
        {
            let coverage = Coverage::with_stretches(tokens, most);
            let mut shown = vec![false; tokens as usize];
            for _ in 0..random.below(2 * tokens as usize / 50 + 2) {
                let start = random.below(tokens as usize);
                let end = (start + random.below(200)).min(shown.len());
                shown[start..end].fill(true);
                coverage.show(start as u64..end as u64);
            }
            let looked_at = |at: &usize| (*at as u64 / STRETCH).is_multiple_of(coverage.every);
            let of = (0..shown.len()).filter(looked_at).count() as u64;
            let unseen = (0..shown.len()).filter(looked_at).filter(|&at| !shown[at]).count() as u64;
            assert_eq!(coverage.unseen(), Unseen { of, tokens: unseen }, "{tokens} tokens, {most} stretches");
            assert!(coverage.bits.len() as u64 <= most * STRETCH / 64);
            assert!(most * STRETCH < tokens || of == tokens, "a small text is looked at as a whole");
        }
    }
}
