//! Dropout composed of burn operations: `y = x m / (1 - p)` with the mask `m` of [`Dropout`].

use burn::tensor::{Tensor, TensorData};

pub use crate::cpu::dropout_mask::{Dropout, mix};

/// Multiplies x by the mask, which is a constant to autodiff.
///
/// # Shapes
/// - input and output: `[..]`, any shape
pub fn plain<const D: usize>(x: Tensor<D>, dropout: Option<Dropout>) -> Tensor<D> {
    let Some(dropout) = dropout else {
        return x;
    };
    let shape = x.shape();
    #[cfg(feature = "cubecl")]
    if let Some(y) = crate::gpu::dropout::dropout(x.clone().flatten(0, D - 1), dropout) {
        return y.reshape(shape);
    }
    let mask = TensorData::new(dropout.mask(shape.num_elements()), shape);
    let mask = Tensor::from_data(mask, (&x.device(), x.dtype()));
    x * mask
}
