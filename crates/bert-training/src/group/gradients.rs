//! Sends each owner its part of all gradients, which it adds in the tree of all micro-batches.

use bert_kernels::host_values;
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Error;
use crate::gradients::gradient_sum::{GradientSum, Tensors};
use crate::gradients::layout::Layout;
use crate::gradients::tree_sum::{Node, TreeSum, nodes_of};
use crate::group::Group;
use crate::group::message::{Message, words_of_floats};
use crate::optimizer::StepGradients;

/// Elements that a task adds.
const TASK: usize = 1 << 16;

/// A sum of micro-batches of the elements that this rank owns.
struct Part<'a> {
    /// One bit for each parameter: whether it has a gradient.
    has_gradient: Vec<bool>,
    values: &'a mut [f32],
}

impl Group {
    /// Returns the sum over all micro-batches of the step, of which this rank has computed its share: the gradients of
    /// the elements that it owns.
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

/// Adds the parts of all ranks, in their order, in the tree of all micro-batches.
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
    let mut start = 0;
    for segment in layout.segments(rank) {
        let end = start + segment.range.len();
        let to = &mut left.values[start..end];
        let from = &right.values[start..end];
        match (left.has_gradient[segment.tensor], right.has_gradient[segment.tensor]) {
            (true, true) => to.par_chunks_mut(TASK).zip(from.par_chunks(TASK)).for_each(|(to, from)| {
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }),
            (false, true) => to.copy_from_slice(from),
            (_, false) => {}
        }
        start = end;
    }
    for (left, right) in left.has_gradient.iter_mut().zip(right.has_gradient) {
        *left |= right;
    }
    left
}

/// The format of the messages: for each node, one bit per parameter and the values of the receiver's elements.
struct Format<'a> {
    layout: &'a Layout,
    /// Words of the bits.
    bits: usize,
}

impl<'a> Format<'a> {
    fn new(layout: &'a Layout) -> Self {
        Self { layout, bits: layout.lengths().len().div_ceil(64) }
    }

    /// Returns the words of one node for a receiver.
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
            let mut values: &mut [f32] = bytemuck::cast_slice_mut(values);
            for segment in self.layout.segments(receiver) {
                let (segment_values, rest) = values.split_at_mut(segment.range.len());
                match &node.sum[segment.tensor] {
                    Some(gradient) => host_values::read(gradient, segment.range.clone(), segment_values),
                    None => segment_values.fill(0.0),
                }
                values = rest;
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

    /// Returns the elements of a rank as tensors.
    fn gradients(&self, rank: usize, part: Part<'_>, device: &Device) -> StepGradients {
        let mut tensors: Tensors = vec![None; self.layout.lengths().len()];
        let mut start = 0;
        for segment in self.layout.segments(rank) {
            let end = start + segment.range.len();
            if part.has_gradient[segment.tensor] {
                let values = TensorData::new(part.values[start..end].to_vec(), [end - start]);
                tensors[segment.tensor] = Some(Tensor::from_data(values, device));
            }
            start = end;
        }
        StepGradients { tensors, has_gradient: part.has_gradient }
    }
}
