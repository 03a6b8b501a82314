//! Orders the shards of an epoch, and finds the shard and row of a position in the epoch.
//!
//! The order is a permutation of the shards keyed by (seed, epoch). The number of rows before each shard is known,
//! so a binary search finds a position.

use bert_random::{Domain, Random, Stream};

/// The shards of one epoch in their order.
#[derive(Clone, Debug)]
pub struct ShardOrder {
    /// The shards.
    shards: Vec<usize>,
    /// How many rows of the epoch are before each of them.
    starts: Vec<u64>,
}

impl ShardOrder {
    /// The order of an epoch of shards with so many rows.
    pub fn new(rows: impl Iterator<Item = u64>, seed: u64, epoch: u64) -> Self {
        let rows: Vec<u64> = rows.collect();
        let mut shards: Vec<usize> = (0..rows.len()).collect();
        Stream::new(seed, Domain::LoaderShards, &[epoch]).shuffle(&mut shards);
        let mut before = 0;
        let start = |&shard: &usize| {
            before += rows[shard];
            before - rows[shard]
        };
        Self { starts: shards.iter().map(start).collect(), shards }
    }

    /// The shard of a position in the epoch, and the position in the shard's own order.
    ///
    /// # Panics
    /// When there is no shard.
    pub fn find(&self, position: u64) -> (usize, u64) {
        // Of shards without rows, which begin where the next one does, the last is taken.
        let at = self.starts.partition_point(|&start| start <= position) - 1;
        (self.shards[at], position - self.starts[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_position() {
        let rows = [3u64, 0, 5, 1, 0, 7];
        let order = ShardOrder::new(rows.iter().copied(), 7, 2);
        let mut seen: Vec<(usize, u64)> = (0..16).map(|position| order.find(position)).collect();
        let shards: Vec<usize> = seen.chunk_by(|a, b| a.0 == b.0).map(|rows| rows[0].0).collect();
        assert_eq!(shards.len(), 4, "shard after shard: {shards:?}");
        seen.sort_unstable();
        let all = rows.iter().enumerate().flat_map(|(shard, &rows)| (0..rows).map(move |row| (shard, row)));
        assert!(seen.into_iter().eq(all));
        assert_ne!(
            ShardOrder::new([1; 50].into_iter(), 7, 0).shards,
            ShardOrder::new([1; 50].into_iter(), 7, 1).shards
        );
    }
}
