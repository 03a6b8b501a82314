//! The sum of the gradients of several micro-batches.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};

use crate::gradients::tree_sum::{Node, TreeSum};

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
    /// Creates the sum of no gradients, of which the first will be the gradients of micro-batch `first`.
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

    /// Returns the sum over all micro-batches of the step.
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
