//! Synchronizes the ranks at the start and at the end of a step.
//!
//! Sends each owner its part of all gradients. The owner adds the parts in the tree of all micro-batches.
//!
//! Copies weights between the ranks: each owner sends its elements to all others, or rank 0 sends the whole model.

use bert_inference::checkpoint::LoaderPosition;
use bert_kernels::host_values;
use bert_storage::Class;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Error;
use crate::gradients::gradient_sum::{
    GradientSum, Layout, Node, Segment, Tensors, TreeSum, nodes_of, with_values, with_values_mut,
};
use crate::group::Group;
use crate::group::message::{Message, words_of_floats};
use crate::optimizer::StepGradients;

/// Number of steps between two comparisons of the weights.
const DIGEST_INTERVAL: u64 = 100;

/// The totals of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchTotals {
    /// Number of masked-LM targets.
    pub(crate) targets: usize,
    /// Number of tokens of the longest sequence.
    pub(crate) longest: usize,
}

/// Requests after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    /// The signal that requests a stop.
    pub(crate) signal: Option<i32>,
    /// Whether a checkpoint is requested.
    pub(crate) checkpoint: bool,
    /// The position of the last sample in the data.
    pub(crate) position: Option<LoaderPosition>,
}

impl Group {
    /// Sets the number of finished steps of a run that is continued.
    pub(crate) fn continue_after(&mut self, step: u64) {
        self.step = step;
    }

    /// Counts a finished step.
    pub(crate) fn count_step(&mut self) {
        self.step += 1;
        self.steps_here += 1;
    }

    /// Returns the totals of the whole batch of the next step, from the totals of each rank's rows. Every 100 steps,
    /// and before the first step of a process, the digests of the weights are compared.
    ///
    /// # Errors
    /// Fails when the weights of the ranks differ. Also fails as [`Group::gather`] does.
    pub(crate) fn start_step(
        &mut self,
        own: BatchTotals,
        digest: impl FnOnce() -> blake3::Hash,
    ) -> Result<BatchTotals, Error> {
        if self.is_alone() {
            return Ok(own);
        }
        let compares = self.steps_here == 0 || self.step.is_multiple_of(DIGEST_INTERVAL);
        let digest = if compares { *digest().as_bytes() } else { [0; 32] };
        let digest = digest.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let own = [own.targets as u64, own.longest as u64].into_iter().chain(digest).collect();
        let all = self.gather(own, |_| 6)?;
        self.check_digests(&all.iter().map(|words| &words[2..]).collect::<Vec<_>>())?;
        Ok(BatchTotals {
            targets: all.iter().map(|words| words[0] as usize).sum(),
            longest: all.iter().map(|words| words[1] as usize).max().unwrap_or(0),
        })
    }

    /// Compares the digests of all ranks. The error names the ranks that differ from the majority, or all ranks if
    /// there is no majority.
    ///
    /// # Errors
    /// Fails when the weights of the ranks differ.
    fn check_digests(&self, digests: &[&[u64]]) -> Result<(), Error> {
        let count = |digest: &&[u64]| digests.iter().filter(|other| *other == digest).count();
        let most = digests.iter().map(count).max().unwrap_or(0);
        if most == digests.len() {
            return Ok(());
        }
        // Without a majority every rank may be wrong.
        let is_odd = |rank: &usize| 2 * most <= digests.len() || count(&digests[*rank]) < most;
        let members = (0..digests.len()).filter(is_odd).map(|rank| self.member(rank).to_string());
        Err(Error::new(
            Class::Numerical,
            format!(
                "after step {}: the weights of {} differ from the other ranks'; the computer may have a defect; the \
                 last checkpoint, if there is one, is intact; continue with `.resume`",
                self.step,
                members.collect::<Vec<_>>().join(", ")
            ),
        ))
    }

    /// Returns the requests of all ranks after a step: the signal of the first rank that has one, a checkpoint if any
    /// rank requests one, and the position of the last rank.
    ///
    /// # Errors
    /// Fails as [`Group::gather`] does.
    pub(crate) fn finish_step(&mut self, own: Requests) -> Result<Requests, Error> {
        if self.is_alone() {
            return Ok(own);
        }
        let Requests { signal, checkpoint, position } = own;
        let LoaderPosition { epoch, block, first_sample } = position.unwrap_or_default();
        let flags = [signal.unwrap_or(0) as u64, checkpoint.into(), position.is_some().into()];
        let all = self.gather([&flags[..], &[epoch, block, first_sample]].concat(), |_| 6)?;
        let last = all.last().expect("one per rank");
        let position = LoaderPosition { epoch: last[3], block: last[4], first_sample: last[5] };
        Ok(Requests {
            signal: all.iter().map(|words| words[0] as i32).find(|&signal| signal != 0),
            checkpoint: all.iter().any(|words| words[1] != 0),
            position: (last[2] != 0).then_some(position),
        })
    }
}

/// Number of elements that one task adds.
const TASK: usize = 1 << 16;

/// The gradients of the elements that this rank owns, summed over some micro-batches.
struct Part<'a> {
    /// Whether each parameter has a gradient.
    has_gradient: Vec<bool>,
    values: &'a mut [f32],
}

impl Group {
    /// Returns the gradients of the elements that this rank owns, summed over all micro-batches of the step. Each rank
    /// passes the sum of the micro-batches that it has computed.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost.
    pub(crate) fn reduce(
        &mut self,
        own: GradientSum,
        micro_batches: usize,
        layout: &Layout,
        device: &Device,
    ) -> Result<StepGradients, Error> {
        if self.is_alone() {
            return Ok(StepGradients::complete(own.total()));
        }
        let nodes = own.into_nodes();
        let format = Format::new(layout);
        let each = micro_batches / self.ranks();
        let nodes_of_rank = |rank: usize| nodes_of((rank * each) as u64..((rank + 1) * each) as u64);
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let mut incoming = std::mem::take(&mut self.incoming);
        outgoing.resize_with(self.ranks(), Message::default);
        incoming.resize_with(self.ranks(), Message::default);
        let rank = self.rank();
        for other in 0..self.ranks() {
            incoming[other].resize(nodes_of_rank(other).len() * format.words(rank));
            let message = if other == rank { &mut incoming[rank] } else { &mut outgoing[other] };
            message.resize(nodes.len() * format.words(other));
            format.fill(message, &nodes, other);
        }
        outgoing[rank].resize(0);
        drop(nodes);
        self.all_to_all(&mut outgoing, &mut incoming)?;
        let gradients = {
            let nodes = (0..self.ranks()).map(nodes_of_rank);
            let parts = incoming.iter_mut().zip(nodes).flat_map(|(message, nodes)| {
                format.parts(message, rank).zip(nodes).map(|(part, node)| (node, part))
            });
            format.gradients(rank, added(parts, layout, rank), device)
        };
        (self.outgoing, self.incoming) = (outgoing, incoming);
        Ok(gradients)
    }
}

/// Adds the parts of all ranks, in the order of the ranks, in the tree of all micro-batches.
fn added<'a>(parts: impl Iterator<Item = (Node<()>, Part<'a>)>, layout: &Layout, rank: usize) -> Part<'a> {
    let add = |left: Part<'a>, right: Part<'a>| add(left, right, layout, rank);
    let mut tree = TreeSum::default();
    for (Node { start, level, sum: () }, part) in parts {
        tree.push(Node { start, level, sum: part }, add);
    }
    tree.total(add).expect("every step has a micro-batch")
}

/// Adds two parts, tensor by tensor. A parameter without a gradient in one of them has the gradient of the other.
fn add<'a>(mut left: Part<'a>, right: Part<'a>, layout: &Layout, rank: usize) -> Part<'a> {
    let segments = layout.segments(rank);
    let to = with_values_mut(segments, &mut *left.values);
    for ((segment, to), (_, from)) in to.zip(with_values(segments, right.values)) {
        match (left.has_gradient[segment.tensor], right.has_gradient[segment.tensor]) {
            (true, true) => to.par_chunks_mut(TASK).zip(from.par_chunks(TASK)).for_each(|(to, from)| {
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }),
            (false, true) => to.copy_from_slice(from),
            (_, false) => {}
        }
    }
    for (left, right) in left.has_gradient.iter_mut().zip(right.has_gradient) {
        *left |= right;
    }
    left
}

/// The format of the messages: for each node, one bit per parameter and the values of the receiver's elements.
struct Format<'a> {
    layout: &'a Layout,
    /// Number of words that hold the bits.
    bits: usize,
}

impl<'a> Format<'a> {
    fn new(layout: &'a Layout) -> Self {
        Self { layout, bits: layout.lengths().len().div_ceil(64) }
    }

    /// Returns the number of words of one node for a receiver.
    fn words(&self, receiver: usize) -> usize {
        self.bits + words_of_floats(self.layout.elements(receiver))
    }

    /// Writes the nodes for a receiver.
    fn fill(&self, message: &mut Message, nodes: &[Node<Tensors>], receiver: usize) {
        let words = self.words(receiver);
        for (content, node) in message.content_mut().chunks_exact_mut(words).zip(nodes) {
            let (bits, values) = content.split_at_mut(self.bits);
            bits.fill(0);
            for (tensor, _) in node.sum.iter().enumerate().filter(|(_, gradient)| gradient.is_some()) {
                bits[tensor / 64] |= 1 << (tensor % 64);
            }
            let segments = self.layout.segments(receiver);
            for (segment, values) in with_values_mut(segments, bytemuck::cast_slice_mut(values)) {
                match &node.sum[segment.tensor] {
                    Some(gradient) => host_values::read(gradient, segment.range.clone(), values),
                    None => values.fill(0.0),
                }
            }
        }
    }

    /// Reads the nodes of a message.
    fn parts<'m>(
        &self,
        message: &'m mut Message,
        receiver: usize,
    ) -> impl Iterator<Item = Part<'m>> + use<'m> {
        let words = self.words(receiver);
        let bits = self.bits;
        let tensors = self.layout.lengths().len();
        message.content_mut().chunks_exact_mut(words).map(move |content| {
            let (bits, values) = content.split_at_mut(bits);
            let has_gradient = (0..tensors).map(|tensor| bits[tensor / 64] >> (tensor % 64) & 1 == 1);
            Part { has_gradient: has_gradient.collect(), values: bytemuck::cast_slice_mut(values) }
        })
    }

    /// Returns the gradients of the elements of a rank as tensors.
    fn gradients(&self, rank: usize, part: Part<'_>, device: &Device) -> StepGradients {
        let mut tensors: Tensors = vec![None; self.layout.lengths().len()];
        for (segment, values) in with_values(self.layout.segments(rank), part.values) {
            if part.has_gradient[segment.tensor] {
                let values = TensorData::new(values.to_vec(), [values.len()]);
                tensors[segment.tensor] = Some(Tensor::from_data(values, device));
            }
        }
        StepGradients { tensors, has_gradient: part.has_gradient }
    }
}

impl Group {
    /// Returns the model with the weights that the other ranks own and have updated.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost.
    pub(crate) fn share_weights<M: Module>(&mut self, model: M, layout: &Layout) -> Result<M, Error> {
        if self.is_alone() {
            return Ok(model);
        }
        let rank = self.rank();
        let mut messages = std::mem::take(&mut self.incoming);
        messages.resize_with(self.ranks(), Message::default);
        for (owner, message) in messages.iter_mut().enumerate() {
            message.resize(words_of_floats(layout.elements(owner)));
        }
        read_segments(&model, layout.segments(rank), messages[rank].floats_mut(0));
        self.all_gather(&mut messages)?;
        let others = (0..self.ranks()).filter(|&owner| owner != rank);
        let model = write_segments(
            model,
            others.flat_map(|owner| with_values(layout.segments(owner), messages[owner].floats(0))),
        );
        self.incoming = messages;
        Ok(model)
    }

    /// Returns the model with the weights of rank 0.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost.
    pub(crate) fn broadcast_weights<M: Module>(&mut self, model: M) -> Result<M, Error> {
        if self.is_alone() {
            return Ok(model);
        }
        let lengths =
            bert_model::named_parameters(&model).into_iter().map(|(.., shape)| shape.iter().product());
        let whole = Layout::new(lengths.collect(), 1);
        let mut message = Message::new(words_of_floats(whole.elements(0)));
        if self.is_first() {
            read_segments(&model, whole.segments(0), message.floats_mut(0));
        }
        self.broadcast(&mut message)?;
        if self.is_first() {
            return Ok(model);
        }
        Ok(write_segments(model, with_values(whole.segments(0), message.floats(0))))
    }
}

/// Returns a digest of all weights.
pub(crate) fn digest<M: Module>(model: &M) -> blake3::Hash {
    let mut digest = blake3::Hasher::new();
    let mut values = Vec::new();
    visit_parameters(model, |_, parameter| {
        let length = parameter.dims()[0];
        values.resize(length, 0.0);
        host_values::read(&parameter, 0..length, &mut values);
        digest.update(bytemuck::cast_slice(&values));
    });
    digest.finalize()
}

/// Copies the elements of some segments, in order, to `values`.
fn read_segments<M: Module>(model: &M, segments: &[Segment], values: &mut [f32]) {
    let mut segments = with_values_mut(segments, values).peekable();
    visit_parameters(model, |tensor, parameter| {
        if let Some((Segment { range, .. }, values)) =
            segments.next_if(|(segment, _)| segment.tensor == tensor)
        {
            host_values::read(&parameter, range.clone(), values);
        }
    });
}

/// Returns the model with different values in some segments.
fn write_segments<'a, M: Module>(model: M, segments: impl Iterator<Item = (&'a Segment, &'a [f32])>) -> M {
    let mut by_tensor: Vec<Vec<(usize, &[f32])>> = Vec::new();
    for (Segment { tensor, range }, values) in segments {
        by_tensor.resize_with(by_tensor.len().max(tensor + 1), Vec::new);
        by_tensor[*tensor].push((range.start, values));
    }
    model.map(&mut Write { by_tensor, tensor: 0 })
}

/// Calls a function with the index and the flat values of each parameter.
pub(crate) fn visit_parameters<M: Module>(model: &M, mut visit: impl FnMut(usize, Tensor<1>)) {
    model.visit(&mut Visit { visit: &mut visit, tensor: 0 });
}

/// A visitor for [`visit_parameters`]. It is not generic over the function, because then burn would compile
/// the traversal of each module once for each closure.
struct Visit<'a> {
    visit: &'a mut dyn FnMut(usize, Tensor<1>),
    tensor: usize,
}

impl ModuleVisitor for Visit<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        (self.visit)(self.tensor, param.val().inner().reshape([-1]));
        self.tensor += 1;
    }
}

/// A mapper that overwrites parts of parameters.
struct Write<'a> {
    by_tensor: Vec<Vec<(usize, &'a [f32])>>,
    tensor: usize,
}

impl ModuleMapper for Write<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let parts = self.by_tensor.get_mut(self.tensor).map(std::mem::take).unwrap_or_default();
        self.tensor += 1;
        if parts.is_empty() {
            return param;
        }
        param.map(|tensor| {
            let shape = tensor.dims();
            let mut flat = tensor.inner().reshape([-1]);
            for (start, values) in parts {
                flat = host_values::write(flat, start, values);
            }
            flat.reshape(shape).autodiff().require_grad()
        })
    }
}
