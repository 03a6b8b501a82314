//! Classifiers on the features of a frozen encoder: the mean of the tokens, one more dense layer on the pooled output,
//! or a recurrent network over the tokens.
//!
//! The encoder applies no dropout and receives no gradient. `transformers` has no class for these heads and must not
//! load such a folder. Therefore, `config.json` has a separate `model_type`, and the tensors of the head have different
//! names. The key `classifier_head` names the head.
//!
//! | head | features | then |
//! |---|---|---|
//! | `mean` | the mean of the tokens' last states, including `[CLS]` and `[SEP]` | dropout, classifier |
//! | `mlp` | the pooled output | dense, tanh, dropout, classifier |
//! | `gru` | the last state of a GRU over the tokens | dropout, classifier |
//! | `bilstm` | the last states of a forward and a backward LSTM over the tokens | dropout, classifier |

use std::str::FromStr;

use burn::module::Module;
use burn::nn::{Gru, GruConfig, Linear, Lstm, LstmConfig};
use burn::tensor::{Device, Int, Tensor};
use serde_json::Value;

use crate::config::BertConfig;
use crate::config::json::FEATURE_HEAD_CLASS;
use crate::error::{Error, config_key};
use crate::layers::dropout::{Mode, Site, dropout};
use crate::layers::linear::linear;
use crate::models::architecture::Architecture;
use crate::models::bert::{BertInput, BertModel};

const KEY: &str = "classifier_head";

/// Layers between the frozen encoder and the classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureHeadKind {
    /// The mean of the tokens.
    Mean,
    /// A dense layer with tanh on the pooled output.
    Mlp,
    /// A GRU over the tokens.
    Gru,
    /// A forward and a backward LSTM over the tokens.
    BiLstm,
}

impl FeatureHeadKind {
    /// Returns the name in `config.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Mlp => "mlp",
            Self::Gru => "gru",
            Self::BiLstm => "bilstm",
        }
    }
}

impl FromStr for FeatureHeadKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let all = [Self::Mean, Self::Mlp, Self::Gru, Self::BiLstm];
        let unknown = || config_key(KEY, format!("is {name:?}; mean, mlp, gru and bilstm are supported"));
        all.into_iter().find(|kind| kind.name() == name).ok_or_else(unknown)
    }
}

impl BertConfig {
    /// Returns this configuration with a head on frozen features.
    #[must_use]
    pub fn with_feature_head(mut self, kind: FeatureHeadKind) -> Self {
        self.extra.insert(KEY.to_string(), Value::from(kind.name()));
        self
    }

    /// Returns this configuration with a plain classifier.
    #[must_use]
    pub fn without_feature_head(mut self) -> Self {
        self.extra.remove(KEY);
        self
    }

    /// Returns the head on frozen features; `None` for a plain classifier.
    ///
    /// # Errors
    /// Fails if the name of the head is unknown.
    pub fn feature_head(&self) -> Result<Option<FeatureHeadKind>, Error> {
        match self.extra.get(KEY) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(name)) => name.parse().map(Some),
            Some(other) => Err(config_key(KEY, format!("is {other}, not a name"))),
        }
    }
}

/// Trained layers between the encoder and the classifier.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "a model has one head")]
pub enum FeatureHead {
    /// The layer of the MLP, `hidden -> hidden`; published as `dense`.
    Mlp(Linear),
    /// The GRU, `hidden -> hidden`; published as `gru`.
    Gru(Gru),
    /// The forward and the backward LSTM, `hidden -> hidden` each; published as `lstm`.
    BiLstm([Lstm; 2]),
}

/// BERT, frozen, with a head on its features.
#[derive(Module, Debug)]
pub struct BertWithFeatureHead {
    /// The encoder.
    pub bert: BertModel,
    /// The layers between the encoder and the classifier; `None` for the mean of the tokens.
    pub head: Option<FeatureHead>,
    /// `features -> labels`; published as `head.classifier`.
    pub head_classifier: Linear,
    classifier_dropout_prob: f64,
}

impl Architecture for BertWithFeatureHead {
    const NAME: &'static str = FEATURE_HEAD_CLASS;

    /// Returns the modules with zeros; a configuration without a feature head gets the MLP.
    fn zeroed(config: &BertConfig, device: &Device) -> Self {
        let kind = config.feature_head().ok().flatten().unwrap_or(FeatureHeadKind::Mlp);
        let hidden = config.hidden_size;
        let lstm = || LstmConfig::new(hidden, hidden, true).init(device);
        let head = match kind {
            FeatureHeadKind::Mean => None,
            FeatureHeadKind::Mlp => Some(FeatureHead::Mlp(linear(hidden, hidden, device))),
            FeatureHeadKind::Gru => Some(FeatureHead::Gru(GruConfig::new(hidden, hidden, true).init(device))),
            FeatureHeadKind::BiLstm => Some(FeatureHead::BiLstm([lstm(), lstm()])),
        };
        let features = if kind == FeatureHeadKind::BiLstm { 2 * hidden } else { hidden };
        Self {
            bert: BertModel::zeroed(config, device),
            head,
            head_classifier: linear(features, config.num_labels, device),
            classifier_dropout_prob: config.classifier_dropout_prob(),
        }
    }

    fn map_encoder(self, f: impl FnOnce(BertModel) -> BertModel) -> Self {
        Self { bert: f(self.bert), ..self }
    }
}

impl BertWithFeatureHead {
    /// Returns whether [`Self::features`] has no trained layers, so that its outputs can be cached.
    pub fn has_fixed_features(&self) -> bool {
        matches!(self.head, None | Some(FeatureHead::Mlp(_)))
    }

    /// Returns the features of a batch: the mean of the tokens, the pooled output, or the last states of the recurrent
    /// network.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, hidden]`, or `[batch, 2 * hidden]` for two LSTMs
    pub fn features(&self, input: BertInput) -> Tensor<2> {
        let mask = input.input_mask.clone();
        let tokens = |input| self.bert.sequence_output(input, Mode::Eval).detach();
        match &self.head {
            None => token_mean(tokens(input), &mask),
            Some(FeatureHead::Mlp(_)) => self.bert.pooled_output(input, Mode::Eval).detach(),
            Some(FeatureHead::Gru(gru)) => last_states(gru.forward(tokens(input), None), &mask),
            Some(FeatureHead::BiLstm([forward, backward])) => {
                let tokens = tokens(input);
                let ahead = forward.forward(tokens.clone(), None).0;
                let behind = backward.forward(reverse_tokens(tokens, &mask), None).0;
                Tensor::cat(vec![last_states(ahead, &mask), last_states(behind, &mask)], 1)
            }
        }
    }

    /// Returns the logits of features.
    ///
    /// # Shapes
    /// - features: as returned by [`Self::features`]
    /// - output: `[batch, labels]`
    pub fn classify(&self, features: Tensor<2>, mode: Mode) -> Tensor<2> {
        let features = match &self.head {
            Some(FeatureHead::Mlp(dense)) => dense.forward(features).tanh(),
            _ => features,
        };
        let features = dropout(features, self.classifier_dropout_prob, mode.site(Site::Classifier));
        self.head_classifier.forward(features)
    }
}

/// Returns the number of tokens of each row, `[batch, 1]`.
fn lengths(mask: &Tensor<2, Int>) -> Tensor<2, Int> {
    mask.clone().sum_dim(1)
}

/// Returns `row * seq`, `[batch, 1]`.
fn row_starts(mask: &Tensor<2, Int>) -> Tensor<2, Int> {
    let [batch, seq] = mask.dims();
    let rows = Tensor::<1, Int>::arange(0..batch as i64, &mask.device());
    rows.mul_scalar(seq as i64).reshape([batch, 1])
}

/// Returns the state at the last token of each row, `[batch, width]`.
fn last_states(states: Tensor<3>, mask: &Tensor<2, Int>) -> Tensor<2> {
    let [batch, seq, width] = states.dims();
    let last = (row_starts(mask) + lengths(mask)).sub_scalar(1).reshape([batch]);
    states.reshape([batch * seq, width]).select(0, last)
}

/// Returns the mean over the tokens of each row, `[batch, width]`.
fn token_mean(tokens: Tensor<3>, mask: &Tensor<2, Int>) -> Tensor<2> {
    let [batch, _, width] = tokens.dims();
    let mask_weights = mask.clone().float().unsqueeze_dim::<3>(2);
    (tokens * mask_weights).sum_dim(1).reshape([batch, width]) / lengths(mask).float()
}

/// Returns the tokens of each row in reverse order; the padding stays at the end.
fn reverse_tokens(tokens: Tensor<3>, mask: &Tensor<2, Int>) -> Tensor<3> {
    let [batch, seq, width] = tokens.dims();
    let places =
        Tensor::<1, Int>::arange(0..seq as i64, &mask.device()).reshape([1, seq]).repeat_dim(0, batch);
    let mirrored = lengths(mask).repeat_dim(1, seq).sub_scalar(1) - places.clone();
    let from =
        places.mask_where(mask.clone().equal_scalar(1), mirrored) + row_starts(mask).repeat_dim(1, seq);
    let rows = tokens.reshape([batch * seq, width]).select(0, from.reshape([batch * seq]));
    rows.reshape([batch, seq, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::parameter_names::named_parameters;
    use crate::config::Preset;

    fn config(kind: FeatureHeadKind) -> BertConfig {
        let mut config = BertConfig::preset(Preset::Tiny, 50);
        (config.hidden_size, config.num_attention_heads, config.intermediate_size) = (8, 2, 16);
        config.with_labels(&["a", "b", "c"]).with_feature_head(kind)
    }

    fn input(rows: &[&[i64]], seq: usize) -> BertInput {
        let device = Device::flex();
        let padded = |value: &dyn Fn(i64) -> i64| {
            let row =
                |row: &&[i64]| (0..seq).map(|at| row.get(at).map_or(0, |&id| value(id))).collect::<Vec<_>>();
            let values: Vec<i64> = rows.iter().flat_map(row).collect();
            Tensor::<1, Int>::from_data(&values[..], &device).reshape([rows.len(), seq])
        };
        BertInput { input_ids: padded(&|id| id), input_mask: padded(&|_| 1), segment_ids: padded(&|_| 0) }
    }

    fn values(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().try_to_vec().unwrap()
    }

    /// The features of a row do not depend on other rows or on padding.
    #[test]
    fn padding_does_not_matter() {
        use FeatureHeadKind::{BiLstm, Gru, Mean, Mlp};
        for kind in [Mean, Mlp, Gru, BiLstm] {
            let model = BertWithFeatureHead::new(&config(kind), 3, &Device::flex());
            let of =
                |rows: &[&[i64]], seq| values(model.classify(model.features(input(rows, seq)), Mode::Eval));
            let alone = of(&[&[2, 7, 9, 3]], 4);
            let together = of(&[&[2, 30, 11, 5, 4, 8, 3], &[2, 7, 9, 3]], 8);
            assert_eq!(alone.len(), 3);
            for (a, b) in alone.iter().zip(&together[3..]) {
                assert!((a - b).abs() < 1e-5, "{kind:?}: {a} {b}");
            }
        }
    }

    #[test]
    fn reversed_last_and_mean_ignore_padding() {
        let mask = input(&[&[1, 1, 1], &[1, 1, 1, 1]], 5).input_mask;
        let device = Device::flex();
        let tokens =
            Tensor::<1>::from_data([0., 1., 2., 3., 4., 5., 6., 7., 8., 9.], &device).reshape([2, 5, 1]);
        let back: Vec<f32> = reverse_tokens(tokens.clone(), &mask).into_data().try_to_vec().unwrap();
        assert_eq!(back, [2., 1., 0., 3., 4., 8., 7., 6., 5., 9.]);
        assert_eq!(values(last_states(tokens.clone(), &mask)), [2., 8.]);
        assert_eq!(values(token_mean(tokens, &mask)), [1., 6.5]);
    }

    #[test]
    fn recurrent_heads_depend_on_token_order() {
        let model = BertWithFeatureHead::new(&config(FeatureHeadKind::BiLstm), 3, &Device::flex());
        let features = values(model.features(input(&[&[2, 7, 9, 3]], 4)));
        assert_eq!(features.len(), 16);
        // The two directions have different weights.
        assert!(features[..8].iter().zip(&features[8..]).any(|(a, b)| (a - b).abs() > 1e-3));
    }

    #[test]
    fn parameters_keep_their_published_names() {
        use FeatureHeadKind::{BiLstm, Gru, Mean, Mlp};
        for (kind, first) in [
            (Mean, "head.classifier.weight"),
            (Mlp, "head.dense.weight"),
            (Gru, "head.gru.update_gate.input_transform.weight"),
            (BiLstm, "head.lstm.0.input_gate.input_transform.weight"),
        ] {
            let model = BertWithFeatureHead::zeroed(&config(kind), &Device::flex());
            let names: Vec<String> = named_parameters(&model).into_iter().map(|(name, ..)| name).collect();
            assert_eq!(names.iter().find(|name| !name.starts_with("bert.")).unwrap(), first);
        }
    }

    #[test]
    fn config_names_the_feature_head() {
        let config = config(FeatureHeadKind::Gru);
        assert_eq!(config.feature_head().unwrap(), Some(FeatureHeadKind::Gru));
        let mut other = config;
        other.extra.insert(KEY.into(), "cnn".into());
        let error = other.feature_head().unwrap_err();
        assert!(error.to_string().contains("mean, mlp, gru and bilstm are supported"), "{error}");
        other.extra.remove(KEY);
        assert_eq!(other.feature_head().unwrap(), None);
    }
}
