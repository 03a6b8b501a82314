//! Sums the gradients of several micro-batches, and divides them among ranks.
//!
//! The terms are added in a binary tree whose shape depends only on their number. The sum can be computed
//! from any division of the terms into ranges.
//!
//! The tree over the terms `a..b` adds the tree over the first `p` terms and the tree over the rest, where
//! `p` is the greatest power of two below `b - a`. A node covers `2^level` terms and begins at a multiple of
//! `2^level`. Therefore, any range of terms consists of whole nodes: one node if the length of the range is a
//! power of two and its start is a multiple of the length, otherwise at most `2 log2(length)` nodes. Each
//! rank sums one range and sends its nodes, and the receiver completes the same tree.
//!
//! [`Layout`] divides the elements of a model's parameters among the ranks of a process group.
//!
//! The parameters form one sequence of elements, in the module's order. It is cut at multiples of 16,384 elements
//! inside each tensor and at the ends of the tensors, into *chunks*. Each rank owns consecutive chunks. Sums of squares
//! are computed per chunk, so no sum crosses from one owner to another.

use std::ops::Range;

use bert_kernels::adamw::CHUNK;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};

/// A flat gradient of each parameter, in the module's order; `None` if the parameter has no gradient.
pub(crate) type Tensors = Vec<Option<Tensor<1>>>;

/// Gradients summed over consecutive micro-batches of a step, in a binary tree whose shape depends only on the number
/// of micro-batches of the step.
///
/// For k micro-batches, at most `1 + log2(k)` sums are in memory at a time.
#[derive(Debug, Default)]
pub(crate) struct GradientSum {
    tree: TreeSum<Tensors>,
    /// Number of the next micro-batch in the step.
    next: u64,
}

impl GradientSum {
    /// Creates an empty sum, whose first term will be the gradients of micro-batch `first`.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self { next: first, ..Self::default() }
    }

    /// Adds the gradients of one micro-batch, which may come in parts.
    pub(crate) fn add<M: Module>(&mut self, module: &M, parts: impl IntoIterator<Item = Gradients>) {
        let collected = parts.into_iter().map(|mut gradients| {
            let mut collect = Collect { tensors: Vec::new(), gradients: &mut gradients };
            module.visit(&mut collect);
            collect.tensors
        });
        let sum = collected.reduce(added).unwrap_or_default();
        self.tree.push(Node { start: self.next, level: 0, sum }, added);
        self.next += 1;
    }

    /// Returns the sum over all micro-batches of the step, which must all have been added.
    pub(crate) fn total(self) -> Tensors {
        self.tree.total(added).unwrap_or_default()
    }

    /// Returns the nodes of the tree for these micro-batches.
    pub(crate) fn into_nodes(self) -> Vec<Node<Tensors>> {
        self.tree.into_nodes()
    }
}

/// Adds two sets of gradients, parameter by parameter.
fn added(left: Tensors, right: Tensors) -> Tensors {
    let pairs = left.into_iter().zip(right);
    let sum = |pair| match pair {
        (Some(left), Some(right)) => Some(left + right),
        (left, right) => left.or(right),
    };
    pairs.map(sum).collect()
}

struct Collect<'a> {
    tensors: Tensors,
    gradients: &'a mut Gradients,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad_remove(self.gradients);
        self.tensors.push(gradient.map(|gradient| gradient.reshape([-1])));
    }
}

/// A sum of `2^level` terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node<T> {
    /// Index of the first term of the sum.
    pub(crate) start: u64,
    pub(crate) level: u32,
    pub(crate) sum: T,
}

/// The sum of a range of terms, as nodes of the tree over all terms.
#[derive(Debug)]
pub(crate) struct TreeSum<T> {
    /// Nodes in the order of their starts. No two of them are siblings.
    nodes: Vec<Node<T>>,
}

impl<T> Default for TreeSum<T> {
    fn default() -> Self {
        Self { nodes: Vec::new() }
    }
}

impl<T> TreeSum<T> {
    /// Appends a node after the last one, and merges siblings into their parent while there are any.
    pub(crate) fn push(&mut self, mut node: Node<T>, mut add: impl FnMut(T, T) -> T) {
        while let Some(left) =
            self.nodes.pop_if(|left| left.level == node.level && left.start.is_multiple_of(2 << left.level))
        {
            debug_assert_eq!(left.start + (1 << left.level), node.start, "nodes follow each other");
            node = Node { start: left.start, level: left.level + 1, sum: add(left.sum, node.sum) };
        }
        self.nodes.push(node);
    }

    /// Returns the nodes of the range.
    pub(crate) fn into_nodes(self) -> Vec<Node<T>> {
        self.nodes
    }

    /// Returns the sum over all terms; `None` if there are no terms. The range must contain all terms of the tree.
    pub(crate) fn total(self, mut add: impl FnMut(T, T) -> T) -> Option<T> {
        let sums = self.nodes.into_iter().rev().map(|node| node.sum);
        sums.reduce(|right, left| add(left, right))
    }
}

/// Returns the nodes of a range of terms, without sums.
pub(crate) fn nodes_of(run: std::ops::Range<u64>) -> Vec<Node<()>> {
    let mut sum = TreeSum::default();
    run.for_each(|start| sum.push(Node { start, level: 0, sum: () }, |(), ()| ()));
    sum.into_nodes()
}

/// The elements of a tensor that a rank owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Index of the tensor in the module's order.
    pub(crate) tensor: usize,
    /// The elements of the tensor.
    pub(crate) range: Range<usize>,
}

/// Returns each segment with its values. `values` has the values of all segments, one after another.
pub(crate) fn with_values<'a>(
    segments: &'a [Segment],
    mut values: &'a [f32],
) -> impl Iterator<Item = (&'a Segment, &'a [f32])> {
    segments.iter().map(move |segment| {
        (segment, values.split_off(..segment.range.len()).expect("values of all segments"))
    })
}

/// Returns each segment with its mutable values, like [`with_values`].
pub(crate) fn with_values_mut<'a, 'v>(
    segments: &'a [Segment],
    mut values: &'v mut [f32],
) -> impl Iterator<Item = (&'a Segment, &'v mut [f32])> {
    segments.iter().map(move |segment| {
        (segment, values.split_off_mut(..segment.range.len()).expect("values of all segments"))
    })
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
    /// Divides tensors of these lengths among `ranks` ranks. The elements are divided into equal parts, and a rank owns
    /// the chunks whose middle is in its part. Therefore, a rank owns at most one chunk more than its part.
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

    /// Returns one list for each tensor, with one value for each chunk of the tensor. `chunks` yields the values of all
    /// chunks in the order of the elements, which is also the order of the ranks.
    pub(crate) fn by_tensor<T>(&self, mut chunks: impl Iterator<Item = T>) -> Vec<Vec<T>> {
        let count = |length: &usize| length.div_ceil(CHUNK);
        self.lengths.iter().map(|length| chunks.by_ref().take(count(length)).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use bert_random::{Domain, Random, Stream};

    use super::*;

    /// Returns term `index`. The sum of these terms depends on the order of the additions.
    fn term(index: u64) -> f32 {
        [1e8, 1.0, -1e8, 0.1, 3e7, -2.5][index as usize % 6] * (1.0 + index as f32 / 7.0)
    }

    fn recursive(run: std::ops::Range<u64>) -> f32 {
        match run.end - run.start {
            1 => term(run.start),
            n => {
                let middle = run.start + n.next_power_of_two() / 2;
                recursive(run.start..middle) + recursive(middle..run.end)
            }
        }
    }

    fn sum_of(run: std::ops::Range<u64>) -> TreeSum<f32> {
        let mut sum = TreeSum::default();
        run.for_each(|start| sum.push(Node { start, level: 0, sum: term(start) }, |a, b| a + b));
        sum
    }

    #[test]
    fn any_number_of_ranks_gives_the_recursive_sum() {
        for terms in 1..=33 {
            let expected = recursive(0..terms);
            for ranks in (1..=terms).filter(|ranks| terms % ranks == 0) {
                let each = terms / ranks;
                let mut all = TreeSum::default();
                for rank in 0..ranks {
                    let nodes = sum_of(rank * each..(rank + 1) * each).into_nodes();
                    let most = if each.is_power_of_two() { 1 } else { 2 * each.ilog2() as usize };
                    assert!(nodes.len() <= most, "{terms} terms, {ranks} ranks: {} nodes", nodes.len());
                    nodes.into_iter().for_each(|node| all.push(node, |a, b| a + b));
                }
                let total = all.total(|a, b| a + b).unwrap();
                assert_eq!(total.to_bits(), expected.to_bits(), "{terms} terms, {ranks} ranks");
            }
        }
    }

    #[test]
    fn nodes_are_aligned() {
        let nodes = |run| nodes_of(run).iter().map(|node| (node.start, node.level)).collect::<Vec<_>>();
        assert_eq!(nodes(0..3), [(0, 1), (2, 0)]);
        assert_eq!(nodes(3..6), [(3, 0), (4, 1)]);
        assert_eq!(nodes(8..16), [(8, 3)]);
        assert_eq!(nodes(4..4), []);
    }

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
