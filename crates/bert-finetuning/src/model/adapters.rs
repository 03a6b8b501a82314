//! Implements `finetune --adapter`, which adds an adapter to the model, and `--fusion`, which trains an attention layer
//! over several trained adapters. Builds the models and counts the trained parameters. Also implements
//! `--trainable-layers` and `--layer-decay`.
//!
//! Only the adapters in the encoder are trained. The encoder stays in training mode, so it applies dropout as in a full
//! fine-tuning; the `adapters` library does the same.

use std::fmt;
use std::path::PathBuf;

use bert_inference::encoder_record::check_recorded_encoder;
use bert_inference::examples::ClassifierModel;
use bert_model::{
    AdapterConfig, AdapterFolder, Architecture, BertForMultipleChoice, BertForSequenceClassification,
    BertWithFeatureHead, is_adapter_parameter, is_fusion_parameter, named_parameters, read_adapter,
};
use bert_storage::exists;
use bert_training::{Error, Optimizer, check, check_value};
use burn::module::Module;
use serde::{Deserialize, Serialize};

use crate::config::FinetuneConfig;
use crate::setup::Setup;

/// The number of trained parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainedParameters {
    /// Trained parameters.
    pub trained: usize,
    /// All parameters of the model, including adapter and head.
    pub all: usize,
    /// `trained / all`
    pub share: f64,
}

impl TrainedParameters {
    pub(crate) fn new<M: Architecture>(config: &FinetuneConfig, model: &M, layers: usize) -> Self {
        let is_trained = |name: &str| match (config.freeze_encoder, config.adapters.adapter) {
            (false, None) if !config.adapters.fusion.is_empty() => {
                !name.starts_with("bert.") || is_fusion_parameter(name)
            }
            (false, None) => config.is_layer_trained(name, layers),
            (true, _) => !name.starts_with("bert."),
            (false, Some(_)) => !name.starts_with("bert.") || is_adapter_parameter(name),
        };
        let mut trained = 0;
        let mut all = 0;
        for (name, _, shape) in named_parameters(model) {
            let size = shape.iter().product::<usize>();
            all += size;
            trained += if is_trained(&name) { size } else { 0 };
        }
        Self { trained, all, share: trained as f64 / all as f64 }
    }
}

impl fmt::Display for TrainedParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trained, all, share } = self;
        write!(f, "{trained} of {all} ({:.2} %)", 100.0 * share)
    }
}

/// Weight of the fusion regularizer (the distance between each layer's value matrix and the identity) in the loss; same
/// value as the `adapters` library.
pub(crate) const FUSION_REGULARIZATION: f64 = 0.01;

/// Reads the adapters of `--fusion`. For an output folder of a fine-tuning, reads the adapter of its best run.
pub(crate) fn read_adapters(folders: &[PathBuf]) -> Result<Vec<AdapterFolder>, Error> {
    let mut adapters: Vec<AdapterFolder> = Vec::new();
    for folder in folders {
        let inside = folder.join("model");
        let folder = if exists(&inside.join("adapter_config.json"))? { inside } else { folder.clone() };
        let adapter = read_adapter(&folder)?;
        let name = adapter.name.as_deref().unwrap_or("lora");
        let reason = format!("{}: two adapters have the name {name}; rename one folder", folder.display());
        let is_new = adapters.iter().all(|other| other.name != adapter.name);
        check(is_new, "fusion", &reason)?;
        adapters.push(adapter);
    }
    Ok(adapters)
}

/// Support for adapters in the encoder, which only some classifiers have.
pub(crate) trait AdapterSupport: ClassifierModel {
    /// Returns the model with a new adapter, or with the adapters of `--fusion` and a new attention over them, if
    /// requested. `fresh` names the tensors that the checkpoint lacks.
    fn with_adapters(self, _setup: Setup<'_>, _fresh: &[&String], _seed: u64) -> Result<Self, Error> {
        Ok(self)
    }

    /// Returns the model, if its class supports adapters.
    fn as_sequence_classifier(&self) -> Option<&BertForSequenceClassification> {
        None
    }
}

impl AdapterSupport for BertForSequenceClassification {
    fn with_adapters(mut self, setup: Setup<'_>, fresh: &[&String], seed: u64) -> Result<Self, Error> {
        let Setup { config, checkpoint, .. } = setup;
        let adapter = config.adapter_config()?;
        let fusion = &config.adapters.fusion;
        if adapter.is_none() && fusion.is_empty() {
            return Ok(self);
        }
        let flag = if fusion.is_empty() { "adapter" } else { "fusion" };
        let reason = format!("the checkpoint has no {fresh:?}, and an adapter folder cannot store them");
        check(fresh.is_empty(), flag, &reason)?;
        if let Some(AdapterConfig::Lora { rank, .. }) = adapter {
            let hidden = checkpoint.model_config.hidden_size;
            let expected = format!("from 1 to the hidden size of {hidden}");
            check_value(rank <= hidden, "lora_rank", rank, expected)?;
        }
        self.bert = match adapter {
            Some(adapter) => self.bert.with_adapter(adapter, seed)?,
            None => {
                let dropout_prob = checkpoint.model_config.attention_probs_dropout_prob;
                let adapters = read_adapters(fusion)?;
                for adapter in &adapters {
                    check_recorded_encoder(&adapter.path, &checkpoint.folder, "checkpoint")?;
                }
                self.bert.with_fusion(&adapters, dropout_prob, seed)?
            }
        };
        Ok(self)
    }

    fn as_sequence_classifier(&self) -> Option<&BertForSequenceClassification> {
        Some(self)
    }
}

impl AdapterSupport for BertForMultipleChoice {}

impl AdapterSupport for BertWithFeatureHead {}

/// Returns the depth of a parameter in the encoder: 0 for the embeddings, 1 for the first layer, `None` for pooler and
/// heads.
fn depth(name: &str) -> Option<usize> {
    if name.starts_with("bert.embeddings.") {
        return Some(0);
    }
    let number = name.strip_prefix("bert.encoder.layer.")?.split('.').next()?;
    number.parse::<usize>().ok().map(|layer| layer + 1)
}

impl FinetuneConfig {
    /// Returns whether the parameter is trained in a model of `layers` layers, ignoring adapters and frozen encoders.
    pub(crate) fn is_layer_trained(&self, name: &str, layers: usize) -> bool {
        let frozen = self.trainable_layers.map(|trained| layers - trained);
        match (frozen, depth(name)) {
            (Some(frozen), Some(depth)) => depth > frozen,
            _ => true,
        }
    }

    /// Returns the model with gradients enabled for the trained layers only.
    ///
    /// # Errors
    /// Fails when the model has too few layers.
    pub(crate) fn with_trained_layers<M: Architecture>(&self, model: M, layers: usize) -> Result<M, Error> {
        if self.freeze_encoder {
            // A graph without a backward pass would never be freed.
            return Ok(model.map_encoder(Module::no_grad));
        }
        let Some(trained) = self.trainable_layers else { return Ok(model) };
        let reason = format!("{trained} of a model with {layers} layers");
        check(trained <= layers, "trainable_layers", &reason)?;
        Ok(model.map_encoder(|bert| bert.with_top_layers_trained(trained)))
    }

    /// Returns the optimizer with layer-wise learning rates.
    pub(crate) fn with_layer_rates(&self, optimizer: Optimizer, layers: usize) -> Optimizer {
        let Some(decay) = self.layer_decay else { return optimizer };
        optimizer.with_rates(|name| match depth(name) {
            Some(depth) => decay.powi((layers + 1 - depth) as i32),
            None => 1.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::holdout::tests::config;

    #[test]
    fn layers_are_counted_from_the_top() {
        let names = ["bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.output.dense.bias"];
        let names = [
            names[0],
            names[1],
            "bert.encoder.layer.11.output.dense.bias",
            "bert.pooler.dense.weight",
            "classifier.bias",
        ];
        assert_eq!(names.map(depth), [Some(0), Some(1), Some(12), None, None]);
        let trained = |flags: &[&str]| names.map(|name| config(flags).is_layer_trained(name, 12));
        assert_eq!(trained(&[]), [true; 5]);
        assert_eq!(trained(&["--trainable-layers", "12"]), [false, true, true, true, true]);
        assert_eq!(trained(&["--trainable-layers", "1"]), [false, false, true, true, true]);
        assert_eq!(trained(&["--trainable-layers", "0"]), [false, false, false, true, true]);
    }
}
