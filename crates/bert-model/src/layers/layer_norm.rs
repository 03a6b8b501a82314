//! LayerNorm with the configuration's epsilon.

use bert_kernels::layer_norm::LayerNormParameters;
use burn::nn::{LayerNorm, LayerNormConfig};
use burn::tensor::Device;

use crate::config::BertConfig;

/// Returns a LayerNorm with the configuration's epsilon (added inside the square root), gamma 1 and beta 0.
pub(crate) fn layer_norm(config: &BertConfig, device: &Device) -> LayerNorm {
    LayerNormConfig::new(config.hidden_size).with_epsilon(config.layer_norm_eps).init(device)
}

/// Returns the parameters of a LayerNorm with this epsilon.
pub(crate) fn parameters(layer_norm: &LayerNorm, epsilon: f64) -> LayerNormParameters {
    let beta = layer_norm.beta.as_ref().expect("BERT's LayerNorms have a beta");
    LayerNormParameters { gamma: layer_norm.gamma.val(), beta: beta.val(), epsilon }
}
