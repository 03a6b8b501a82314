//! [`BertConfig`]: the sizes of a model, the released presets, and the parameter and FLOP counts.
//!
//! A configuration is read from and written to `config.json`. Keys that this model does not use are preserved. Keys
//! that require a different model, such as relative positions, a decoder or a different activation, are rejected with
//! an error that names the key.

pub(crate) mod adapter;
pub(crate) mod json;

use std::collections::BTreeMap;
use std::str::FromStr;

use bert_kernels::Compute;
use bert_kernels::gelu::Gelu;
use serde_json::{Map, Value, json};

use crate::error::{Error, config_key};

/// The sizes that Google released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 2 layers, hidden size 128.
    Tiny,
    /// 4 layers, hidden size 256.
    Mini,
    /// 4 layers, hidden size 512.
    Small,
    /// 8 layers, hidden size 512.
    Medium,
    /// 12 layers, hidden size 768.
    Base,
    /// 24 layers, hidden size 1024.
    Large,
}

impl Preset {
    /// All presets, from the smallest to the largest.
    pub const ALL: [Self; 6] = [Self::Tiny, Self::Mini, Self::Small, Self::Medium, Self::Base, Self::Large];

    /// Returns the lower-case name.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the name, the number of layers and the hidden size.
    fn row(self) -> (&'static str, usize, usize) {
        match self {
            Self::Tiny => ("tiny", 2, 128),
            Self::Mini => ("mini", 4, 256),
            Self::Small => ("small", 4, 512),
            Self::Medium => ("medium", 8, 512),
            Self::Base => ("base", 12, 768),
            Self::Large => ("large", 24, 1024),
        }
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|preset| preset.name() == name).ok_or_else(|| {
            Error::usage(format!(
                "unknown model size `{name}`; the sizes are tiny, mini, small, medium, base and large"
            ))
        })
    }
}

/// The sizes and constants of one model. The fields have the names used in `config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct BertConfig {
    /// Number of rows of the word embedding table.
    pub vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Number of encoder layers.
    pub num_hidden_layers: usize,
    /// Number of attention heads; must divide `hidden_size`.
    pub num_attention_heads: usize,
    /// Width inside the feed-forward network.
    pub intermediate_size: usize,
    /// The activation of the feed-forward network and of the masked-LM head. `gelu` uses the error function, as in the
    /// reference of October 2018; `gelu_new` and `gelu_pytorch_tanh` are the tanh approximation that the reference has
    /// used since 2019.
    pub hidden_act: Gelu,
    /// Dropout on embeddings and on the two outputs of each layer.
    pub hidden_dropout_prob: f64,
    /// Dropout on the attention probabilities.
    pub attention_probs_dropout_prob: f64,
    /// Number of rows of the position embedding table: the maximum sequence length.
    pub max_position_embeddings: usize,
    /// Number of rows of the segment embedding table.
    pub type_vocab_size: usize,
    /// Standard deviation of the normal distribution of the initial weights, before truncation at 2 sigma.
    pub initializer_range: f64,
    /// The constant that LayerNorm adds to the variance, inside the square root.
    pub layer_norm_eps: f64,
    /// The id of `[PAD]`.
    pub pad_token_id: usize,
    /// Dropout before the classifier; `hidden_dropout_prob` if absent.
    pub classifier_dropout: Option<f64>,
    /// Number of outputs of the classifier; 1 for regression.
    pub num_labels: usize,
    /// The label names, by number.
    pub id2label: Option<BTreeMap<usize, String>>,
    /// The label numbers, by name.
    pub label2id: Option<BTreeMap<String, usize>>,
    /// `regression`, `single_label_classification`, or absent.
    pub problem_type: Option<String>,
    /// The kernels and the precision of the model. They are not a key of `config.json`: the same weights work with
    /// every setting.
    pub compute: Compute,
    /// All other keys of `config.json`.
    pub extra: Map<String, Value>,
}

/// Keys that name the function applied to the logits: in `transformers`, in older cross-encoders and in current ones.
const FUNCTION_KEYS: [&str; 3] =
    ["function_to_apply", "sbert_ce_default_activation_function", "sentence_transformers"];
/// The maximum value of any size.
const MAX_SIZE: usize = 1 << 24;
/// The maximum number of parameters, a hundred times BERT-large. A damaged or malicious file may ask for more.
const MAX_PARAMETERS: f64 = 34e9;

impl BertConfig {
    /// Returns the configuration of a released size, for a vocabulary of `vocab_size` words.
    pub fn preset(preset: Preset, vocab_size: usize) -> Self {
        let (_, num_hidden_layers, hidden_size) = preset.row();
        Self {
            vocab_size,
            hidden_size,
            num_hidden_layers,
            num_attention_heads: hidden_size / 64,
            intermediate_size: 4 * hidden_size,
            hidden_act: Gelu::Erf,
            hidden_dropout_prob: 0.1,
            attention_probs_dropout_prob: 0.1,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            initializer_range: 0.02,
            layer_norm_eps: 1e-12,
            pad_token_id: 0,
            classifier_dropout: None,
            num_labels: 2,
            id2label: None,
            label2id: None,
            problem_type: None,
            compute: Compute::default(),
            extra: Map::new(),
        }
    }

    /// Returns this configuration without a head's labels and without the function applied to its logits.
    #[must_use]
    pub fn without_outputs(mut self) -> Self {
        FUNCTION_KEYS.iter().for_each(|key| drop(self.extra.remove(*key)));
        Self { num_labels: 2, id2label: None, label2id: None, problem_type: None, ..self }
    }

    /// Returns this configuration with a classifier over these labels.
    pub fn with_labels(self, labels: &[impl AsRef<str>]) -> Self {
        let mut config = self.without_outputs();
        let named = || labels.iter().map(|label| label.as_ref().to_string()).enumerate();
        config.num_labels = labels.len();
        config.id2label = Some(named().collect());
        config.label2id = Some(named().map(|(id, label)| (label, id)).collect());
        config.problem_type = Some("single_label_classification".into());
        config
    }

    /// Returns this configuration with one regression output.
    pub fn with_regression(mut self) -> Self {
        self = self.with_labels(&["LABEL_0"]);
        self.problem_type = Some("regression".into());
        // Otherwise the pipeline of `transformers` and a cross-encoder apply the logistic function to a single output.
        self.extra.insert("function_to_apply".into(), "none".into());
        let identity = json!({ "activation_fn": "torch.nn.modules.linear.Identity" });
        self.extra.insert("sentence_transformers".into(), identity);
        self
    }

    /// Checks that the sizes form a valid model.
    ///
    /// # Errors
    /// Fails when a value is invalid; the error names the key of `config.json`.
    pub fn validate(&self) -> Result<(), Error> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
            ("num_labels", self.num_labels),
        ];
        if let Some((key, _)) = sizes.into_iter().find(|&(_, size)| size == 0) {
            return Err(config_key(key, "is 0, but must be at least 1"));
        }
        // The bounds are checked before any multiplication or allocation.
        if let Some((key, size)) = sizes.into_iter().find(|&(_, size)| size > MAX_SIZE) {
            return Err(config_key(key, format!("is {size}, but may be {MAX_SIZE} at most")));
        }
        let [vocabulary, h, inner, layers] =
            [self.vocab_size, self.hidden_size, self.intermediate_size, self.num_hidden_layers]
                .map(|n| n as f64);
        let parameters = vocabulary * h + layers * (4.0 * h * h + 2.0 * h * inner);
        if parameters > MAX_PARAMETERS {
            let reason = format!("is {layers}: the model would have about {parameters:.1e} parameters");
            return Err(config_key("num_hidden_layers", reason));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            let hidden = self.hidden_size;
            let heads = self.num_attention_heads;
            let reason = format!("is {hidden}, not a multiple of the {heads} attention heads");
            return Err(config_key("hidden_size", reason));
        }
        if self.pad_token_id >= self.vocab_size {
            let reason = format!("is {}, outside the vocabulary of {}", self.pad_token_id, self.vocab_size);
            return Err(config_key("pad_token_id", reason));
        }
        self.validate_values()?;
        self.validate_labels()
    }

    /// Checks probabilities and positive numbers.
    fn validate_values(&self) -> Result<(), Error> {
        let probabilities = [
            ("hidden_dropout_prob", self.hidden_dropout_prob),
            ("attention_probs_dropout_prob", self.attention_probs_dropout_prob),
            ("classifier_dropout", self.classifier_dropout_prob()),
        ];
        for (key, prob) in probabilities {
            if !(0.0..1.0).contains(&prob) {
                return Err(config_key(key, format!("is {prob}, but must be in [0, 1)")));
            }
        }
        let positive =
            [("initializer_range", self.initializer_range), ("layer_norm_eps", self.layer_norm_eps)];
        for (key, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(config_key(key, format!("is {value}, but must be above 0")));
            }
        }
        Ok(())
    }

    /// Checks that the labels are numbered from 0 without gaps and have different names, and that `label2id` gives
    /// these names the same numbers. `label2id` may have other names: `transformers` leaves its default names there if
    /// only `id2label` is set.
    fn validate_labels(&self) -> Result<(), Error> {
        let Some(names) = &self.id2label else {
            return match self.label2id {
                None => Ok(()),
                Some(_) => Err(config_key("id2label", "is missing, but `label2id` numbers labels")),
            };
        };
        if names.len() != self.num_labels {
            let reason = format!("names {} labels, but `num_labels` is {}", names.len(), self.num_labels);
            return Err(config_key("id2label", reason));
        }
        if !names.keys().copied().eq(0..self.num_labels) {
            return Err(config_key("id2label", "must number the labels from 0 without gaps"));
        }
        let mut numbers = BTreeMap::new();
        for (number, name) in names {
            if let Some(first) = numbers.insert(name, number) {
                let reason = format!(
                    "gives the name {name:?} to the labels {first} and {number}; give every label its own name"
                );
                return Err(config_key("id2label", reason));
            }
        }
        for (name, number) in self.label2id.iter().flatten() {
            if let Some(other) = numbers.get(name).filter(|other| **other != number) {
                let reason = format!("numbers {name:?} {number}, but `id2label` numbers it {other}");
                return Err(config_key("label2id", reason));
            }
        }
        Ok(())
    }

    /// Returns the dropout probability before the classifier.
    pub fn classifier_dropout_prob(&self) -> f64 {
        self.classifier_dropout.unwrap_or(self.hidden_dropout_prob)
    }

    /// Returns the number of parameters of embeddings, encoder and pooler.
    pub fn parameter_count(&self) -> usize {
        let h = self.hidden_size;
        let inner = self.intermediate_size;
        let dense = |input: usize, output: usize| input * output + output;
        let layer_norm = 2 * h;
        let rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size;
        let layer = 4 * dense(h, h) + dense(h, inner) + dense(inner, h) + 2 * layer_norm;
        rows * h + layer_norm + self.num_hidden_layers * layer + dense(h, h)
    }

    /// Returns [`Self::parameter_count`] plus the parameters of both pre-training heads. The tied table counts once.
    pub fn pretraining_parameter_count(&self) -> usize {
        let h = self.hidden_size;
        let masked_lm = h * h + h + 2 * h + self.vocab_size;
        self.parameter_count() + masked_lm + 2 * h + 2
    }

    /// Returns the floating-point operations of all matrix products for one sequence, forward and backward, padding
    /// included: `3 [layers + 2 P (H^2 + H V) + 2 (H^2 + 2 H)]` for `P` masked tokens, where `layers` is
    /// [`Self::layer_flops`].
    pub fn flops_per_sequence(&self, seq: usize, predictions: usize) -> f64 {
        let [h, v, p] = [self.hidden_size, self.vocab_size, predictions].map(|n| n as f64);
        let masked_lm = 2.0 * p * (h * h + h * v);
        let pooled = 2.0 * (h * h + 2.0 * h);
        3.0 * (self.layer_flops(seq, predictions) + masked_lm + pooled)
    }

    /// Returns the floating-point operations of the forward pass of all layers for one sequence of `S` tokens, `P` of
    /// them masked: `2 L S (4 H^2 + 2 H I) + 4 L S^2 H - 2 (S - P - 1) (H^2 + 2 H I)`. After its attention, the last
    /// layer computes only the first token and the masked tokens.
    pub fn layer_flops(&self, seq: usize, predictions: usize) -> f64 {
        let [l, h, i, s] =
            [self.num_hidden_layers, self.hidden_size, self.intermediate_size, seq].map(|n| n as f64);
        let after_attention = h * h + 2.0 * h * i;
        let left_out = seq.saturating_sub(predictions + 1) as f64;
        2.0 * l * s * (3.0 * h * h + after_attention) + 4.0 * l * s * s * h - 2.0 * left_out * after_attention
    }
}
