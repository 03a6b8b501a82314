//! The feed-forward network of a layer on a GPU as one autodiff operation: `y = gelu(x W1 + b1) W2`, with the
//! equations of [`mod@crate::ops::feed_forward`].
//!
//! With bf16 precision, each operand is rounded once for both passes. The intermediate features and y are
//! stored in bf16.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Shape, Tensor};
use burn_cubecl::tensor::CubeTensor;

use super::product::{factor_type, multiply, multiply_add, multiply_transposed, rounded, transposed};
use super::{apply_inputs, gelu, input, into_contiguous, len};
use crate::arguments::{Compute, Gelu, Precision, Projection};
use crate::fused_op::Fused;

/// Returns `gelu(x W1 + b1) W2`; `None` if a tensor is not on a GPU.
///
/// # Shapes
/// - x: `[.., d_input]`
/// - first: `[d_input, d_intermediate]` and `[d_intermediate]`
/// - second: `[d_intermediate, d_output]`
/// - output: `[rows, d_output]`
pub(crate) fn feed_forward<const D: usize>(
    compute: Compute,
    x: Tensor<D>,
    first: &Projection,
    second: &Tensor<2>,
    form: Gelu,
) -> Option<Tensor<2>> {
    let operation = FeedForward { form, precision: compute.precision };
    let inputs = [input(x), input(first.weight.clone()), input(first.bias.clone()), input(second.clone())];
    apply_inputs(compute.kernels, operation, inputs)
}

#[derive(Clone, Copy, Debug)]
struct FeedForward {
    form: Gelu,
    precision: Precision,
}

/// Values that the backward pass needs. The matrices have the operand dtype ([`factor_type`]).
#[derive(Clone, Debug)]
struct Saved {
    /// `[rows, d_input]`
    x: CubeTensor,
    /// `[d_input, d_intermediate]`
    first: CubeTensor,
    /// `[d_intermediate]`, in f32
    bias: CubeTensor,
    /// `[d_intermediate, d_output]`
    second: CubeTensor,
    /// `x W1`: `[rows, d_intermediate]`
    projected: CubeTensor,
    /// `gelu(x W1 + b1)`: `[rows, d_intermediate]`
    wide: CubeTensor,
    /// The shape of x.
    shape: Shape,
}

impl Fused<4, Cube> for FeedForward {
    type Saved = Saved;

    fn forward(&self, inputs: [CubeTensor; 4]) -> (CubeTensor, Saved) {
        let shape = inputs[0].meta.shape().clone();
        let [x, first, bias, second] = inputs.map(into_contiguous);
        let input = first.meta.shape()[0];
        let x = Cube::float_reshape(x.clone(), Shape::new([len(&x) / input, input]));
        let [x, first, second] = [x, first, second].map(|factor| rounded(self.precision, factor));
        let projected = multiply(x.clone(), first.clone(), factor_type(self.precision));
        let wide = reshaped_like(gelu::forward(self.form, &projected, &bias), &projected);
        let y = multiply(wide.clone(), second.clone(), factor_type(self.precision));
        (y, Saved { x, first, bias, second, projected, wide, shape })
    }

    const ACCUMULATES: bool = true;

    fn backward_accumulate(
        self,
        Saved { x, first, bias, second, projected, wide, shape }: Saved,
        gradient: CubeTensor,
        [x_wanted, first_wanted, bias_wanted, second_wanted]: [bool; 4],
        existing: Option<CubeTensor>,
    ) -> [Option<CubeTensor>; 4] {
        let gradient = rounded(self.precision, into_contiguous(gradient));
        let d_second = second_wanted.then(|| multiply_transposed(wide, gradient.clone()));
        if !(x_wanted || first_wanted || bias_wanted) {
            return [existing, None, None, d_second];
        }
        let d_wide = multiply(gradient, transposed(second), factor_type(self.precision));
        let (d_projected, d_bias) = gelu::backward(self.form, &projected, &bias, d_wide);
        let d_projected = reshaped_like(d_projected, &projected);
        [
            x_wanted.then(|| {
                let d_x = multiply_add(d_projected.clone(), transposed(first), existing);
                Cube::float_reshape(d_x, shape)
            }),
            first_wanted.then(|| multiply_transposed(x, d_projected)),
            bias_wanted.then_some(d_bias),
            d_second,
        ]
    }
}

/// Returns x in the shape of `other`.
fn reshaped_like(x: CubeTensor, other: &CubeTensor) -> CubeTensor {
    Cube::float_reshape(x, Shape::from(other.meta.shape().to_vec()))
}
