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
//! [`folder`] reads and writes their files. [`fusion`] mixes several adapters; [`fusion_folder`] reads and writes its
//! files.

pub mod bottleneck;
pub mod folder;
pub mod fusion;
pub mod fusion_folder;
mod library_form;
pub mod lora;
mod peft_form;

use std::path::Path;

use bert_random::{normal, uniform};
use burn::module::Module;
use serde_json::Value;

use crate::attention::BertSelfAttention;
use crate::classification::BertForSequenceClassification;
use crate::error::Error;
use crate::model::BertModel;
use crate::parameters::{canonical, map_parameters};

pub use bottleneck::{Bottleneck, BottleneckForm};
pub use folder::{AdapterFolder, AdapterMetadata, read_adapter, save_adapter};
pub use fusion::{AdapterFusion, is_fusion_parameter};
pub use fusion_folder::{FusionFolder, read_fusion, save_fusion};
pub use lora::{LowRank, SelfAttentionLora};

/// An adapter's form and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AdapterConfig {
    /// Two dense layers with a bottleneck between them.
    Bottleneck {
        /// The position in the layer.
        form: BottleneckForm,
        /// The hidden size divided by the bottleneck width, at least 1.
        reduction_factor: f64,
    },
    /// Two low-rank matrices whose product is added to a projection's weight.
    Lora {
        /// The rank: columns of the first matrix, rows of the second.
        rank: usize,
        /// The product is multiplied by `alpha / rank`.
        alpha: f64,
    },
}

impl AdapterConfig {
    /// Returns the adapter's name in its library.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bottleneck { form, .. } => form.name(),
            Self::Lora { .. } => "lora",
        }
    }

    /// Checks that the sizes are valid for a model of this hidden size.
    ///
    /// # Errors
    ///
    /// [`Error::AdapterConfig`] with the key.
    pub fn validate(&self, hidden_size: usize) -> Result<(), Error> {
        match *self {
            Self::Bottleneck { reduction_factor, .. }
                if !reduction_factor.is_finite() || reduction_factor < 1.0 =>
            {
                Err(adapter_config_error(
                    "reduction_factor",
                    format!("is {reduction_factor}, but must be at least 1"),
                ))
            }
            Self::Bottleneck { .. } => Ok(()),
            Self::Lora { rank, .. } if rank == 0 || rank > hidden_size => {
                let reason = format!("is {rank}, but must be from 1 to the hidden size of {hidden_size}");
                Err(adapter_config_error("r", reason))
            }
            Self::Lora { alpha, .. } if !(alpha > 0.0 && alpha.is_finite()) => {
                Err(adapter_config_error("lora_alpha", format!("is {alpha}, but must be above 0")))
            }
            Self::Lora { .. } => Ok(()),
        }
    }
}

/// Formats a number as Python does: an integer without a decimal point.
fn number(value: f64) -> Value {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => (value as i64).into(),
        false => value.into(),
    }
}

pub(crate) fn adapter_config_error(key: &str, reason: impl Into<String>) -> Error {
    Error::AdapterConfig { key: key.into(), reason: reason.into() }
}

/// Returns true if a folder holds an adapter or fused adapters, but not a model.
pub fn is_adapter_folder(dir: &Path) -> bool {
    let adapter = dir.join(folder::CONFIG).is_file() || is_fusion_folder(dir);
    adapter && !dir.join("model.safetensors").is_file()
}

/// Returns true if a folder holds fused adapters.
pub fn is_fusion_folder(dir: &Path) -> bool {
    dir.join(fusion_folder::CONFIG).is_file()
}

/// Returns true if the parameter of this name belongs to an adapter.
pub fn is_adapter_parameter(name: &str) -> bool {
    name.contains(".adapter.") || name.contains(".lora.")
}

/// Returns the initial values of an adapter's parameter in the published layout, distributed as in the two libraries;
/// `None` for any other parameter.
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
    /// encoder (including LayerNorm) and pooler are frozen. Each parameter is a pure function of `(seed, its name)`.
    ///
    /// Replaces an existing adapter.
    ///
    /// # Errors
    ///
    /// [`Error::AdapterConfig`] if the size does not fit the model.
    pub fn with_adapter(self, adapter: AdapterConfig, seed: u64) -> Result<Self, Error> {
        let mut model = self.no_grad();
        let dense = &model.pooler.dense.weight;
        let (hidden, device) = (dense.lazy_shape()[0], dense.lazy_device());
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

impl BertForSequenceClassification {
    /// Adds an adapter as [`BertModel::with_adapter`] does; the classifier is trained together with the adapter.
    ///
    /// # Errors
    ///
    /// [`Error::AdapterConfig`] if the size does not fit the model.
    pub fn with_adapter(mut self, adapter: AdapterConfig, seed: u64) -> Result<Self, Error> {
        self.bert = self.bert.with_adapter(adapter, seed)?;
        Ok(self)
    }

    /// Adds fused adapters as [`BertModel::with_fusion`] does; the classifier is trained together with the attention.
    ///
    /// # Errors
    ///
    /// As [`BertModel::with_fusion`].
    pub fn with_fusion(
        mut self,
        adapters: &[AdapterFolder],
        dropout_prob: f64,
        seed: u64,
    ) -> Result<Self, Error> {
        self.bert = self.bert.with_fusion(adapters, dropout_prob, seed)?;
        Ok(self)
    }

    /// Merges LoRA as [`BertModel::with_lora_merged`] does.
    #[must_use]
    pub fn with_lora_merged(mut self) -> Self {
        self.bert = self.bert.with_lora_merged();
        self
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::architecture::Architecture;
    use crate::config::{BertConfig, Preset};
    use crate::dropout::Mode;
    use crate::model::BertInput;

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
