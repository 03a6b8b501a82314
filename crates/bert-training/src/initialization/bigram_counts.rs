//! Counts the pairs of tokens at given distances in a text (bigrams at distance 1).
//!
//! Memory grows with the number of different pairs in the text, about 30 bytes per pair. The result is bit-identical
//! for any number of threads.

use std::thread::JoinHandle;

use bert_data::DataSet;
use bert_data::training_text::{for_each_text, tokens_of_text};
use bert_inference::StopFlag;
use rayon::prelude::*;

use crate::error::{Error, check_stop};

/// Number of pairs that are sorted at once: 32 MB, or 64 MB with several threads.
const CHUNK: usize = 1 << 22;

/// Maximum number of tokens to count. In a larger text, an equal fraction of every shard is counted.
const MAX_TOKENS: u64 = 1 << 26;

/// Counts of a text: tokens, and pairs at several distances.
pub(crate) struct BigramCounts {
    /// Number of occurrences of each token.
    pub(crate) occurrences: Vec<u64>,
    /// Pairs by distance, from 1.
    pairs: Vec<Pairs>,
}

/// The tokens that occur at one offset from each neighbour.
#[derive(Debug, PartialEq)]
pub(crate) struct Side {
    /// Start of each neighbour's tokens, and the end of the last.
    starts: Vec<usize>,
    /// Token and count; the tokens of each neighbour are in ascending order.
    tokens: Vec<(u32, u32)>,
}

impl BigramCounts {
    /// Counts the text of weighted data sets, with pairs up to this distance, and at most about 67 million tokens.
    /// `on_share` receives the fraction that has been counted.
    ///
    /// # Errors
    /// Fails when a stop is requested, or when a shard cannot be read.
    ///
    /// # Panics
    /// Panics if there is no data set.
    pub(crate) fn from_data(
        sets: &[(DataSet, f64)],
        distance: usize,
        stop: &StopFlag,
        on_share: &mut dyn FnMut(f64),
    ) -> Result<Self, Error> {
        let mut counts = Self::new(sets[0].0.vocabulary().len(), distance);
        let weights: f64 = sets.iter().map(|(_, weight)| weight).sum();
        let all: u64 = sets.iter().map(|(data, _)| tokens_of_text(data)).sum();
        let total = all.clamp(1, MAX_TOKENS);
        let mut finished = 0.0;
        for (data, weight) in sets {
            let wanted = total as f64 * weight / weights;
            // A small data set with a large weight counts several times.
            let times = (wanted / tokens_of_text(data).max(1) as f64).ceil().max(1.0);
            let limit = if sets.len() == 1 { MAX_TOKENS } else { (wanted / times).ceil() as u64 };
            let mut counted = 0;
            for_each_text(data, limit, &mut |text| {
                (0..times as u64).for_each(|_| counts.add(text));
                counted += text.len() as u64;
                let share = (counted as f64 * times / wanted).min(1.0) * weight / weights;
                on_share(finished + share);
                counted < limit && stop.requested().is_none()
            })?;
            finished += weight / weights;
            check_stop(stop)?;
        }
        Ok(counts)
    }

    /// Creates empty counts.
    pub(crate) fn new(vocabulary: usize, distance: usize) -> Self {
        Self { occurrences: vec![0; vocabulary], pairs: (0..distance).map(|_| Pairs::default()).collect() }
    }

    /// Adds the counts of one text.
    pub(crate) fn add(&mut self, text: &[u32]) {
        text.iter().for_each(|&id| self.occurrences[id as usize] += 1);
        for (distance, pairs) in (1..).zip(&mut self.pairs) {
            text.iter()
                .zip(text.iter().skip(distance))
                .for_each(|(&first, &second)| pairs.push(first, second));
        }
    }

    /// Returns the tokens at this offset from each neighbour: with -1 the neighbour is the previous token.
    ///
    /// # Panics
    /// Panics if pairs at that distance were not counted.
    pub(crate) fn side(&mut self, offset: i64) -> Side {
        let pairs = &mut self.pairs[offset.unsigned_abs() as usize - 1];
        pairs.merge();
        let entries = pairs.counted.iter().map(|&(first, second, count)| {
            if offset < 0 { (first, second, count) } else { (second, first, count) }
        });
        Side::new(self.occurrences.len(), entries)
    }

    /// Returns each token's share of the text, with add-one smoothing.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let total = self.occurrences.iter().sum::<u64>() + self.occurrences.len() as u64;
        self.occurrences.iter().map(|&count| (count + 1) as f64 / total as f64).collect()
    }
}

impl Side {
    /// Groups the entries (neighbour, token, count) by neighbour.
    fn new(vocabulary: usize, entries: impl Iterator<Item = (u32, u32, u32)> + Clone) -> Self {
        let mut starts = vec![0; vocabulary + 1];
        entries.clone().for_each(|(neighbour, ..)| starts[neighbour as usize + 1] += 1);
        for neighbour in 0..vocabulary {
            starts[neighbour + 1] += starts[neighbour];
        }
        let mut next = starts.clone();
        let mut tokens = vec![(0, 0); starts[vocabulary]];
        for (neighbour, token, count) in entries {
            let at = &mut next[neighbour as usize];
            tokens[*at] = (token, count);
            *at += 1;
        }
        Self { starts, tokens }
    }

    /// Returns the tokens of a neighbour, each with its count.
    pub(crate) fn tokens(&self, neighbour: usize) -> &[(u32, u32)] {
        &self.tokens[self.starts[neighbour]..self.starts[neighbour + 1]]
    }
}

/// Pairs of tokens at one distance.
#[derive(Default)]
struct Pairs {
    new: Chunk,
    counted: Counted,
    /// The merge of a full chunk on another thread, while this one reads the text.
    merging: Option<JoinHandle<(Chunk, Counted)>>,
}

/// First and second token, in the order of the text.
type Chunk = Vec<(u32, u32)>;

/// First token, second token and count, in ascending order.
type Counted = Vec<(u32, u32, u32)>;

impl Pairs {
    fn push(&mut self, first: u32, second: u32) {
        if self.new.len() == CHUNK {
            self.merge_in_background();
        }
        self.new.push((first, second));
    }

    /// Merges the new pairs into the counted ones, on another thread if there are several.
    fn merge_in_background(&mut self) {
        if rayon::current_num_threads() == 1 {
            return self.merge();
        }
        let empty = self.finish_merging();
        let new = std::mem::replace(&mut self.new, empty);
        let counted = std::mem::take(&mut self.counted);
        self.merging = Some(std::thread::spawn(move || merged(new, counted)));
    }

    /// Merges the new pairs into the counted ones.
    fn merge(&mut self) {
        self.finish_merging();
        (self.new, self.counted) = merged(std::mem::take(&mut self.new), std::mem::take(&mut self.counted));
    }

    /// Waits for the merge on another thread; returns its empty chunk.
    fn finish_merging(&mut self) -> Chunk {
        let Some(merging) = self.merging.take() else { return Vec::new() };
        let (empty, counted) = merging.join().expect("merging does not panic");
        self.counted = counted;
        empty
    }
}

/// Sorts new pairs and merges them into the counted ones; returns the emptied chunk and the counts.
fn merged(mut new: Chunk, counted: Counted) -> (Chunk, Counted) {
    new.par_sort_unstable();
    let mut old = counted.into_iter().peekable();
    let mut merged = Vec::with_capacity(old.len());
    for run in new.chunk_by(|a, b| a == b) {
        let (first, second) = run[0];
        while let Some(before) = old.next_if(|&(a, b, _)| (a, b) < (first, second)) {
            merged.push(before);
        }
        let known = old.next_if(|&(a, b, _)| (a, b) == (first, second)).map_or(0, |(.., count)| count);
        merged.push((first, second, known.saturating_add(run.len() as u32)));
    }
    merged.extend(old);
    new.clear();
    (new, merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_add_up_in_order() {
        let mut pairs = Pairs::default();
        for chunk in [vec![(1, 0), (0, 1), (0, 1)], vec![(2, 2), (0, 1)], vec![], vec![(0, 0)]] {
            pairs.new = chunk;
            pairs.merge_in_background();
        }
        pairs.merge();
        assert_eq!(pairs.counted, [(0, 0, 1), (0, 1, 3), (1, 0, 1), (2, 2, 1)]);
        let side = Side::new(3, pairs.counted.iter().map(|&(first, second, count)| (second, first, count)));
        assert_eq!(side.tokens(0), [(0, 1), (1, 1)]);
        assert_eq!(side.tokens(1), [(0, 3)]);
        assert_eq!(side.tokens(2), [(2, 1)]);
    }
}
