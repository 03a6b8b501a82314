//! The encoder: a stack of layers, each self-attention and a feed-forward network.
//!
//! Ports `transformer_model` of the reference's `modeling.py`. Unlike burn's ready-made layer, it has no dropout
//! between the activation and the second projection.

use bert_kernels::feed_forward::feed_forward;
use bert_kernels::gelu::Gelu;
use bert_kernels::{Compute, PackedWeights};
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, assert_shape};

use crate::attention::{BertAttention, BertResidualOutput, linear, weight_and_bias};
use crate::config::BertConfig;
use crate::dropout::{Mode, Site};

/// The first feed-forward projection and its activation.
#[derive(Module, Debug)]
pub struct BertIntermediate {
    /// `hidden -> intermediate`.
    pub dense: Linear,
    #[module(skip)]
    hidden_act: Gelu,
    #[module(skip)]
    compute: Compute,
    /// Those of both projections.
    #[module(skip)]
    packed: PackedWeights,
}

/// One layer.
#[derive(Module, Debug)]
pub struct BertLayer {
    /// The first half.
    pub attention: BertAttention,
    /// The second half's wide projection.
    pub intermediate: BertIntermediate,
    /// The second half's narrow projection, `intermediate -> hidden`.
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

    /// The hidden states, and how much every token takes of each fused adapter.
    ///
    /// # Shapes
    ///
    /// - hidden and output: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    /// - shares: `[batch, seq, adapters]`
    pub fn forward(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        mode: Mode,
        layer: usize,
        keep: Option<&mut Vec<Tensor<4>>>,
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        let attended = self.attention.forward(hidden, bias, mode, layer, keep);
        let BertIntermediate { dense, hidden_act, compute, packed } = &self.intermediate;
        let (on, second) = (compute.keeping(packed), self.output.dense.weight.val());
        let narrow = feed_forward(on, attended.clone(), weight_and_bias(dense), second, *hidden_act);
        self.output.end(narrow, attended, mode, Site::FeedForwardOutput(layer))
    }
}

/// All layers.
#[derive(Module, Debug)]
pub struct BertEncoder {
    /// From the first to the last.
    pub layer: Vec<BertLayer>,
}

impl BertEncoder {
    pub(crate) fn zeroed(config: &BertConfig, device: &Device) -> Self {
        let layer = (0..config.num_hidden_layers).map(|_| BertLayer::zeroed(config, device)).collect();
        Self { layer }
    }

    /// The last layer's hidden states.
    ///
    /// # Shapes
    ///
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

    /// How much every token takes of each fused adapter, without dropout: `[batch, seq, adapters]` of each layer.
    pub(crate) fn fusion_shares(&self, mut hidden: Tensor<3>, bias: Tensor<4>) -> Vec<Tensor<3>> {
        let mut all = Vec::new();
        for (index, layer) in self.layer.iter().enumerate() {
            let (next, shares) = layer.forward(hidden, bias.clone(), Mode::Eval, index, None);
            all.extend(shares);
            hidden = next;
        }
        all
    }

    /// Every layer's hidden states, the input first, and every layer's attention probabilities in `attentions`.
    ///
    /// # Shapes
    ///
    /// - hidden: `[batch, seq, hidden]`; bias: `[batch, 1, 1, seq]`
    /// - output: `layers + 1` times `[batch, seq, hidden]`; attentions: `layers` times `[batch, heads, seq, seq]`
    pub fn states(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        mode: Mode,
        mut attentions: Option<&mut Vec<Tensor<4>>>,
    ) -> Vec<Tensor<3>> {
        let mut states = vec![hidden];
        for (index, layer) in self.layer.iter().enumerate() {
            let (hidden, keep) = (states[index].clone(), attentions.as_deref_mut());
            states.push(layer.forward(hidden, bias.clone(), mode, index, keep).0);
        }
        states
    }
}
