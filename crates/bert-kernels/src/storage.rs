//! Borrows the elements of `Flex` tensors as slices and makes tensors of vectors, without copies where that is
//! possible.

use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::{DType, Shape, Tensor};

use crate::pool::lend;
pub(crate) use crate::pool::take as buffer;

/// The tensor itself if its elements lie in order and fill their buffer, a copy that does otherwise.
pub(crate) fn contiguous(x: FlexTensor) -> FlexTensor {
    // The copy, if any, is made by the callee; dropping `x` leaves one owner either way.
    x.to_contiguous()
}

/// The elements of a [`contiguous`] tensor.
pub(crate) fn slice(x: &FlexTensor) -> &[f32] {
    x.storage()
}

/// The elements of a [`contiguous`] tensor, copied first if anyone else holds them.
pub(crate) fn slice_mut(x: &mut FlexTensor) -> &mut [f32] {
    x.storage_mut()
}

/// A tensor that owns `values`.
pub(crate) fn tensor(values: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::new(lend(values), Layout::contiguous(shape.into()), DType::F32)
}

/// Length of the last axis.
pub(crate) fn width(x: &FlexTensor) -> usize {
    let shape = x.layout().shape();
    shape[shape.num_dims() - 1]
}

/// The elements of an integer tensor on the host.
pub(crate) fn indices<const D: usize>(x: Tensor<D, burn::tensor::Int>) -> Vec<usize> {
    let index = |i: i64| usize::try_from(i).expect("an index is not negative");
    x.into_data().iter::<i64>().map(index).collect()
}
