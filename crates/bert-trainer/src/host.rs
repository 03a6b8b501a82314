//! Moves values between host memory and tensors: the few conversions that the crate needs.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Integers as a matrix, row by row.
pub(crate) fn int_matrix(values: &[i32], shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
}

/// Integers as a vector.
pub(crate) fn int_vector(values: &[i32], device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}

/// Numbers as a vector.
pub(crate) fn float_vector(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device)
}

/// The elements of a tensor in row-major order.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data_as::<f32>().try_into_vec().expect("converted to f32")
}
