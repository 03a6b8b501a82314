//! AdapterFusion (Pfeiffer et al. 2021): several trained adapters in every layer, and an attention that mixes their
//! outputs.
//!
//! The adapters have the form `seq_bn` and are frozen. For each token, the query is the layer's normalized output; keys
//! and values are computed from the adapters' outputs:
//!
//! ```text
//! x = LayerNorm(h + input);  u_i = up_i(relu(down_i(x)))
//! p = softmax_i(dropout(Q x . K u_i))            no scaling by the width
//! LayerNorm(sum_i p_i V u_i + h + input)
//! ```
//!
//! Ports `BertFusion` of the `adapters` library with its `dynamic` configuration. V is initialized close to the
//! identity, and the penalty [`AdapterFusion::distance`] keeps it close.

use bert_random::normal;
use burn::module::Module;
use burn::tensor::Tensor;

use super::folder::AdapterFolder;
use crate::checkpoint::parameter_names::{NamedTensors, canonical, map_parameters};
use crate::config::adapter::{AdapterConfig, BottleneckForm, adapter_config_error};
use crate::error::{Error, LoadReport};
use crate::layers::adapter_fusion::AdapterFusion;
use crate::models::bert::BertModel;

/// Standard deviation of the initial query and key weights.
const STANDARD_DEVIATION: f64 = 0.02;

/// Initial off-diagonal value of V.
const OFF_DIAGONAL: f32 = 1e-6;

/// Returns true if the parameter of this name is a trainable parameter of a fusion.
pub fn is_fusion_parameter(name: &str) -> bool {
    name.contains(".fusion.") && !name.contains(".fusion.adapters.")
}

/// Returns the reduction factor of an adapter that can be fused in a model of this hidden size.
fn reduction(adapter: &AdapterFolder, hidden: usize) -> Result<f64, Error> {
    adapter.check_width(hidden)?;
    match adapter.adapter {
        AdapterConfig::Bottleneck { form: BottleneckForm::Pfeiffer, reduction_factor } => {
            Ok(reduction_factor)
        }
        other => {
            let name = adapter.name.as_deref().unwrap_or("lora");
            let reason = format!("of {name} is {}; only seq_bn (pfeiffer) can be fused", other.name());
            Err(adapter_config_error("config", reason))
        }
    }
}

impl BertModel {
    /// Returns the model with these adapters and a newly initialized attention in every layer. Only the attention has
    /// gradients. Each parameter of the attention is a pure function of the seed and the parameter's name.
    ///
    /// # Errors
    /// Fails when an adapter has a form that cannot be fused, when it was made for an encoder of a different width, or
    /// when its layers differ from the model's layers.
    pub fn with_fusion(
        self,
        adapters: &[AdapterFolder],
        dropout_prob: f64,
        seed: u64,
    ) -> Result<Self, Error> {
        let mut model = self.no_grad();
        let dense = &model.pooler.dense.weight;
        let hidden = dense.lazy_shape()[0];
        let device = dense.lazy_device();
        let reductions =
            adapters.iter().map(|adapter| reduction(adapter, hidden)).collect::<Result<Vec<_>, _>>()?;
        for layer in &mut model.encoder.layer {
            layer.attention.self_attention.lora = None;
            (layer.attention.output.adapter, layer.output.adapter) = (None, None);
            let mut fusion = AdapterFusion::zeroed(hidden, &reductions, dropout_prob, &device);
            fusion.adapters = fusion.adapters.into_iter().map(Module::no_grad).collect();
            layer.output.fusion = Some(fusion);
        }
        let mut weights = NamedTensors::new();
        for (number, adapter) in adapters.iter().enumerate() {
            let place = format!(".fusion.adapters.{number}.");
            weights.extend(
                adapter.encoder_tensors().map(|(name, tensor)| (name.replace(".adapter.", &place), tensor)),
            );
        }
        let mut missing = Vec::new();
        let model = map_parameters(model, |name, shape| {
            let identity = |at: usize| if at / shape[0] == at % shape[0] { 1.0 } else { OFF_DIAGONAL };
            let len = shape.iter().product();
            match name {
                _ if name.contains(".fusion.adapters.") => {
                    let name = canonical(name);
                    let found = weights.remove(&name).filter(|(found, _)| found == shape);
                    if found.is_none() {
                        missing.push(name);
                    }
                    found.map(|(_, values)| values)
                }
                _ if !name.contains(".fusion.") => None,
                _ if name.ends_with(".bias") => Some(vec![0.0; len]),
                _ if name.ends_with(".value.weight") => Some((0..len).map(identity).collect()),
                _ => Some(normal(&canonical(name), len, STANDARD_DEVIATION, seed)),
            }
        });
        if missing.is_empty() && weights.is_empty() {
            return Ok(model);
        }
        let unexpected = weights.into_keys().collect();
        Err(Error::from(LoadReport { missing, unexpected, ..LoadReport::default() }))
    }

    /// Returns the sum over layers of the squared distance of V from the identity, `[1]`; `None` without fusion.
    pub fn fusion_distance(&self) -> Option<Tensor<1>> {
        let distances = self.encoder.layer.iter().filter_map(|layer| layer.output.fusion.as_ref());
        distances.map(AdapterFusion::distance).reduce(|a, b| a + b)
    }
}
