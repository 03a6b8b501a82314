//! Copies weights between the ranks: each owner sends its elements to all others, or rank 0 sends the whole model.

use bert_kernels::host_values;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

use crate::error::Error;
use crate::gradients::layout::{Layout, Segment};
use crate::group::Group;
use crate::group::message::{Message, words_of_floats};

impl Group {
    /// Returns the model with the elements that the other ranks own.
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
            others.flat_map(|owner| values_of_segments(layout.segments(owner), messages[owner].floats(0))),
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
        Ok(write_segments(model, values_of_segments(whole.segments(0), message.floats(0))))
    }
}

/// Returns a digest of all weights.
pub(crate) fn digest<M: Module>(model: &M) -> blake3::Hash {
    let mut digest = blake3::Hasher::new();
    let mut values = Vec::new();
    let visit = |_, parameter: Tensor<1>| {
        let length = parameter.dims()[0];
        values.resize(length, 0.0);
        host_values::read(&parameter, 0..length, &mut values);
        digest.update(bytemuck::cast_slice(&values));
    };
    model.visit(&mut Visit { visit, tensor: 0 });
    digest.finalize()
}

/// Copies the elements of some segments, in order, to `values`.
fn read_segments<M: Module>(model: &M, segments: &[Segment], mut values: &mut [f32]) {
    let mut segments = segments.iter().peekable();
    let visit = |tensor, parameter: Tensor<1>| {
        if let Some(Segment { range, .. }) = segments.next_if(|segment| segment.tensor == tensor) {
            let (segment_values, rest) = std::mem::take(&mut values).split_at_mut(range.len());
            host_values::read(&parameter, range.clone(), segment_values);
            values = rest;
        }
    };
    model.visit(&mut Visit { visit, tensor: 0 });
}

/// Pairs segments with their values.
fn values_of_segments<'a>(
    segments: &'a [Segment],
    mut values: &'a [f32],
) -> impl Iterator<Item = (&'a Segment, &'a [f32])> {
    segments.iter().map(move |segment| {
        let (segment_values, rest) = values.split_at(segment.range.len());
        values = rest;
        (segment, segment_values)
    })
}

/// Returns the model with other values in some segments.
fn write_segments<'a, M: Module>(model: M, segments: impl Iterator<Item = (&'a Segment, &'a [f32])>) -> M {
    let mut by_tensor: Vec<Vec<(usize, &[f32])>> = Vec::new();
    for (Segment { tensor, range }, values) in segments {
        by_tensor.resize_with(by_tensor.len().max(tensor + 1), Vec::new);
        by_tensor[*tensor].push((range.start, values));
    }
    model.map(&mut Write { by_tensor, tensor: 0 })
}

/// Calls a function with the number and the flat values of each parameter.
struct Visit<F> {
    visit: F,
    tensor: usize,
}

impl<F: FnMut(usize, Tensor<1>)> ModuleVisitor for Visit<F> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        (self.visit)(self.tensor, param.val().inner().reshape([-1]));
        self.tensor += 1;
    }
}

/// Overwrites parts of parameters.
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
