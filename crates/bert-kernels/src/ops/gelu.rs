//! Bias and GELU: `y = z P(X <= z)` with `z = x + b`, X standard normal; or its tanh approximation.
//!
//! Ports both forms of the reference's activation: erf until February 2019, then tanh. The backward pass computes
//! `dx = dy gelu'(x + b)` in place of dy, and `db` as the sum of dx over the rows.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, activation, assert_shape};
use rayon::prelude::*;

use crate::arguments::Compute;
pub use crate::arguments::Gelu;
use crate::cpu::flex_slices::{buffer, contiguous, slice, slice_mut, tensor, width};
use crate::cpu::math::{gelu, gelu_and_derivative, gelu_tanh_and_derivative, vectorized};
use crate::cpu::row_blocks::{add_blocks, rows_per_block};
use crate::fused_op::{Fused, Input, apply, fused_path, on_flex};

/// Returns `gelu(x + bias)`.
///
/// # Shapes
/// - x and output: `[.., width]`
/// - bias: `[width]`
pub fn bias_gelu<const D: usize>(compute: Compute, x: Tensor<D>, bias: Tensor<1>, form: Gelu) -> Tensor<D> {
    assert_shape!(bias, [x.dims()[D - 1]]);
    match fused_path(compute, &[&x, &bias]) {
        Some(path) => apply(BiasGelu(form), path, [Input::from(x), Input::from(bias)]),
        None => {
            #[cfg(feature = "cubecl")]
            if let Some(y) =
                crate::gpu::gelu::bias_gelu(compute.kernels, x.clone().flatten(0, D - 1), bias.clone(), form)
            {
                return y.reshape(x.shape());
            }
            plain(x, bias, form)
        }
    }
}

/// Computes [`bias_gelu`] with burn's own operations.
///
/// # Shapes
/// - same as [`bias_gelu`]
pub fn plain<const D: usize>(x: Tensor<D>, bias: Tensor<1>, form: Gelu) -> Tensor<D> {
    let x = x + bias.unsqueeze::<D>();
    match form {
        #[cfg(feature = "hook")]
        Gelu::Erf if crate::hook::has_tanh_derivative() => {
            let tanh = gelu_tanh_form(x.clone());
            tanh.clone() + (gelu_erf(x) - tanh).detach()
        }
        Gelu::Erf if on_flex(&x) => activation::gelu(x),
        // On other backends, burn differentiates `activation::gelu` as if it were the tanh form.
        Gelu::Erf => gelu_erf(x),
        Gelu::Tanh => gelu_tanh_form(x),
    }
}

fn gelu_tanh_form<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let c = (2.0 / std::f64::consts::PI).sqrt();
    // x (c + c 0.044715 x^2), with products in place of a power function.
    let inner = x.clone().square().mul_scalar(0.044715 * c).add_scalar(c) * x.clone();
    (inner.tanh().add_scalar(1.0) * x).mul_scalar(0.5)
}

fn gelu_erf<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let erf = x.clone().mul_scalar(std::f64::consts::FRAC_1_SQRT_2).erf();
    (erf.add_scalar(1.0) * x).mul_scalar(0.5)
}

#[derive(Clone, Copy, Debug)]
struct BiasGelu(Gelu);

impl Fused<2> for BiasGelu {
    type Saved = [FlexTensor; 2];

    fn forward(&self, inputs: [FlexTensor; 2]) -> (FlexTensor, Self::Saved) {
        let [x, bias] = inputs.map(contiguous);
        let width = width(&x);
        let shape = x.layout().shape().clone();
        let mut y = buffer(shape.num_elements());
        let block = rows_per_block(y.len() / width, width) * width;
        let values = slice(&x);
        let bias_values = slice(&bias);
        y.par_chunks_mut(block).zip(values.par_chunks(block)).for_each(|(y, x)| {
            y.copy_from_slice(x);
            forward_rows(self.0, bias_values, y);
        });
        (tensor(y, shape), [x, bias])
    }

    /// Returns the value in the buffer of x.
    fn value(&self, inputs: [FlexTensor; 2]) -> FlexTensor {
        let [mut x, bias] = inputs.map(contiguous);
        let width = width(&x);
        let values = slice_mut(&mut x);
        let block = rows_per_block(values.len() / width, width) * width;
        values.par_chunks_mut(block).for_each(|x| forward_rows(self.0, slice(&bias), x));
        x
    }

    fn backward(
        self,
        [x, bias]: Self::Saved,
        gradient: FlexTensor,
        [_, bias_wanted]: [bool; 2],
    ) -> [Option<FlexTensor>; 2] {
        let mut gradient = contiguous(gradient);
        let width = width(&x);
        let rows = slice(&x).len() / width;
        let block = rows_per_block(rows, width);
        let mut sums = vec![0.0; rows.div_ceil(block) * width];
        let x = slice(&x);
        let bias = slice(&bias);
        slice_mut(&mut gradient)
            .par_chunks_mut(block * width)
            .zip(x.par_chunks(block * width))
            .zip(sums.par_chunks_mut(width))
            .for_each(|((gradient, x), sum)| backward_rows(self.0, x, bias, gradient, sum));
        let bias = bias_wanted.then(|| tensor(add_blocks(&sums, width), [width]));
        [Some(gradient), bias]
    }
}

vectorized! {
    /// Replaces x by `gelu(x + bias)`.
    pub(crate) fn forward_rows(form: Gelu, bias: &[f32], x: &mut [f32]) {
        for x in x.chunks_exact_mut(bias.len()) {
            match form {
                Gelu::Erf => for (x, b) in x.iter_mut().zip(bias) {
                    *x = gelu(*x + b);
                },
                Gelu::Tanh => for (x, b) in x.iter_mut().zip(bias) {
                    *x = gelu_tanh_and_derivative(*x + b).0;
                },
            }
        }
    }
}

vectorized! {
    /// Replaces the gradient of the output by the gradient of the input, and adds this gradient over the rows to `sum`.
    fn backward_rows(form: Gelu, x: &[f32], bias: &[f32], gradient: &mut [f32], sum: &mut [f32]) {
        let rows = x.chunks_exact(bias.len()).zip(gradient.chunks_exact_mut(bias.len()));
        for (x, gradient) in rows {
            let columns = x.iter().zip(bias).zip(gradient).zip(sum.iter_mut());
            match form {
                Gelu::Erf => for (((x, b), gradient), sum) in columns {
                    *gradient *= gelu_and_derivative(x + b).1;
                    *sum += *gradient;
                },
                Gelu::Tanh => for (((x, b), gradient), sum) in columns {
                    *gradient *= gelu_tanh_and_derivative(x + b).1;
                    *sum += *gradient;
                },
            }
        }
    }
}

vectorized! {
    /// Computes [`forward_rows`] and [`backward_rows`] in one pass.
    pub(crate) fn value_and_gradient_rows(
        form: Gelu,
        bias: &[f32],
        z: &mut [f32],
        gradient: &mut [f32],
        sum: &mut [f32],
    ) {
        let rows = z.chunks_exact_mut(bias.len()).zip(gradient.chunks_exact_mut(bias.len()));
        for (z, gradient) in rows {
            let columns = z.iter_mut().zip(bias).zip(gradient).zip(sum.iter_mut());
            match form {
                Gelu::Erf => for (((z, b), gradient), sum) in columns {
                    let (value, derivative) = gelu_and_derivative(*z + b);
                    *z = value;
                    *gradient *= derivative;
                    *sum += *gradient;
                },
                Gelu::Tanh => for (((z, b), gradient), sum) in columns {
                    let (value, derivative) = gelu_tanh_and_derivative(*z + b);
                    *z = value;
                    *gradient *= derivative;
                    *sum += *gradient;
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn gelu_erf_derivative_is_exact() {
        let x: Vec<f32> = (-60..=60).map(|i| i as f32 * 0.1).collect();
        let leaf = Tensor::<1>::from_floats(x.as_slice(), &Device::flex().autodiff()).require_grad();
        let y = gelu_erf(leaf.clone());
        let slopes = leaf.grad(&y.clone().sum().backward()).expect("it has a gradient");
        let host = |x: Tensor<1>| x.into_data().iter::<f32>().collect::<Vec<_>>();
        for ((x, y), slope) in x.iter().zip(host(y)).zip(host(slopes)) {
            // The tanh form is off by up to 5e-4 in the value and 1e-3 in the derivative.
            assert!(
                (y - gelu(*x)).abs() < 2e-6 && (slope - gelu_and_derivative(*x).1).abs() < 2e-6,
                "{x}: {y} {slope}"
            );
        }
    }
}
