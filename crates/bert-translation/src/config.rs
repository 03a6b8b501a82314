//! The sizes and probabilities of a translation model.

use bert_kernels::Compute;
use bert_training::{Error, at_least_one, check_value};
use serde::{Deserialize, Serialize};

/// The use of BERT in a translation model.
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

/// The sizes and probabilities of a translation model. The file `translation.json` of a checkpoint contains
/// them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranslationConfig {
    /// The use of BERT.
    pub fusion: Fusion,
    /// Number of tokens in the source vocabulary.
    pub source_vocab_size: usize,
    /// Number of tokens in the target vocabulary.
    pub target_vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Width of the feed-forward network.
    pub intermediate_size: usize,
    /// Number of heads of each attention; a divisor of `hidden_size`.
    pub num_attention_heads: usize,
    /// Number of layers of the encoder.
    pub encoder_layers: usize,
    /// Number of layers of the decoder.
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
    /// The constant that LayerNorm adds to the variance.
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
    /// Fails when a value is invalid; the error names the setting.
    pub fn validate(&self) -> Result<(), Error> {
        let hidden = self.hidden_size;
        let heads = self.num_attention_heads;
        let is_even = hidden > 0 && hidden.is_multiple_of(2);
        check_value(is_even, "hidden_size", hidden, "even and at least 2")?;
        let divides = heads > 0 && hidden.is_multiple_of(heads);
        check_value(divides, "heads", heads, format!("a divisor of `.hidden_size` ({hidden})"))?;
        at_least_one("intermediate_size", Some(self.intermediate_size))?;
        at_least_one("layers", Some(self.encoder_layers.min(self.decoder_layers)))?;
        check_value(self.max_length >= 3, "max_length", self.max_length, "at least 3")?;
        let share = self.drop_net_prob;
        check_value((0.0..=1.0).contains(&share), "drop_net", share, "from 0 to 1")?;
        [("dropout", self.dropout_prob), ("label_smoothing", self.label_smoothing)].into_iter().try_for_each(
            |(setting, share)| {
                check_value((0.0..1.0).contains(&share), setting, share, "at least 0 and below 1")
            },
        )
    }
}
