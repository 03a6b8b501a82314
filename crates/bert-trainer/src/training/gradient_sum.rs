//! The sum of the gradients of several micro-batches.

use bert_kernels::{Compute, adamw};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};

/// Gradients summed over the micro-batches of a step, in a binary tree whose shape depends only on their number.
///
/// An aligned range of micro-batches, for example 4 to 7, can be summed separately without changing a bit of the total.
/// For k micro-batches, at most `1 + log2(k)` sums are in memory at a time.
#[derive(Debug, Default)]
pub(crate) struct GradientSum {
    /// Sums of 2^level micro-batches each, in descending order of level.
    pub(super) subtrees: Vec<(u32, Vec<Option<Tensor<1>>>)>,
}

impl GradientSum {
    /// Adds the gradients of one micro-batch, which may come in parts.
    pub(crate) fn add<M: Module>(&mut self, module: &M, parts: impl IntoIterator<Item = Gradients>) {
        let collected = parts.into_iter().map(|mut gradients| {
            let mut collect = Collect { tensors: Vec::new(), gradients: &mut gradients };
            module.visit(&mut collect);
            collect.tensors
        });
        let (mut level, mut tensors) = (0, collected.reduce(added).unwrap_or_default());
        while let Some((_, left)) = self.subtrees.pop_if(|(of, _)| *of == level) {
            (level, tensors) = (level + 1, added(left, tensors));
        }
        self.subtrees.push((level, tensors));
    }

    /// Returns the sum over all micro-batches.
    pub(crate) fn total(self) -> StepGradients {
        let sums = self.subtrees.into_iter().rev().map(|(_, tensors)| tensors);
        StepGradients { tensors: sums.reduce(|right, left| added(left, right)).unwrap_or_default() }
    }
}

/// Adds two sets of gradients, parameter by parameter.
pub(crate) fn added(left: Vec<Option<Tensor<1>>>, right: Vec<Option<Tensor<1>>>) -> Vec<Option<Tensor<1>>> {
    let pairs = left.into_iter().zip(right);
    let sum = |pair| match pair {
        (Some(left), Some(right)) => Some(left + right),
        (left, right) => left.or(right),
    };
    pairs.map(sum).collect()
}

/// Gradients of one step: one flat tensor per parameter, in the module's order.
#[derive(Debug)]
pub(crate) struct StepGradients {
    pub(super) tensors: Vec<Option<Tensor<1>>>,
}

impl StepGradients {
    /// Returns the Euclidean norm over all gradients.
    pub(crate) fn norm(&self, compute: Compute) -> f64 {
        let tensors: Vec<Tensor<1>> = self.tensors.iter().flatten().cloned().collect();
        adamw::squared_norm(compute, &tensors).sqrt()
    }
}

pub(crate) struct Collect<'a> {
    pub(super) tensors: Vec<Option<Tensor<1>>>,
    gradients: &'a mut Gradients,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad_remove(self.gradients);
        self.tensors.push(gradient.map(|gradient| gradient.reshape([-1])));
    }
}
