//! LayerNorm, alone and at the end of a block of a layer: `y = gamma (h - mean) / sqrt(var + eps) + beta`, `h =
//! residual + dropout(x + b)`.
//!
//! The forward pass saves h (in place of x) with each row's mean and `r = 1 / sqrt(var + eps)`. With `n = (h - mean) r`
//! and `g = gamma dy`, the backward pass first computes `dh = r (g - mean(g) - n mean(g n))`, `dgamma = sum(dy n)`,
//! `dbeta = sum(dy)` and `dresidual = dh`. Then `dx` is `dh` times the mask, recomputed from its counter, and `db =
//! sum(dx)`.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, assert_shape};
use rayon::prelude::*;

use crate::arguments::Compute;
use crate::cpu::flex_slices::{buffer, contiguous, slice, slice_mut, tensor, width};
use crate::cpu::math::{dot, sum, vectorized};
use crate::cpu::row_blocks::{add, add_bias, add_blocks, add_rows, column_sums, rows_per_block};
use crate::fused_op::{Fused, Input, apply, fused_path};
use crate::ops::dropout::{HostDropout, RowDropout};

/// The parameters of a LayerNorm.
///
/// # Shapes
/// - gamma, beta: `[width]`
#[derive(Clone, Debug)]
pub struct LayerNormParameters {
    /// The scale of each column.
    pub gamma: Tensor<1>,
    /// The offset of each column.
    pub beta: Tensor<1>,
    /// A small number that is added to the variance inside the square root.
    pub epsilon: f64,
}

/// Computes LayerNorm over the last axis.
///
/// # Shapes
/// - x and output: `[.., width]`
pub fn layer_norm<const D: usize>(
    compute: Compute,
    x: Tensor<D>,
    parameters: LayerNormParameters,
) -> Tensor<D> {
    let width = x.dims()[D - 1];
    let LayerNormParameters { gamma, beta, epsilon } = parameters;
    assert_shape!(gamma, [width]);
    assert_shape!(beta, [width]);
    match fused_path(compute, &[&x, &gamma, &beta]) {
        Some(path) => {
            apply(LayerNorm { epsilon: epsilon as f32 }, path, [x.into(), gamma.into(), beta.into()])
        }
        None => {
            #[cfg(feature = "cubecl")]
            {
                let inputs = [x.clone().flatten(0, D - 1), gamma.clone(), beta.clone()];
                if let Some(y) = crate::gpu::layer_norm::layer_norm(compute.kernels, inputs, epsilon) {
                    return y.reshape(x.shape());
                }
            }
            plain(x, LayerNormParameters { gamma, beta, epsilon })
        }
    }
}

/// Computes `LayerNorm(residual + dropout(x + bias))`. `dropout` is an `Option<Dropout>`, or a [`RowDropout`] if the
/// rows were selected from a table. On a GPU x may be in bf16.
///
/// # Shapes
/// - x, residual and output: `[.., width]`
/// - bias: `[width]`
pub fn residual_layer_norm<const D: usize>(
    compute: Compute,
    [x, residual]: [Tensor<D>; 2],
    bias: Tensor<1>,
    parameters: LayerNormParameters,
    dropout: impl Into<RowDropout>,
) -> Tensor<D> {
    let LayerNormParameters { gamma, beta, epsilon } = parameters;
    let width = x.dims()[D - 1];
    let dropout = dropout.into();
    for vector in [&bias, &gamma, &beta] {
        assert_shape!(vector, [width]);
    }
    assert_eq!(x.dims(), residual.dims(), "the residual has another shape");
    match fused_path(compute, &[&x, &bias, &residual, &gamma, &beta]) {
        Some(path) => {
            let operation = ResidualLayerNorm { epsilon: epsilon as f32, dropout: dropout.on_host() };
            let inputs: [Input; 5] = [x.into(), bias.into(), residual.into(), gamma.into(), beta.into()];
            apply(operation, path, inputs)
        }
        None => {
            #[cfg(feature = "cubecl")]
            if dropout.rows.is_none() {
                let flat = |x: &Tensor<D>| x.clone().flatten(0, D - 1);
                let inputs = [flat(&x), bias.clone(), flat(&residual), gamma.clone(), beta.clone()];
                let kernels = compute.kernels;
                let dropout = dropout.dropout;
                if let Some(y) =
                    crate::gpu::layer_norm::residual_layer_norm(kernels, inputs, epsilon, dropout)
                {
                    return y.reshape(x.shape());
                }
            }
            let h = dropout.apply(x.cast(residual.dtype()) + bias.unsqueeze::<D>()) + residual;
            layer_norm(compute, h, LayerNormParameters { gamma, beta, epsilon })
        }
    }
}

/// Computes [`layer_norm`] with burn's own operations.
///
/// # Shapes
/// - same as [`layer_norm`]
pub fn plain<const D: usize>(x: Tensor<D>, parameters: LayerNormParameters) -> Tensor<D> {
    let LayerNormParameters { gamma, beta, epsilon } = parameters;
    burn::tensor::module::layer_norm(x, gamma, Some(beta), epsilon)
}

#[derive(Clone, Copy, Debug)]
struct LayerNorm {
    epsilon: f32,
}

#[derive(Clone, Debug)]
struct ResidualLayerNorm {
    epsilon: f32,
    dropout: Option<HostDropout>,
}

/// Saved values of a LayerNorm: h, gamma, and `[mean, r]` of each row.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    pub(crate) h: FlexTensor,
    pub(crate) gamma: FlexTensor,
    pub(crate) rows: Vec<[f32; 2]>,
}

impl Fused<3> for LayerNorm {
    type Saved = Statistics;

    fn forward(&self, inputs: [FlexTensor; 3]) -> (FlexTensor, Statistics) {
        let [h, gamma, beta] = inputs.map(contiguous);
        let width = width(&h);
        let shape = h.layout().shape().clone();
        let mut y = buffer(shape.num_elements());
        let mut rows = vec![[0.0; 2]; y.len() / width];
        let block = rows_per_block(rows.len(), width);
        let values = slice(&h);
        let gamma_values = slice(&gamma);
        let beta_values = slice(&beta);
        y.par_chunks_mut(block * width)
            .zip(values.par_chunks(block * width))
            .zip(rows.par_chunks_mut(block))
            .for_each(|((y, h), rows)| normalize(h, [gamma_values, beta_values], self.epsilon, y, rows));
        (tensor(y, shape), Statistics { h, gamma, rows })
    }

    fn backward(
        self,
        saved: Statistics,
        gradient: FlexTensor,
        [_, gamma_wanted, beta_wanted]: [bool; 3],
    ) -> [Option<FlexTensor>; 3] {
        let width = width(&saved.h);
        let mut gradient = contiguous(gradient);
        let [gamma, beta] = normalized_backward(&saved, slice_mut(&mut gradient), width, |_, _| ());
        [
            Some(gradient),
            gamma_wanted.then(|| tensor(gamma, [width])),
            beta_wanted.then(|| tensor(beta, [width])),
        ]
    }
}

/// Replaces `dy` by `dh` in place and returns the gradients of gamma and beta. `before` may change each block of `dy`
/// first; its second argument is the index of the block's first element.
pub(crate) fn normalized_backward(
    saved: &Statistics,
    gradient: &mut [f32],
    width: usize,
    before: impl Fn(&mut [f32], usize) + Sync,
) -> [Vec<f32>; 2] {
    let block = rows_per_block(saved.rows.len(), width);
    let blocks = saved.rows.len().div_ceil(block);
    let mut sums = vec![0.0; blocks * 2 * width];
    let h = slice(&saved.h);
    let gamma = slice(&saved.gamma);
    gradient
        .par_chunks_mut(block * width)
        .zip(h.par_chunks(block * width))
        .zip(saved.rows.par_chunks(block))
        .zip(sums.par_chunks_mut(2 * width))
        .enumerate()
        .for_each(|(index, (((gradient, h), rows), sums))| {
            before(gradient, index * block * width);
            let (gamma_sum, beta_sum) = sums.split_at_mut(width);
            normalize_backward(h, gamma, rows, gradient, [gamma_sum, beta_sum]);
        });
    let sums = add_blocks(&sums, 2 * width);
    let (gamma, beta) = sums.split_at(width);
    [gamma.to_vec(), beta.to_vec()]
}

impl Fused<5> for ResidualLayerNorm {
    type Saved = Statistics;

    fn forward(&self, inputs: [FlexTensor; 5]) -> (FlexTensor, Statistics) {
        let [mut h, bias, residual, gamma, beta] = inputs.map(contiguous);
        let width = width(&h);
        let shape = h.layout().shape().clone();
        let mut y = buffer(shape.num_elements());
        let mut rows = vec![[0.0; 2]; y.len() / width];
        let block = rows_per_block(rows.len(), width);
        let bias = slice(&bias);
        let residual = slice(&residual);
        let gamma_values = slice(&gamma);
        let beta_values = slice(&beta);
        y.par_chunks_mut(block * width)
            .zip(slice_mut(&mut h).par_chunks_mut(block * width))
            .zip(residual.par_chunks(block * width))
            .zip(rows.par_chunks_mut(block))
            .enumerate()
            .for_each_init(Vec::new, |words, (index, (((y, h), residual), rows))| {
                add_bias(h, bias);
                if let Some(dropout) = &self.dropout {
                    dropout.apply(h, index * block, width, words);
                }
                add(h, residual);
                normalize(h, [gamma_values, beta_values], self.epsilon, y, rows);
            });
        (tensor(y, shape), Statistics { h, gamma, rows })
    }

    fn backward(
        self,
        saved: Statistics,
        gradient: FlexTensor,
        [x_wanted, bias_wanted, residual_wanted, gamma_wanted, beta_wanted]: [bool; 5],
    ) -> [Option<FlexTensor>; 5] {
        let width = width(&saved.h);
        let mut residual = contiguous(gradient);
        let [gamma, beta] = normalized_backward(&saved, slice_mut(&mut residual), width, |_, _| ());
        let (x, bias) = match self.dropout {
            Some(dropout) => {
                let rows = saved.rows.len();
                let block = rows_per_block(rows, width);
                let mut sums = vec![0.0; rows.div_ceil(block) * width];
                // h is no longer needed, so its buffer is reused for dx.
                let mut x = saved.h;
                let source = slice(&residual);
                slice_mut(&mut x)
                    .par_chunks_mut(block * width)
                    .zip(source.par_chunks(block * width))
                    .zip(sums.par_chunks_mut(width))
                    .enumerate()
                    .for_each_init(Vec::new, |words, (index, ((x, source), sums))| {
                        x.copy_from_slice(source);
                        dropout.apply(x, index * block, width, words);
                        add_rows(x, sums);
                    });
                (x, add_blocks(&sums, width))
            }
            None => (residual.clone(), column_sums(slice(&residual), width)),
        };
        [
            x_wanted.then_some(x),
            bias_wanted.then(|| tensor(bias, [width])),
            residual_wanted.then_some(residual),
            gamma_wanted.then(|| tensor(gamma, [width])),
            beta_wanted.then(|| tensor(beta, [width])),
        ]
    }
}

vectorized! {
    /// Normalizes each row; writes mean and r to `rows`.
    pub(crate) fn normalize(
        h: &[f32],
        gamma_and_beta: [&[f32]; 2],
        epsilon: f32,
        y: &mut [f32],
        rows: &mut [[f32; 2]],
    ) {
        let [gamma, beta] = gamma_and_beta;
        let width = gamma.len();
        for ((h, y), row) in h.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(rows) {
            let mean = sum(h) / width as f32;
            for (y, h) in y.iter_mut().zip(h) {
                *y = h - mean;
            }
            let variance = dot(y, y) / width as f32;
            let r = 1.0 / (variance + epsilon).sqrt();
            for ((y, gamma), beta) in y.iter_mut().zip(gamma).zip(beta) {
                *y = (*y * r).mul_add(*gamma, *beta);
            }
            *row = [mean, r];
        }
    }
}

vectorized! {
    /// Computes the gradient of [`normalize`] in place, and this block's parts of the sums for gamma and beta.
    fn normalize_backward(
        h: &[f32],
        gamma: &[f32],
        rows: &[[f32; 2]],
        gradient: &mut [f32],
        sums: [&mut [f32]; 2],
    ) {
        let [gamma_sum, beta_sum] = sums;
        let width = gamma.len();
        let mut scratch = vec![0f32; width];
        let normal = &mut scratch[..];
        for ((h, gradient), [mean, r]) in h.chunks_exact(width).zip(gradient.chunks_exact_mut(width)).zip(rows) {
            let columns = h.iter().zip(gradient.iter_mut()).zip(normal.iter_mut());
            let vectors = gamma.iter().zip(gamma_sum.iter_mut()).zip(beta_sum.iter_mut());
            for (((h, gradient), normal), ((gamma, gamma_sum), beta_sum)) in columns.zip(vectors) {
                *normal = (h - mean) * r;
                *gamma_sum = gradient.mul_add(*normal, *gamma_sum);
                *beta_sum += *gradient;
                *gradient *= gamma;
            }
            let mean_g = sum(gradient) / width as f32;
            let mean_gn = dot(gradient, normal) / width as f32;
            for (gradient, normal) in gradient.iter_mut().zip(normal.iter()) {
                *gradient = normal.mul_add(-mean_gn, *gradient - mean_g) * r;
            }
        }
    }
}
