//! Copies a part of a tensor to the host, and overwrites a part of a tensor with values from the host.

use std::ops::Range;

use burn::backend::Flex;
use burn::tensor::{Tensor, TensorData};

use crate::cpu::flex_slices::{contiguous, slice, slice_mut};
use crate::fused_op::{Input, OnBackend, TensorBackend};

/// Copies the elements `range` of a tensor without autodiff to the slice `values`.
///
/// # Shapes
///
/// - x: `[n]`
/// - values: `[range]`
///
/// # Panics
///
/// Panics if the lengths differ or the range is not in the tensor.
pub fn read(x: &Tensor<1>, range: Range<usize>, values: &mut [f32]) {
    if x.backend() == TensorBackend::Flex {
        let x = contiguous(Input::from(x.clone()).into_primitive());
        values.copy_from_slice(&slice(&x)[range]);
        return;
    }
    let part = x.clone().slice([range]).into_data_as::<f32>();
    values.copy_from_slice(part.as_slice().expect("converted to f32"));
}

/// Replaces the elements of a tensor without autodiff from `start` on by `values`, and returns the tensor. On
/// `Flex`, the elements are overwritten in place, unless the tensor's memory is shared.
///
/// # Shapes
///
/// - x and output: `[n]`
/// - values: at most `n - start` elements
///
/// # Panics
///
/// Panics if there are more values than elements from `start` on.
pub fn write(x: Tensor<1>, start: usize, values: &[f32]) -> Tensor<1> {
    let range = start..start + values.len();
    if x.backend() == TensorBackend::Flex {
        let mut x = contiguous(Input::from(x).into_primitive());
        slice_mut(&mut x)[range].copy_from_slice(values);
        return Tensor::from_primitive::<Flex>(x);
    }
    let device = x.device();
    let values = TensorData::new(values.to_vec(), [values.len()]);
    x.slice_assign([range], Tensor::from_data(values, &device))
}
