//! A sum in a binary tree whose shape depends on the number of terms alone, computed from any runs of its terms.
//!
//! The tree over the terms `a..b` is the tree over the greatest power of two of them below `b - a`, plus the tree over
//! the rest. A node of it covers `2^level` terms and begins at a multiple of `2^level`. So any run of consecutive terms
//! consists of whole nodes: one if its length is a power of two and its start a multiple of it, otherwise at most
//! `2 log2(length)`. Ranks that each sum a run send their nodes, and the receiver finishes the same tree.

/// A sum of `2^level` terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node<T> {
    /// The first term.
    pub(crate) start: u64,
    pub(crate) level: u32,
    pub(crate) sum: T,
}

/// The sum of a run of terms, as nodes of the tree over all terms.
#[derive(Debug)]
pub(crate) struct TreeSum<T> {
    /// Nodes in the order of their starts. No two of them are the children of one node.
    nodes: Vec<Node<T>>,
}

impl<T> Default for TreeSum<T> {
    fn default() -> Self {
        Self { nodes: Vec::new() }
    }
}

impl<T> TreeSum<T> {
    /// Appends the node after the last one, and adds nodes that are children of one node.
    pub(crate) fn push(&mut self, mut node: Node<T>, mut add: impl FnMut(T, T) -> T) {
        while let Some(left) =
            self.nodes.pop_if(|left| left.level == node.level && left.start.is_multiple_of(2 << left.level))
        {
            debug_assert_eq!(left.start + (1 << left.level), node.start, "nodes follow each other");
            node = Node { start: left.start, level: left.level + 1, sum: add(left.sum, node.sum) };
        }
        self.nodes.push(node);
    }

    /// Returns the nodes of the run.
    pub(crate) fn into_nodes(self) -> Vec<Node<T>> {
        self.nodes
    }

    /// Returns the sum over all terms, if the run has all of them.
    pub(crate) fn total(self, mut add: impl FnMut(T, T) -> T) -> Option<T> {
        let sums = self.nodes.into_iter().rev().map(|node| node.sum);
        sums.reduce(|right, left| add(left, right))
    }
}

/// Returns the nodes of a run of terms, without sums.
pub(crate) fn nodes_of(run: std::ops::Range<u64>) -> Vec<Node<()>> {
    let mut sum = TreeSum::default();
    run.for_each(|start| sum.push(Node { start, level: 0, sum: () }, |(), ()| ()));
    sum.into_nodes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values whose sum depends on the order.
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
}
