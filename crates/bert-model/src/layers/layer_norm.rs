//! LayerNorm with the configuration's epsilon.

use burn::nn::{LayerNorm, LayerNormConfig};
use burn::tensor::{Device, Tensor};

use crate::config::BertConfig;

/// Returns a LayerNorm with the configuration's epsilon (added inside the square root), gamma 1 and beta 0.
pub(crate) fn layer_norm(config: &BertConfig, device: &Device) -> LayerNorm {
    LayerNormConfig::new(config.hidden_size).with_epsilon(config.layer_norm_eps).init(device)
}

/// Returns gamma and beta.
pub(crate) fn affine(layer_norm: &LayerNorm) -> (Tensor<1>, Tensor<1>) {
    let beta = layer_norm.beta.as_ref().expect("BERT's LayerNorms have a beta");
    (layer_norm.gamma.val(), beta.val())
}
