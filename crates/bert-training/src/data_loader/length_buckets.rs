//! Groups rows of similar length into batches, to reduce padding.
//!
//! The rows of a shard arrive in the random order of an epoch. This module reorders them so that all rows of
//! a batch belong to one length bucket. The remaining rows of the buckets fill the batches at the shard's
//! boundaries. The order is still a pure function of (seed, epoch, shard, batch size). The caller chooses the
//! number of buckets. Without buckets, 8 % of the tokens are padding at a maximum length of 128, and 21 to 50
//! % at 512.

use bert_random::{Random, Stream};

/// Length ranges of equal size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LengthBuckets {
    pub(super) count: usize,
    pub(super) batch_size: usize,
    /// Maximum length of a row.
    pub(super) longest: usize,
}

impl LengthBuckets {
    /// Returns the bucket of a length, from 0.
    fn bucket(&self, length: usize) -> usize {
        (length.max(1) * self.count).div_ceil(self.longest).min(self.count) - 1
    }

    /// Returns the length that rows up to `length` are padded to: the maximum of its bucket.
    pub(crate) fn padded(&self, length: usize) -> usize {
        (self.longest * (self.bucket(length) + 1) / self.count).max(length)
    }

    /// Returns the order of a shard's rows; `first` is the number of its first sample in the run.
    pub(super) fn order(
        &self,
        rows: Vec<u32>,
        length: impl Fn(u32) -> usize,
        first: u64,
        random: &mut Stream,
    ) -> Vec<u32> {
        let mut buckets = vec![Vec::new(); self.count];
        for row in rows {
            buckets[self.bucket(length(row))].push(row);
        }
        let mut batches = Vec::new();
        let mut left = Vec::new();
        for bucket in &buckets {
            let whole = bucket.chunks_exact(self.batch_size);
            left.extend_from_slice(whole.remainder());
            batches.extend(whole);
        }
        random.shuffle(&mut batches);
        // The first rows complete the batch that the previous shard began.
        let open = (first.next_multiple_of(self.batch_size as u64) - first) as usize;
        while left.len() < open
            && let Some(batch) = batches.pop()
        {
            left.extend_from_slice(batch);
        }
        let (head, tail) = left.split_at(open.min(left.len()));
        [head, &batches.concat(), tail].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bert_random::Domain;

    #[test]
    fn order_keeps_every_row_once() {
        let buckets = LengthBuckets { count: 4, batch_size: 8, longest: 30 };
        let length = |row: u32| 1 + (row as usize * 7) % 30;
        for first in [0, 5, 8, 1000, 1003] {
            let mut random = Stream::new(1, Domain::Test, &[first]);
            let mut order = buckets.order((0..203).collect(), length, first, &mut random);
            let open = (8 - first as usize % 8) % 8;
            let mixed = order[open..].chunks_exact(8).filter(|batch| {
                batch.iter().any(|&row| buckets.bucket(length(row)) != buckets.bucket(length(batch[0])))
            });
            // Each of the four buckets has less than a batch of remaining rows, and the open batch takes from these.
            assert!(mixed.count() <= 4, "{first}");
            order.sort_unstable();
            assert!(order.into_iter().eq(0..203));
        }
        // The shard has fewer rows than the open batch needs.
        let mut random = Stream::new(1, Domain::Test, &[]);
        assert_eq!(buckets.order(vec![2, 0, 1], length, 1, &mut random).len(), 3);
    }

    #[test]
    fn padding_ends_at_the_bucket() {
        let buckets = LengthBuckets { count: 4, batch_size: 8, longest: 128 };
        for (length, padded) in [(1, 32), (32, 32), (33, 64), (96, 96), (97, 128), (128, 128)] {
            assert_eq!(buckets.padded(length), padded, "{length}");
        }
        let uneven = LengthBuckets { longest: 30, ..buckets };
        assert!((1..=30).all(|length| (length..=30).contains(&uneven.padded(length))));
    }
}
