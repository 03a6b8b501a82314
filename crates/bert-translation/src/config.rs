//! The sizes and probabilities of a translation model.

use bert_kernels::Compute;
use serde::{Deserialize, Serialize};

/// How a translation model uses BERT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Fusion {
    /// A Transformer without BERT.
    None,
    /// BERT's last hidden states are the input of the encoder, in place of source embeddings.
    Embeddings,
    /// Every layer attends to BERT's last hidden states as well (Zhu et al., ICLR 2020).
    #[default]
    Fused,
}

/// The sizes and probabilities of a translation model. A checkpoint has them in `translation.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranslationConfig {
    /// How the model uses BERT.
    pub fusion: Fusion,
    /// Tokens of the source vocabulary.
    pub source_vocab_size: usize,
    /// Tokens of the target vocabulary.
    pub target_vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Width of the feed-forward network.
    pub intermediate_size: usize,
    /// Heads of each attention; divides `hidden_size`.
    pub num_attention_heads: usize,
    /// Layers of the encoder.
    pub encoder_layers: usize,
    /// Layers of the decoder.
    pub decoder_layers: usize,
    /// Width of BERT's hidden states; 0 without BERT.
    pub bert_hidden_size: usize,
    /// Maximum number of tokens of a source or target sequence, special tokens included.
    pub max_length: usize,
    /// Dropout after the embeddings and before every residual.
    pub dropout_prob: f64,
    /// Drop-net's probability that a layer uses one of its two attentions alone.
    pub drop_net_prob: f64,
    /// Label smoothing: the share of the target distribution that is uniform over the vocabulary.
    pub label_smoothing: f64,
    /// Added to the variance in LayerNorm.
    pub layer_norm_eps: f64,
    /// Kernels and precision.
    #[serde(skip)]
    pub compute: Compute,
}

impl TranslationConfig {
    /// Returns whether the layers attend to BERT.
    pub fn is_fused(&self) -> bool {
        self.fusion == Fusion::Fused
    }

    /// Checks the sizes and probabilities.
    ///
    /// # Errors
    /// Returns the name of the wrong field and the rule that it breaks.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        let probability = |value: f64| (0.0..1.0).contains(&value);
        let rule = |good: bool, field, rule: &str| if good { Ok(()) } else { Err((field, rule.to_string())) };
        let heads = self.num_attention_heads;
        rule(
            self.hidden_size > 0 && self.hidden_size.is_multiple_of(2),
            "hidden_size",
            "must be even and at least 2",
        )?;
        rule(heads > 0 && self.hidden_size.is_multiple_of(heads), "heads", "must divide `.hidden_size`")?;
        rule(self.intermediate_size > 0, "intermediate_size", "must be at least 1")?;
        rule(self.encoder_layers > 0 && self.decoder_layers > 0, "layers", "must be at least 1")?;
        rule(self.max_length >= 3, "max_length", "must be at least 3")?;
        rule(probability(self.dropout_prob), "dropout", "must be at least 0 and below 1")?;
        rule((0.0..=1.0).contains(&self.drop_net_prob), "drop_net", "must be from 0 to 1")?;
        rule(probability(self.label_smoothing), "label_smoothing", "must be at least 0 and below 1")
    }
}
