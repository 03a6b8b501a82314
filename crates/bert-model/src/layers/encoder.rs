//! The encoder: a stack of layers, each with a self-attention block and a feed-forward block.
//!
//! Ports `transformer_model` of the reference's `modeling.py` (`BertEncoder` of `transformers`). Unlike burn's
//! `TransformerEncoderLayer`, it applies no dropout between the activation and the second projection.

use bert_kernels::feed_forward::feed_forward;
use bert_kernels::gelu::Gelu;
use bert_kernels::{Compute, PackedWeights};
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, assert_shape};

use crate::config::BertConfig;
use crate::layers::attention::{BertAttention, BertResidualOutput};
use crate::layers::dropout::{Mode, SelectedTokens, Site};
use crate::layers::linear::{linear, projection};

/// The first feed-forward projection and its activation.
#[derive(Module, Debug)]
pub struct BertIntermediate {
    /// `hidden -> intermediate`.
    pub dense: Linear,
    #[module(skip)]
    hidden_act: Gelu,
    #[module(skip)]
    compute: Compute,
    /// Packed weights of both feed-forward projections.
    #[module(skip)]
    packed: PackedWeights,
}

/// One layer: self-attention block, then feed-forward block.
#[derive(Module, Debug)]
pub struct BertLayer {
    /// The self-attention block.
    pub attention: BertAttention,
    /// The first projection of the feed-forward block.
    pub intermediate: BertIntermediate,
    /// The end of the feed-forward block: the projection `intermediate -> hidden`, dropout, residual and LayerNorm.
    pub output: BertResidualOutput,
}

impl BertLayer {
    fn zeroed(config: &BertConfig, device: &Device) -> Self {
        Self {
            attention: BertAttention::zeroed(config, device),
            intermediate: BertIntermediate {
                dense: linear(config.hidden_size, config.intermediate_size, device),
                hidden_act: config.hidden_act,
                compute: config.compute,
                packed: PackedWeights::default(),
            },
            output: BertResidualOutput::zeroed(config, config.intermediate_size, device),
        }
    }

    /// Returns the hidden states of all tokens, or of selected ones, and the attention weights of fused adapters, if
    /// there are any. Tokens that are not selected take part in the attention only.
    ///
    /// # Shapes
    /// - hidden: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    /// - output: `[batch, seq, hidden]`, or `[1, n, hidden]` for selected tokens
    /// - attention weights of fused adapters: `[batch, seq, adapters]`, or `[1, n, adapters]`
    pub fn forward(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        mode: Mode,
        layer: usize,
        tokens: Option<&SelectedTokens>,
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        self.feed_forward(self.attention.forward(hidden, bias, mode, layer, tokens), mode, layer, tokens)
    }

    /// Returns the hidden states and the attention probabilities, without dropout.
    ///
    /// # Shapes
    /// - hidden and output: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    /// - probabilities: `[batch, heads, seq, seq]`
    pub fn forward_with_attention(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        layer: usize,
    ) -> (Tensor<3>, Tensor<4>) {
        let (attended, probabilities) = self.attention.forward_with_attention(hidden, bias, layer);
        (self.feed_forward(attended, Mode::Eval, layer, None).0, probabilities)
    }

    /// Computes the feed-forward block of all tokens, or of selected ones.
    fn feed_forward(
        &self,
        attended: Tensor<3>,
        mode: Mode,
        layer: usize,
        tokens: Option<&SelectedTokens>,
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        let BertIntermediate { dense, hidden_act, compute, packed } = &self.intermediate;
        let ctx = compute.with_packed_weights(packed);
        let second = self.output.dense.weight.val();
        let narrow = feed_forward(ctx, attended.clone(), projection(dense), second, *hidden_act);
        self.output.finish(narrow, attended, mode, Site::FeedForwardOutput(layer), tokens)
    }
}

/// All layers of the encoder.
#[derive(Module, Debug)]
pub struct BertEncoder {
    /// The layers, from the first to the last.
    pub layer: Vec<BertLayer>,
}

impl BertEncoder {
    pub(crate) fn zeroed(config: &BertConfig, device: &Device) -> Self {
        let layer = (0..config.num_hidden_layers).map(|_| BertLayer::zeroed(config, device)).collect();
        Self { layer }
    }

    /// Returns the hidden states of the last layer.
    ///
    /// # Shapes
    /// - hidden and output: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    pub fn forward(&self, hidden: Tensor<3>, bias: Tensor<4>, mode: Mode) -> Tensor<3> {
        let [batch, seq, _] = hidden.dims();
        assert_shape!(bias, [batch, 1, 1, seq]);
        self.layer
            .iter()
            .enumerate()
            .fold(hidden, |hidden, (index, layer)| layer.forward(hidden, bias.clone(), mode, index, None).0)
    }

    /// Returns the hidden states of selected tokens after the last layer, which computes no other token after its
    /// attention.
    ///
    /// # Shapes
    /// - hidden: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    /// - output: `[n, hidden]`
    ///
    /// # Panics
    /// Panics if there are no layers.
    pub fn forward_selected(
        &self,
        mut hidden: Tensor<3>,
        bias: Tensor<4>,
        tokens: &SelectedTokens,
        mode: Mode,
    ) -> Tensor<2> {
        let (last, before) = self.layer.split_last().expect("at least one layer");
        for (index, layer) in before.iter().enumerate() {
            hidden = layer.forward(hidden, bias.clone(), mode, index, None).0;
        }
        last.forward(hidden, bias, mode, before.len(), Some(tokens)).0.squeeze_dim(0)
    }

    /// Returns the input of each layer, and the result of [`Self::forward_selected`].
    pub(crate) fn inputs_and_selected(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        tokens: &SelectedTokens,
        mode: Mode,
    ) -> (Vec<Tensor<3>>, Tensor<2>) {
        let (last, before) = self.layer.split_last().expect("at least one layer");
        let mut inputs = vec![hidden];
        for (index, layer) in before.iter().enumerate() {
            inputs.push(layer.forward(inputs[index].clone(), bias.clone(), mode, index, None).0);
        }
        let output = last.forward(inputs[before.len()].clone(), bias, mode, before.len(), Some(tokens)).0;
        (inputs, output.squeeze_dim(0))
    }

    /// Returns the attention weights of the fused adapters without dropout, `[batch, seq, adapters]` for each layer.
    /// The list is empty without fused adapters.
    pub(crate) fn fusion_shares(&self, mut hidden: Tensor<3>, bias: Tensor<4>) -> Vec<Tensor<3>> {
        let mut all = Vec::new();
        for (index, layer) in self.layer.iter().enumerate() {
            let (next, shares) = layer.forward(hidden, bias.clone(), Mode::Eval, index, None);
            all.extend(shares);
            hidden = next;
        }
        all
    }

    /// Returns the encoder's input and the hidden states after each layer.
    ///
    /// # Shapes
    /// - hidden: `[batch, seq, hidden]`; bias: `[batch, 1, 1, seq]`
    /// - output: `layers + 1` times `[batch, seq, hidden]`
    pub fn states(&self, hidden: Tensor<3>, bias: Tensor<4>, mode: Mode) -> Vec<Tensor<3>> {
        let mut states = vec![hidden];
        for (index, layer) in self.layer.iter().enumerate() {
            states.push(layer.forward(states[index].clone(), bias.clone(), mode, index, None).0);
        }
        states
    }

    /// Returns the encoder's input and the hidden states after each layer, and the attention probabilities of each
    /// layer, without dropout.
    ///
    /// # Shapes
    /// - hidden: `[batch, seq, hidden]`; bias: `[batch, 1, 1, seq]`
    /// - states: `layers + 1` times `[batch, seq, hidden]`; probabilities: `layers` times `[batch, heads, seq, seq]`
    pub fn states_with_attention(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
    ) -> (Vec<Tensor<3>>, Vec<Tensor<4>>) {
        let mut states = vec![hidden];
        let mut attentions = Vec::new();
        for (index, layer) in self.layer.iter().enumerate() {
            let (state, attention) = layer.forward_with_attention(states[index].clone(), bias.clone(), index);
            states.push(state);
            attentions.push(attention);
        }
        (states, attentions)
    }
}
