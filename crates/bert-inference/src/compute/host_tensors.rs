//! Converts values between host memory and tensors.

use bert_model::BertInput;
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::Error;

/// Returns ids, mask and segments as model input; each is given row by row.
pub(crate) fn bert_input(cells: [&[i32]; 3], shape: [usize; 2], device: &Device) -> BertInput {
    let matrix = |cells: &[i32]| Tensor::from_data(TensorData::new(cells.to_vec(), shape), device);
    let [input_ids, input_mask, segment_ids] = cells.map(matrix);
    BertInput { input_ids, input_mask, segment_ids }
}

/// Returns integers as a vector.
pub fn int_vector(values: &[i32], device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}

/// Returns floating-point numbers as a tensor with one dimension.
pub fn float_vector(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device)
}

/// Returns the elements of a tensor in row-major order.
///
/// # Errors
/// Fails when the device failed to compute them.
pub fn read<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, Error> {
    let data = tensor
        .try_into_data_as::<f32>()
        .map_err(|error| Error::failed(format!("the device failed: {error}")))?;
    Ok(data.try_into_vec().expect("converted to f32"))
}

/// Returns the elements of a tensor in row-major order, without a `Result`.
///
/// # Panics
/// Panics if the device fails.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    read(tensor).unwrap_or_else(|error| panic!("{error}"))
}
