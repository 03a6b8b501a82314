//! BERT without a head: embeddings, encoder and pooler.
//!
//! Ports `BertModel` of the reference's `modeling.py`. [`BertModel::forward`] turns a batch of ids ([`BertInput`])
//! into the hidden states of every token and the pooled output ([`BertOutput`]).
//!
//! The embeddings are the sum of word, segment and position embeddings, followed by LayerNorm and dropout.
//!
//! Ports `embedding_lookup` and `embedding_postprocessor` of the reference's `modeling.py`. Positions are learned and
//! absolute; other position encodings are not supported.

use bert_kernels::Compute;
use bert_kernels::embeddings::{Tables, embeddings};
use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, Initializer, LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor, assert_shape};

use crate::config::BertConfig;
use crate::layers::attention::attention_bias;
use crate::layers::dropout::{Mode, SelectedTokens, Site};
use crate::layers::encoder::BertEncoder;
use crate::layers::linear::{layer_norm, linear, parameters};

/// One batch of token ids, padded to one length.
#[derive(Debug, Clone)]
pub struct BertInput {
    /// `[batch, seq]`: rows of the vocabulary.
    pub input_ids: Tensor<2, Int>,
    /// `[batch, seq]`: 1 for a real token, 0 for padding.
    pub input_mask: Tensor<2, Int>,
    /// `[batch, seq]`: 0 for the first text, 1 for the second.
    pub segment_ids: Tensor<2, Int>,
}

/// Output of the encoder for a batch.
#[derive(Debug, Clone)]
pub struct BertOutput {
    /// `[batch, seq, hidden]`: the last layer.
    pub sequence_output: Tensor<3>,
    /// `[batch, hidden]`: `tanh(dense(first token))`.
    pub pooled_output: Tensor<2>,
}

/// Output, hidden states and attention probabilities of a batch, without dropout.
#[derive(Debug, Clone)]
pub struct BertStates {
    /// The output of [`BertModel::forward`].
    pub output: BertOutput,
    /// `layers + 1` times `[batch, seq, hidden]`: the embeddings, then each layer.
    pub hidden_states: Vec<Tensor<3>>,
    /// `layers` times `[batch, heads, seq, seq]`: the probabilities of each layer.
    pub attentions: Vec<Tensor<4>>,
}

/// A dense layer with tanh on the first token.
#[derive(Module, Debug)]
pub struct BertPooler {
    /// `hidden -> hidden`.
    pub dense: Linear,
}

impl BertPooler {
    /// Returns `tanh(dense(first token))`.
    ///
    /// # Shapes
    /// - sequence_output: `[batch, seq, hidden]`
    /// - output: `[batch, hidden]`
    pub fn forward(&self, sequence_output: Tensor<3>) -> Tensor<2> {
        let [batch, _, hidden] = sequence_output.dims();
        self.pool(sequence_output.narrow(1, 0, 1).reshape([batch, hidden]))
    }

    /// Returns `tanh(dense(first token))`.
    ///
    /// # Shapes
    /// - first and output: `[batch, hidden]`
    pub fn pool(&self, first: Tensor<2>) -> Tensor<2> {
        self.dense.forward(first).tanh()
    }
}

/// BERT without a head.
#[derive(Module, Debug)]
pub struct BertModel {
    /// Maps ids to the first hidden states.
    pub embeddings: BertEmbeddings,
    /// The layers.
    pub encoder: BertEncoder,
    /// Maps the hidden state of the first token to the pooled output.
    pub pooler: BertPooler,
}

impl BertModel {
    /// Returns the modules with zeros in every table and matrix.
    pub(super) fn with_zeros(config: &BertConfig, device: &Device) -> Self {
        Self {
            embeddings: BertEmbeddings::zeroed(config, device),
            encoder: BertEncoder::zeroed(config, device),
            pooler: BertPooler { dense: linear(config.hidden_size, config.hidden_size, device) },
        }
    }

    /// Returns the model with gradients for the pooler and the last `layers` layers only.
    #[must_use]
    pub fn with_top_layers_trained(mut self, layers: usize) -> Self {
        self.embeddings = self.embeddings.no_grad();
        let frozen = self.encoder.layer.len().saturating_sub(layers);
        let layer = self.encoder.layer.into_iter().enumerate();
        self.encoder.layer = layer.map(|(at, one)| if at < frozen { one.no_grad() } else { one }).collect();
        self
    }

    /// Returns the hidden states and the pooled output.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, seq, hidden]` and `[batch, hidden]`
    pub fn forward(&self, input: BertInput, mode: Mode) -> BertOutput {
        let sequence_output = self.sequence_output(input, mode);
        let pooled_output = self.pooler.forward(sequence_output.clone());
        BertOutput { sequence_output, pooled_output }
    }

    /// Returns the pooled output, which equals the pooled output of [`Self::forward`] up to rounding. This function is
    /// faster: after its attention, the last layer computes the first token only.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, hidden]`
    pub fn pooled_output(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        let tokens = SelectedTokens::first(input.input_ids.dims(), &input.input_ids.device());
        self.pooler.pool(self.selected_states(input, &tokens, mode))
    }

    /// Returns the hidden states of selected tokens after the last layer, which computes no other token after its
    /// attention.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[n, hidden]`
    pub fn selected_states(&self, input: BertInput, tokens: &SelectedTokens, mode: Mode) -> Tensor<2> {
        let (hidden, bias) = self.embed(input, mode);
        self.encoder.forward_selected(hidden, bias, tokens, mode)
    }

    /// Returns the hidden states of the last layer.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, seq, hidden]`
    pub fn sequence_output(&self, input: BertInput, mode: Mode) -> Tensor<3> {
        let (hidden, bias) = self.embed(input, mode);
        self.encoder.forward(hidden, bias, mode)
    }

    /// Returns all hidden states and attention probabilities, without dropout.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: see [`BertStates`]
    pub fn forward_with_states(&self, input: BertInput) -> BertStates {
        let (hidden, bias) = self.embed(input, Mode::Eval);
        let (hidden_states, attentions) = self.encoder.states_with_attention(hidden, bias);
        let sequence_output = hidden_states[hidden_states.len() - 1].clone();
        let pooled_output = self.pooler.forward(sequence_output.clone());
        BertStates { output: BertOutput { sequence_output, pooled_output }, hidden_states, attentions }
    }

    /// Returns the attention weights of the fused adapters, without dropout; an empty list without fused adapters.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `layers` times `[batch, seq, adapters]`
    pub fn fusion_shares(&self, input: BertInput) -> Vec<Tensor<3>> {
        let (hidden, bias) = self.embed(input, Mode::Eval);
        self.encoder.fusion_shares(hidden, bias)
    }

    /// Returns all hidden states, without dropout and without storing the attention probabilities.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `layers + 1` times `[batch, seq, hidden]`: the embeddings, then each layer
    pub fn hidden_states(&self, input: BertInput) -> Vec<Tensor<3>> {
        let (hidden, bias) = self.embed(input, Mode::Eval);
        self.encoder.states(hidden, bias, Mode::Eval)
    }

    /// Returns the embeddings and the attention bias.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, seq, hidden]` and `[batch, 1, 1, seq]`
    pub fn embed(&self, input: BertInput, mode: Mode) -> (Tensor<3>, Tensor<4>) {
        let [batch, seq] = input.input_ids.dims();
        assert_shape!(input.input_mask, [batch, seq]);
        let bias = attention_bias(input.input_mask);
        let hidden = self.embeddings.forward(input.input_ids, input.segment_ids, mode);
        (hidden, bias)
    }
}

/// The three tables and their LayerNorm.
#[derive(Module, Debug)]
pub struct BertEmbeddings {
    /// `[vocab_size, hidden]`; the masked-LM head projects onto this same table.
    pub word_embeddings: Embedding,
    /// `[max_position_embeddings, hidden]`.
    pub position_embeddings: Embedding,
    /// `[type_vocab_size, hidden]`.
    pub token_type_embeddings: Embedding,
    /// LayerNorm over the last axis.
    pub layer_norm: LayerNorm,
    pub(crate) hidden_dropout_prob: f64,
    layer_norm_eps: f64,
    #[module(skip)]
    compute: Compute,
}

impl BertEmbeddings {
    pub(crate) fn zeroed(config: &BertConfig, device: &Device) -> Self {
        let table = |rows| {
            EmbeddingConfig::new(rows, config.hidden_size).with_initializer(Initializer::Zeros).init(device)
        };
        Self {
            word_embeddings: table(config.vocab_size),
            position_embeddings: table(config.max_position_embeddings),
            token_type_embeddings: table(config.type_vocab_size),
            layer_norm: layer_norm(config, device),
            hidden_dropout_prob: config.hidden_dropout_prob,
            layer_norm_eps: config.layer_norm_eps,
            compute: config.compute,
        }
    }

    /// Returns the embeddings of one batch.
    ///
    /// # Shapes
    /// - input_ids, segment_ids: `[batch, seq]`, `seq <= max_position_embeddings`
    /// - output: `[batch, seq, hidden]`
    pub fn forward(&self, input_ids: Tensor<2, Int>, segment_ids: Tensor<2, Int>, mode: Mode) -> Tensor<3> {
        let [_, seq] = input_ids.dims();
        let tables = Tables {
            word: self.word_embeddings.weight.val(),
            token_type: self.token_type_embeddings.weight.val(),
            position: self.position_embeddings.weight.val(),
        };
        let [_, hidden] = tables.word.dims();
        let dropout = mode.site(Site::Embeddings).dropout(self.hidden_dropout_prob, seq * hidden);
        embeddings(
            self.compute,
            tables,
            [input_ids, segment_ids],
            parameters(&self.layer_norm, self.layer_norm_eps),
            dropout,
        )
    }
}

#[cfg(test)]
mod tests {
    use bert_kernels::{Kernels, Precision};
    use burn::module::Param;
    use burn::tensor::{TensorData, Tolerance};

    use super::*;
    use crate::config::Preset;
    use crate::models::architecture::Architecture;
    use crate::models::pretraining::{BertForPreTraining, PretrainingInput};

    fn input(device: &Device) -> BertInput {
        let ids: Vec<i32> = (0..16).map(|i| 1 + i * 5 % 40).collect();
        let ids = Tensor::from_data(TensorData::new(ids, [2, 8]), device);
        BertInput { input_mask: ids.ones_like(), segment_ids: ids.zeros_like(), input_ids: ids }
    }

    /// Returns a model without dropout, and one model per dropout site with dropout at that site only.
    fn one_site_each(device: &Device) -> (BertForPreTraining, Vec<(String, BertForPreTraining)>) {
        let mut config = BertConfig::preset(Preset::Tiny, 50);
        (config.hidden_size, config.num_attention_heads) = (16, 2);
        let mut none = BertForPreTraining::new(&config, 1, device);
        none.bert.embeddings.hidden_dropout_prob = 0.0;
        for layer in &mut none.bert.encoder.layer {
            layer.attention.self_attention.attention_probs_dropout_prob = 0.0;
            layer.attention.output.hidden_dropout_prob = 0.0;
            layer.output.hidden_dropout_prob = 0.0;
        }
        let mut some = Vec::new();
        let mut with = |name: String, set: &dyn Fn(&mut BertModel)| {
            let mut model = none.clone();
            set(&mut model.bert);
            some.push((name, model));
        };
        with("embeddings".into(), &|m| m.embeddings.hidden_dropout_prob = 0.3);
        for l in 0..config.num_hidden_layers {
            with(format!("probabilities {l}"), &|m| {
                let attention = &mut m.encoder.layer[l].attention;
                attention.self_attention.attention_probs_dropout_prob = 0.3;
            });
            with(format!("attention output {l}"), &|m| {
                m.encoder.layer[l].attention.output.hidden_dropout_prob = 0.3;
            });
            with(format!("feed-forward output {l}"), &|m| {
                m.encoder.layer[l].output.hidden_dropout_prob = 0.3;
            });
        }
        (none, some)
    }

    #[test]
    fn dropout_applies_at_every_site_only() {
        let device = Device::flex();
        let (none, some) = one_site_each(&device);
        let run = |model: &BertForPreTraining, mode| {
            let masked_lm_positions = Tensor::from_data([1, 9, 14], &device);
            let bert = input(&device);
            let output = model.forward(PretrainingInput { bert, masked_lm_positions }, mode);
            (output.prediction_logits.into_data(), output.seq_relationship_logits.into_data())
        };
        let train = Mode::train(11);
        let expected = run(&none, Mode::Eval);
        // With dropout disabled at all four kinds of sites, none is left, neither after the GELU nor in the heads.
        assert_eq!(run(&none, train), expected);
        for (name, model) in some {
            assert_eq!(run(&model, Mode::Eval), expected, "{name}");
            let dropped = run(&model, train);
            assert_ne!(dropped.0, expected.0, "{name}");
            assert_ne!(dropped.1, expected.1, "{name}");
            assert_eq!(dropped, run(&model, train), "{name}: the same seed, the same masks");
            let other = run(&model, Mode::train(12));
            assert_ne!(dropped, other, "{name}: another seed, other masks");
        }
    }

    /// Returns the hidden states of some tokens, and some gradients of the sum of their squares. If `selected` is true,
    /// the last layer computes these tokens only; otherwise it computes all tokens, from which these are selected.
    fn selected(model: &BertModel, selected: bool, mode: Mode, device: &Device) -> Vec<TensorData> {
        let positions = Tensor::<1, Int>::from_data([3, 11, 14], device);
        let tokens = SelectedTokens::first([2, 8], device).and(positions.clone());
        let states = if selected {
            model.selected_states(input(device), &tokens, mode)
        } else {
            let all = model.sequence_output(input(device), mode).reshape([16, -1]);
            let first = all.clone().select(0, Tensor::from_data([0, 8], device));
            Tensor::cat(vec![first, all.select(0, positions)], 0)
        };
        let gradients = states.clone().powi_scalar(2).sum().backward();
        let [first, last] = [0, 1].map(|layer| &model.encoder.layer[layer]);
        let weights = [
            &first.attention.self_attention.query.weight,
            &last.attention.output.dense.weight,
            &last.output.dense.weight,
        ];
        let gradient = |weight: &Param<Tensor<2>>| weight.val().grad(&gradients).unwrap().into_data();
        [states.into_data()].into_iter().chain(weights.map(gradient)).collect()
    }

    #[test]
    fn selected_tokens_equal_all_tokens() {
        let device = Device::flex().autodiff();
        for (precision, kernels, tolerance) in [
            (Precision::F32, Kernels::Fused, 1e-4),
            (Precision::F32, Kernels::Plain, 1e-4),
            (Precision::Bf16, Kernels::Fused, 5e-2),
        ] {
            let mut config = BertConfig::preset(Preset::Tiny, 50);
            config.compute = Compute { kernels, precision };
            let model = BertForPreTraining::new(&config, 1, &device).bert;
            for mode in [Mode::Eval, Mode::Train { seed: 3, first_sequence: 5 }] {
                let all = selected(&model, false, mode, &device);
                for (alone, all) in selected(&model, true, mode, &device).iter().zip(&all) {
                    alone.assert_approx_eq::<f32>(all, Tolerance::absolute(tolerance));
                }
            }
        }
    }

    #[test]
    fn sizes_of_bert_base() {
        let config = BertConfig::preset(Preset::Base, 30522);
        // Modules are lazy: nothing of this size is allocated.
        let model = BertModel::zeroed(&config, &Device::flex());
        assert_eq!(model.num_params(), 109_482_240);
        assert_eq!(config.parameter_count(), 109_482_240);
    }
}
