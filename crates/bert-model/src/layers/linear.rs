//! Dense layers and matrix products of a model.
//!
//! Also creates LayerNorms with the configuration's epsilon.

use bert_kernels::layer_norm::LayerNormParameters;
use bert_kernels::self_attention::Projection;
use bert_kernels::{Compute, dense};
use burn::nn::{Initializer, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use crate::config::BertConfig;

/// Returns a dense layer with bias, all zeros until the initialization or a checkpoint fills it.
pub fn linear(d_input: usize, d_output: usize, device: &Device) -> Linear {
    LinearConfig::new(d_input, d_output).with_initializer(Initializer::Zeros).init(device)
}

/// Returns a dense layer's matrix product, and its bias for the next operation.
pub fn product<const D: usize>(compute: Compute, layer: &Linear, x: Tensor<D>) -> (Tensor<D>, Tensor<1>) {
    let Projection { weight, bias } = projection(layer);
    (dense::product(compute, x, weight), bias)
}

/// Returns `x W + b` of a dense layer.
pub fn affine<const D: usize>(compute: Compute, layer: &Linear, x: Tensor<D>) -> Tensor<D> {
    let (output, bias) = product(compute, layer, x);
    output + bias.unsqueeze()
}

/// Returns the weight and the bias of a dense layer.
pub(crate) fn projection(layer: &Linear) -> Projection {
    let bias = layer.bias.as_ref().expect("BERT's dense layers have biases");
    Projection { weight: layer.weight.val(), bias: bias.val() }
}

/// Returns a LayerNorm with the configuration's epsilon (added inside the square root), gamma 1 and beta 0.
pub(crate) fn layer_norm(config: &BertConfig, device: &Device) -> LayerNorm {
    LayerNormConfig::new(config.hidden_size).with_epsilon(config.layer_norm_eps).init(device)
}

/// Returns the parameters of a LayerNorm with this epsilon.
pub fn parameters(layer_norm: &LayerNorm, epsilon: f64) -> LayerNormParameters {
    let beta = layer_norm.beta.as_ref().expect("BERT's LayerNorms have a beta");
    LayerNormParameters { gamma: layer_norm.gamma.val(), beta: beta.val(), epsilon }
}
