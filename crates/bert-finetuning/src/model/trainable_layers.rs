//! Implements `--trainable-layers` and `--layer-decay`: which layers are trained, and at what learning rate.

use bert_model::Architecture;
use bert_training::{Error, Optimizer, check};
use burn::module::Module;

use crate::config::FinetuneConfig;

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
