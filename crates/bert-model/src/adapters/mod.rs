//! Adapters and LoRA: a small number of weights that are trained for a task while the encoder is frozen.
//!
//! | form | where | what is added |
//! |---|---|---|
//! | Pfeiffer (`seq_bn`) | after the feed-forward network | `up(relu(down(LayerNorm(h + input))))` |
//! | Houlsby (`double_seq_bn`) | after attention and after the feed-forward network | `up(swish(down(h)))` |
//! | parallel (`par_bn`) | in parallel with the feed-forward network | `4 up(relu(down(input)))` |
//! | LoRA | in the query and value projections | `alpha / rank * x A B` |
//!
//! `h` is the output of the last projection of the attention or feed-forward block, after dropout; `input` is the
//! residual. The layer's own residual and LayerNorm follow the sum. The first three forms are placed as in the
//! `adapters` library (Pfeiffer et al. 2020, Houlsby et al. 2019, He et al. 2021), LoRA as in PEFT (Hu et al. 2021).
//!
//! The layers are in [`crate::layers`]. This folder attaches them to a model: [`BertModel::with_adapter`] adds one
//! adapter, `attach_fusion` mixes several. `folder` and `fusion_folder` read and write the files of adapters.
//! `adapters_library_format` and `peft_format` translate the tensor names and the keys of the two libraries.

pub(crate) mod adapters_library_format;
pub(crate) mod attach_fusion;
pub(crate) mod folder;
pub(crate) mod fusion_folder;
pub(crate) mod peft_format;

use bert_random::{normal, uniform};
use burn::module::Module;

use crate::checkpoint::parameter_names::{canonical, map_parameters};
use crate::config::adapter::AdapterConfig;
use crate::error::Error;
use crate::layers::attention::BertSelfAttention;
use crate::models::bert::BertModel;

pub use crate::adapters::attach_fusion::is_fusion_parameter;
pub(crate) use crate::config::adapter::BottleneckForm;
pub use crate::layers::adapter_fusion::AdapterFusion;
pub(crate) use crate::layers::bottleneck_adapter::{Bottleneck, SelfAttentionLora};
pub use folder::{AdapterFolder, AdapterMetadata, read_adapter};
pub use fusion_folder::{FusionFolder, read_fusion, save_fusion};

/// Returns true if the parameter of this name belongs to an adapter.
pub fn is_adapter_parameter(name: &str) -> bool {
    name.contains(".adapter.") || name.contains(".lora.")
}

/// Returns the initial values of an adapter's parameter in the published layout; `None` for any other parameter. The
/// values have the distributions of the two libraries.
///
/// Weights of Pfeiffer's and Houlsby's adapters are normal with standard deviation 0.02 (`init_weights = "bert"`), so
/// their initial contribution is close to zero. For parallel adapters (`"mam_adapter"`) and LoRA, the first matrix is
/// uniform within `1 / sqrt(inputs)` (`kaiming_uniform_` with `a = sqrt(5)`) and the second is zero, so their initial
/// contribution is zero. All biases are zero. The random numbers come from `bert_random`, not from PyTorch.
fn initial_values(adapter: AdapterConfig, name: &str, shape: &[usize], seed: u64) -> Option<Vec<f32>> {
    if !is_adapter_parameter(name) {
        return None;
    }
    let name = canonical(name);
    let len = shape.iter().product();
    let first = name.ends_with(".down.weight") || name.ends_with(".lora_A.weight");
    Some(match adapter {
        _ if name.ends_with(".bias") => vec![0.0; len],
        AdapterConfig::Bottleneck { form: BottleneckForm::Pfeiffer | BottleneckForm::Houlsby, .. } => {
            normal(&name, len, 0.02, seed)
        }
        _ if first => uniform(&name, len, 1.0 / (shape[1] as f64).sqrt(), seed),
        _ => vec![0.0; len],
    })
}

impl BertModel {
    /// Returns the model with a newly initialized adapter in every layer. Only the adapters have gradients: embeddings,
    /// encoder (including LayerNorm) and pooler are frozen. Each parameter is a pure function of the seed and the
    /// parameter's name.
    ///
    /// Replaces an existing adapter.
    ///
    /// # Errors
    /// Fails if the size does not fit the model.
    pub fn with_adapter(self, adapter: AdapterConfig, seed: u64) -> Result<Self, Error> {
        let mut model = self.no_grad();
        let dense = &model.pooler.dense.weight;
        let hidden = dense.lazy_shape()[0];
        let device = dense.lazy_device();
        adapter.validate(hidden)?;
        for layer in &mut model.encoder.layer {
            layer.attention.self_attention.lora = None;
            (layer.attention.output.adapter, layer.output.adapter) = (None, None);
            match adapter {
                AdapterConfig::Bottleneck { form, reduction_factor } => {
                    let fresh = || Bottleneck::zeroed(form, hidden, reduction_factor, &device);
                    layer.attention.output.adapter = form.after_attention().then(fresh);
                    layer.output.adapter = Some(fresh());
                }
                AdapterConfig::Lora { rank, alpha } => {
                    let lora = SelfAttentionLora::zeroed(hidden, rank, alpha, &device);
                    layer.attention.self_attention.lora = Some(lora);
                }
            }
        }
        Ok(map_parameters(model, |name, shape| initial_values(adapter, name, shape, seed)))
    }

    /// Returns the model with LoRA merged into the weights, in the shape of a model without LoRA. Keeps other adapters.
    #[must_use]
    pub fn with_lora_merged(mut self) -> Self {
        for layer in &mut self.encoder.layer {
            let BertSelfAttention { query, value, lora, .. } = &mut layer.attention.self_attention;
            if let Some(lora) = lora.take() {
                lora.query.merge_into(query);
                lora.value.merge_into(value);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::config::{BertConfig, Preset};
    use crate::layers::dropout::Mode;
    use crate::models::architecture::Architecture;
    use crate::models::bert::BertInput;

    /// A frozen encoder in training mode applies dropout in every block, with or without an adapter.
    #[test]
    fn dropout_precedes_the_adapter() {
        let device = Device::flex();
        let mut config = BertConfig::preset(Preset::Tiny, 50);
        (config.hidden_size, config.num_attention_heads) = (16, 2);
        (config.hidden_dropout_prob, config.attention_probs_dropout_prob) = (0.0, 0.0);
        let ids = Tensor::from_data([[1, 7, 9, 30, 4, 2]], &device);
        let input = BertInput { input_mask: ids.ones_like(), segment_ids: ids.zeros_like(), input_ids: ids };
        let run = |model: &BertModel, mode| model.forward(input.clone(), mode).pooled_output.into_data();
        let train = Mode::train(3);
        let forms = [BottleneckForm::Pfeiffer, BottleneckForm::Houlsby, BottleneckForm::Parallel];
        for form in forms {
            let adapter = AdapterConfig::Bottleneck { form, reduction_factor: 4.0 };
            let none = BertModel::new(&config, 1, &device).with_adapter(adapter, 1).unwrap();
            let expected = run(&none, Mode::Eval);
            assert_eq!(run(&none, train), expected, "nothing is left that could drop");
            let after_attention: fn(&mut BertModel) = |model| {
                model.encoder.layer[0].attention.output.hidden_dropout_prob = 0.3;
            };
            let after_feed_forward: fn(&mut BertModel) = |model| {
                model.encoder.layer[0].output.hidden_dropout_prob = 0.3;
            };
            for set in [after_attention, after_feed_forward] {
                let mut model = none.clone();
                set(&mut model);
                assert_eq!(run(&model, Mode::Eval), expected);
                assert_ne!(run(&model, train), expected, "{form:?}");
                assert_eq!(run(&model, train), run(&model, train));
            }
        }
    }
}
