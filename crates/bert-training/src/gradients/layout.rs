//! Divides the elements of a model's parameters among the ranks of a process group.
//!
//! The parameters form one sequence of elements, in the module's order. It is cut at multiples of 16,384 elements inside
//! each tensor and at the ends of the tensors, into *chunks*. Each rank owns consecutive chunks. Sums of squares are
//! computed per chunk, so no sum crosses from one owner to another.

use std::ops::Range;

use bert_kernels::adamw::CHUNK;

/// The elements of a tensor that a rank owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Number of the tensor.
    pub(crate) tensor: usize,
    /// The elements of the tensor.
    pub(crate) range: Range<usize>,
}

/// The owners of all parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Number of elements of each tensor.
    lengths: Vec<usize>,
    /// The segments of each rank, in order.
    segments: Vec<Vec<Segment>>,
}

impl Layout {
    /// Divides tensors of these lengths among `ranks` ranks. The owner of a chunk is the rank in whose part of all
    /// elements the middle of the chunk is, so a rank owns at most one chunk more than its part.
    pub(crate) fn new(lengths: Vec<usize>, ranks: usize) -> Self {
        let all = lengths.iter().sum::<usize>() as u128;
        let mut segments: Vec<Vec<Segment>> = vec![Vec::new(); ranks];
        let mut before = 0;
        for (tensor, &length) in lengths.iter().enumerate() {
            for start in (0..length).step_by(CHUNK) {
                let end = length.min(start + CHUNK);
                let twice_middle = (2 * before + start + end) as u128;
                let owner = (twice_middle * ranks as u128 / (2 * all)) as usize;
                match segments[owner].last_mut() {
                    Some(last) if last.tensor == tensor => last.range.end = end,
                    _ => segments[owner].push(Segment { tensor, range: start..end }),
                }
            }
            before += length;
        }
        Self { lengths, segments }
    }

    /// Returns the number of elements of each tensor.
    pub(crate) fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Returns the segments of a rank, in order; at most one of each tensor.
    pub(crate) fn segments(&self, rank: usize) -> &[Segment] {
        &self.segments[rank]
    }

    /// Returns the number of elements that a rank owns.
    pub(crate) fn elements(&self, rank: usize) -> usize {
        self.segments[rank].iter().map(|segment| segment.range.len()).sum()
    }

    /// Returns the number of chunks that a rank owns.
    pub(crate) fn chunks(&self, rank: usize) -> usize {
        self.segments[rank].iter().map(|segment| segment.range.len().div_ceil(CHUNK)).sum()
    }

    /// Returns, for each tensor, one value per chunk, from the values of all ranks in order.
    pub(crate) fn by_tensor<T>(&self, mut chunks: impl Iterator<Item = T>) -> Vec<Vec<T>> {
        let count = |length: &usize| length.div_ceil(CHUNK);
        self.lengths.iter().map(|length| chunks.by_ref().take(count(length)).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use bert_random::{Domain, Random, Stream};

    use super::*;

    fn check(lengths: Vec<usize>, ranks: usize) {
        let layout = Layout::new(lengths.clone(), ranks);
        let what = format!("{lengths:?} on {ranks} ranks");
        let mut next = vec![0; lengths.len()];
        let all = lengths.iter().sum::<usize>();
        let mut at = 0;
        let mut before = 0;
        for rank in 0..ranks {
            for Segment { tensor, range } in layout.segments(rank) {
                assert!(*tensor >= at && range.start == next[*tensor] && !range.is_empty(), "{what}");
                let is_end = range.end == lengths[*tensor];
                assert!(range.start % CHUNK == 0 && (range.end % CHUNK == 0 || is_end), "{what}");
                (at, next[*tensor]) = (*tensor, range.end);
            }
            before += layout.elements(rank);
            let part = (all * (rank + 1)) as f64 / ranks as f64;
            assert!((before as f64 - part).abs() <= CHUNK as f64 / 2.0 + 1.0, "{what}: {before}, {part}");
        }
        assert_eq!(next, lengths, "{what}: every element has one owner");
        let chunks = (0..ranks).map(|rank| layout.chunks(rank)).sum::<usize>();
        let by_tensor = layout.by_tensor(0..chunks);
        assert_eq!(by_tensor.concat(), (0..chunks).collect::<Vec<_>>(), "{what}");
    }

    #[test]
    fn every_element_has_one_owner() {
        let mut random = Stream::new(1, Domain::Test, &[]);
        for case in 0..2000 {
            let most = [3, 100, CHUNK + 2, 1_000_000][case % 4];
            let lengths = (0..random.below(60) + 1).map(|_| 1 + random.below(most)).collect();
            check(lengths, 1 + random.below(64));
        }
        check(vec![1], 64);
        check(vec![CHUNK; 8], 8);
    }

    #[test]
    fn ranks_without_chunks_are_empty() {
        let layout = Layout::new(vec![5, 6], 8);
        assert_eq!((0..8).filter(|&rank| layout.segments(rank).is_empty()).count(), 6);
        let alone = Layout::new(vec![CHUNK * 3, 7], 1);
        assert_eq!(alone.segments(0)[0], Segment { tensor: 0, range: 0..3 * CHUNK });
    }
}
