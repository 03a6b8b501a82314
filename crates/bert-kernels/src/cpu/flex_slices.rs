//! Converts between `Flex` tensors and slices or vectors, without copies where possible.

use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::{DType, Shape, Tensor};

use crate::cpu::buffer_pool::into_storage;
pub(crate) use crate::cpu::buffer_pool::take as buffer;

/// Returns the tensor itself if it is contiguous and fills its buffer, or a contiguous copy.
pub(crate) fn contiguous(x: FlexTensor) -> FlexTensor {
    // `to_contiguous` copies only if it has to. `x` is dropped here, so the result does not share its buffer
    // with `x`.
    x.to_contiguous()
}

/// Returns the elements of a [`contiguous`] tensor.
pub(crate) fn slice(x: &FlexTensor) -> &[f32] {
    x.storage()
}

/// Returns the elements of a [`contiguous`] tensor for writing; copies them first if they are shared.
pub(crate) fn slice_mut(x: &mut FlexTensor) -> &mut [f32] {
    x.storage_mut()
}

/// Returns an f32 tensor of this shape that owns `values`.
pub(crate) fn tensor(values: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::new(into_storage(values), Layout::contiguous(shape.into()), DType::F32)
}

/// Returns the length of the last axis.
pub(crate) fn width(x: &FlexTensor) -> usize {
    let shape = x.layout().shape();
    shape[shape.num_dims() - 1]
}

/// Copies the elements of an integer tensor to the host.
///
/// # Panics
/// Panics if an element is negative.
pub(crate) fn indices<const D: usize>(x: Tensor<D, burn::tensor::Int>) -> Vec<usize> {
    let index = |i: i64| usize::try_from(i).expect("indices are not negative");
    x.into_data().iter::<i64>().map(index).collect()
}
