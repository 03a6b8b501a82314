//! Sinusoidal positions (Vaswani et al., 2017, section 3.5) and the causal mask.

use burn::tensor::{Device, Tensor, TensorData};

/// The penalty of a masked key, as in BERT.
const MASKED: f32 = -10_000.0;

/// Returns the position vectors `first .. first + length`: `sin(p / 10000^(2i/hidden))` at dimension `2i`, and the cosine
/// at `2i + 1`.
///
/// # Shapes
/// - output: `[1, length, hidden]`
pub(crate) fn sinusoidal(first: usize, length: usize, hidden: usize, device: &Device) -> Tensor<3> {
    let value = |position: usize, dimension: usize| {
        let exponent = (dimension / 2 * 2) as f64 / hidden as f64;
        let angle = position as f64 / 10_000f64.powf(exponent);
        (if dimension.is_multiple_of(2) { angle.sin() } else { angle.cos() }) as f32
    };
    let values: Vec<f32> = (first..first + length)
        .flat_map(|at| (0..hidden).map(move |dimension| value(at, dimension)))
        .collect();
    Tensor::from_data(TensorData::new(values, [1, length, hidden]), device)
}

/// Returns the bias that hides later positions from each position.
///
/// # Shapes
/// - output: `[1, 1, length, length]`
pub fn causal_bias(length: usize, device: &Device) -> Tensor<4> {
    let value = |at: usize| if at % length > at / length { MASKED } else { 0.0 };
    let values: Vec<f32> = (0..length * length).map(value).collect();
    Tensor::from_data(TensorData::new(values, [1, 1, length, length]), device)
}
