//! Which shard and bucket a row goes to: a pure function of the seed and the row's number.
//!
//! In goes the number of a row in the order in which rows are made, out comes its slot. Of each `num_shards` consecutive
//! rows every shard gets one, in random order, so that shards are balanced to one row; within its shard a row goes to a
//! random bucket. Each bucket is shuffled later (`shards`): random buckets, each shuffled, one after another, are a
//! uniformly random order. The reference writes round-robin after a shuffle of everything in memory.

use crate::rng::{Domain, Random, Stream};

/// Rows for which draws are made at a time, at least.
const BLOCK: usize = 64;

/// The slots of rows; best asked in the order of the rows.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    stem: Stream,
    shards: usize,
    buckets_per_shard: usize,
    block: u64,
    slots: Vec<u32>,
}

impl Slots {
    pub(crate) fn new(seed: u64, shards: usize, buckets_per_shard: usize) -> Self {
        let stem = Stream::new(seed, Domain::RowSlots, &[]);
        let mut slots = Self { stem, shards, buckets_per_shard, block: 0, slots: Vec::new() };
        slots.draw(0);
        slots
    }

    fn draw(&mut self, block: u64) {
        let mut draws = self.stem.branch(block);
        let rounds = BLOCK.div_ceil(self.shards);
        self.block = block;
        self.slots.clear();
        for _ in 0..rounds {
            let first = self.slots.len();
            self.slots.extend(0..self.shards as u32);
            draws.shuffle(&mut self.slots[first..]);
            for slot in &mut self.slots[first..] {
                let bucket = if self.buckets_per_shard > 1 { draws.below(self.buckets_per_shard) } else { 0 };
                *slot = *slot * self.buckets_per_shard as u32 + bucket as u32;
            }
        }
    }

    pub(crate) fn slot(&mut self, row: u64) -> u32 {
        let length = self.slots.len() as u64;
        let (block, place) = (row / length, row % length);
        if block != self.block {
            self.draw(block);
        }
        self.slots[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_balanced_and_depend_on_the_row_alone() {
        for (shards, buckets) in [(1, 1), (1, 5), (3, 4), (100, 2)] {
            let mut slots = Slots::new(7, shards, buckets);
            let all: Vec<u32> = (0..10_000).map(|row| slots.slot(row)).collect();
            for row in [9_999, 0, 5_000, 4_999, 63, 64] {
                assert_eq!(slots.slot(row), all[row as usize]);
            }
            let mut counts = vec![0u32; shards];
            let mut in_buckets = vec![0f64; shards * buckets];
            for slot in &all {
                counts[*slot as usize / buckets] += 1;
                in_buckets[*slot as usize] += 1.0;
            }
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
            let (p, n) = (1.0 / buckets as f64, 10_000.0 / shards as f64);
            // 5 sigma of a binomial, and a row for the rest of the division.
            let bound = 5.0 * (n * p * (1.0 - p)).sqrt() + 1.0;
            assert!(in_buckets.iter().all(|count| (count - n * p).abs() <= bound), "{in_buckets:?}");
        }
    }
}
