//! Converts burn's tensors to the tensors of a backend and back, and records fused operations for autodiff.
//!
//! An operation implements [`Fused`] once, for N inputs, with its own backward pass; [`apply`] runs it and
//! decides whether to record a graph. burn's `#[backend_extension]` dispatches on the run-time backend in the
//! same way, but it panics on a backend without an implementation. On such a backend, the functions in `ops`
//! use burn's own operations instead.

use std::fmt::Debug;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, Backend, BackendTensor, BackendTypes, DispatchAutodiffContext, DispatchTensorKind, Flex,
    GradientCheckpointingStrategy,
};
use burn::tensor::{DType, Tensor};

use crate::arguments::{Compute, Kernels, Precision};
use crate::matmul::has_bf16_instructions;

/// `Flex` with autodiff.
type Graph = Autodiff<Flex>;

/// The backend of a tensor, which decides whether the fused kernels can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorBackend {
    /// An f32 tensor on `Flex`.
    Flex,
    /// An f32 tensor on `Flex` with autodiff, without gradient checkpointing.
    FlexAutodiff,
    /// Any other tensor.
    Other,
}

/// A tensor of any rank.
pub(crate) trait OnBackend {
    /// Returns the backend of the tensor.
    fn backend(&self) -> TensorBackend;
}

impl<const D: usize> OnBackend for Tensor<D> {
    fn backend(&self) -> TensorBackend {
        if self.dtype() != DType::F32 {
            return TensorBackend::Other;
        }
        let x = self.clone().into_dispatch();
        match (&x.kind, x.autodiff) {
            (DispatchTensorKind::Flex(BackendTensor::Float(_)), DispatchAutodiffContext::Disabled) => {
                TensorBackend::Flex
            }
            (
                DispatchTensorKind::Autodiff(inner),
                DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Disabled),
            ) => match inner.as_ref() {
                DispatchTensorKind::Flex(BackendTensor::Autodiff(_)) => TensorBackend::FlexAutodiff,
                _ => TensorBackend::Other,
            },
            _ => TensorBackend::Other,
        }
    }
}

/// Returns whether `x` is on `Flex`, with or without autodiff and with any dtype.
pub(crate) fn on_flex<const D: usize>(x: &Tensor<D>) -> bool {
    let kind = match x.clone().into_dispatch().kind {
        DispatchTensorKind::Autodiff(inner) => *inner,
        kind => kind,
    };
    matches!(kind, DispatchTensorKind::Flex(_))
}

/// Returns the backend on which the fused kernel runs for these inputs, or `None` if burn's own operations
/// have to run.
pub(crate) fn fused_path(compute: Compute, inputs: &[&dyn OnBackend]) -> Option<TensorBackend> {
    let no_products = compute.precision == Precision::Bf16 && !has_bf16_instructions();
    if compute.kernels == Kernels::Plain || no_products {
        return None;
    }
    let mut path = TensorBackend::Flex;
    for input in inputs {
        match input.backend() {
            TensorBackend::Flex => {}
            TensorBackend::FlexAutodiff => path = TensorBackend::FlexAutodiff,
            TensorBackend::Other => return None,
        }
    }
    Some(path)
}

/// An input of a fused operation.
#[derive(Clone)]
pub(crate) enum Input<B: Backend = Flex> {
    /// A plain tensor.
    Plain(FloatTensor<B>),
    /// A tensor with its node in an autodiff graph.
    Graph(FloatTensor<Autodiff<B>>),
}

impl<const D: usize> From<Tensor<D>> for Input {
    fn from(x: Tensor<D>) -> Self {
        let x = x.into_dispatch();
        match x.kind {
            DispatchTensorKind::Flex(BackendTensor::Float(x)) => Self::Plain(x),
            DispatchTensorKind::Autodiff(inner) => match *inner {
                DispatchTensorKind::Flex(BackendTensor::Autodiff(x)) => Self::Graph(x),
                _ => unreachable!("fused_path admits Flex only"),
            },
            _ => unreachable!("fused_path admits Flex only"),
        }
    }
}

impl<B: Backend> Input<B> {
    pub(crate) fn into_primitive(self) -> FloatTensor<B> {
        match self {
            Self::Plain(x) => x,
            Self::Graph(x) => x.into_primitive(),
        }
    }

    pub(crate) fn into_graph(self) -> FloatTensor<Autodiff<B>> {
        match self {
            Self::Plain(x) => FloatTensor::<Autodiff<B>>::new(x),
            Self::Graph(x) => x,
        }
    }
}

/// A fused operation on N float tensors of a backend, with its own backward pass.
pub(crate) trait Fused<const N: usize, B: BackendTypes = Flex>: Debug + Send + 'static {
    /// Values that the forward pass saves for the backward pass.
    type Saved: Clone + Debug + Send + 'static;

    /// Whether the backward pass adds to the first input's existing gradient with
    /// [`Fused::backward_accumulate`].
    const ACCUMULATES: bool = false;

    /// Returns the output and the saved values, which are dropped if no input is tracked.
    fn forward(&self, inputs: [FloatTensor<B>; N]) -> (FloatTensor<B>, Self::Saved);

    /// Returns only the output, for a call without a backward pass.
    fn value(&self, inputs: [FloatTensor<B>; N]) -> FloatTensor<B> {
        self.forward(inputs).0
    }

    /// Returns the gradients of the inputs that are `wanted`. Every operation implements this function, or
    /// [`Fused::backward_accumulate`] if it has [`Fused::ACCUMULATES`].
    fn backward(
        self,
        saved: Self::Saved,
        gradient: FloatTensor<B>,
        wanted: [bool; N],
    ) -> [Option<FloatTensor<B>>; N]
    where
        Self: Sized,
    {
        self.backward_accumulate(saved, gradient, wanted, None)
    }

    /// Computes [`Fused::backward`] for an operation with [`Fused::ACCUMULATES`]. `existing` is the first
    /// input's gradient from other operations. The operation adds its own gradient and returns the sum. Thus,
    /// a table that is used twice needs memory for one gradient. Otherwise it would need memory for three:
    /// two gradients and their sum.
    fn backward_accumulate(
        self,
        saved: Self::Saved,
        gradient: FloatTensor<B>,
        wanted: [bool; N],
        existing: Option<FloatTensor<B>>,
    ) -> [Option<FloatTensor<B>>; N]
    where
        Self: Sized,
    {
        debug_assert!(existing.is_none(), "only an operation with ACCUMULATES gets a gradient");
        self.backward(saved, gradient, wanted)
    }
}

/// The node of a fused operation in the graph.
#[derive(Debug)]
struct Node<F, B: Backend> {
    operation: F,
    /// The first input, which is the key of its existing gradient; `None` unless the operation accumulates.
    first: Option<FloatTensor<Autodiff<B>>>,
}

impl<F: Fused<N, B>, B: Backend, const N: usize> Backward<B, N> for Node<F, B> {
    type State = F::Saved;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let existing = self.first.and_then(|first| grads.remove::<B>(&first));
        let gradients = self.operation.backward_accumulate(ops.state, gradient, wanted, existing);
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// Runs a fused operation and returns its output; records a graph on [`TensorBackend::FlexAutodiff`].
pub(crate) fn apply<F: Fused<N>, const N: usize, const D: usize>(
    operation: F,
    path: TensorBackend,
    inputs: [Input; N],
) -> Tensor<D> {
    apply_or(operation, path, inputs, F::value)
}

/// Runs [`apply`] with the function `value` instead of [`Fused::value`].
pub(crate) fn apply_or<F: Fused<N>, const N: usize, const D: usize>(
    operation: F,
    path: TensorBackend,
    inputs: [Input; N],
    value: impl FnOnce(&F, [FloatTensor<Flex>; N]) -> FloatTensor<Flex>,
) -> Tensor<D> {
    if path == TensorBackend::Flex {
        return Tensor::from_primitive::<Flex>(value(&operation, inputs.map(Input::into_primitive)));
    }
    Tensor::from_primitive::<Graph>(record(operation, inputs.map(Input::into_graph)))
}

/// Runs a fused operation and records it in the graph of its inputs.
pub(crate) fn record<F: Fused<N, B>, B: Backend, const N: usize>(
    operation: F,
    inputs: [FloatTensor<Autodiff<B>>; N],
) -> FloatTensor<Autodiff<B>> {
    let mut guards = Vec::with_capacity(N);
    let mut first = None;
    let inputs = inputs.map(|input| {
        if F::ACCUMULATES && guards.is_empty() {
            first = Some(input.clone());
        }
        let (primitive, guard) = input.into_parts();
        guards.push(guard);
        primitive
    });
    let guards: [_; N] = guards.try_into().expect("one guard per input");
    let (output, saved) = operation.forward(inputs);
    let node = Node { operation, first };
    let prepared = node.prepare::<NoCheckpointing>(guards).compute_bound().stateful();
    match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(saved, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}
