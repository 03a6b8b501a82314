//! The encoder: a stack of layers, each self-attention and a feed-forward network.
//!
//! Ports `transformer_model` of the reference's `modeling.py`. Unlike burn's ready-made layer, it has no dropout
//! between the activation and the second projection.

use bert_kernels::feed_forward::feed_forward;
use bert_kernels::gelu::{Gelu, bias_gelu};
use bert_kernels::{Compute, PackedWeights};
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, assert_shape};

use crate::attention::{BertAttention, BertResidualOutput, linear, product, weight_and_bias};
use crate::config::{BertConfig, HiddenAct};
use crate::dropout::{Mode, Site};

/// A dense layer and the activation, in the masked-LM head.
///
/// # Shapes
///
/// - x: `[.., d_input]`
/// - output: `[.., d_output]`
pub(crate) fn activated<const D: usize>(
    compute: Compute,
    dense: &Linear,
    x: Tensor<D>,
    hidden_act: HiddenAct,
) -> Tensor<D> {
    let (x, bias) = product(compute, dense, x);
    bias_gelu(compute, x, bias, form(hidden_act))
}

fn form(hidden_act: HiddenAct) -> Gelu {
    match hidden_act {
        HiddenAct::Gelu => Gelu::Erf,
        HiddenAct::GeluNew => Gelu::Tanh,
    }
}

/// The first feed-forward projection and its activation.
#[derive(Module, Debug)]
pub struct BertIntermediate {
    /// `hidden -> intermediate`.
    pub dense: Linear,
    #[module(skip)]
    hidden_act: HiddenAct,
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

    /// # Shapes
    ///
    /// - hidden and output: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    pub fn forward(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        mode: Mode,
        layer: usize,
        keep: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        let attended = self.attention.forward(hidden, bias, mode, layer, keep);
        let narrow = self.feed_forward(attended.clone()); // [batch, seq, hidden]
        self.output.end(narrow, attended, mode, Site::FeedForwardOutput(layer)).0
    }

    /// Both projections with the activation between them, without the second one's bias.
    fn feed_forward(&self, x: Tensor<3>) -> Tensor<3> {
        let BertIntermediate { dense, hidden_act, compute, packed } = &self.intermediate;
        let second = self.output.dense.weight.val();
        feed_forward(compute.keeping(packed), x, weight_and_bias(dense), second, form(*hidden_act))
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
            .fold(hidden, |hidden, (index, layer)| layer.forward(hidden, bias.clone(), mode, index, None))
    }

    /// How much every token takes of each fused adapter, without dropout: `[batch, seq, adapters]` of each layer.
    pub(crate) fn fusion_shares(&self, mut hidden: Tensor<3>, bias: Tensor<4>) -> Vec<Tensor<3>> {
        let mut all = Vec::new();
        for (index, layer) in self.layer.iter().enumerate() {
            let attended = layer.attention.forward(hidden, bias.clone(), Mode::Eval, index, None);
            let narrow = layer.feed_forward(attended.clone());
            let (next, shares) =
                layer.output.end(narrow, attended, Mode::Eval, Site::FeedForwardOutput(index));
            all.extend(shares);
            hidden = next;
        }
        all
    }

    /// Every layer's hidden states, the input first, and every layer's attention probabilities.
    ///
    /// # Shapes
    ///
    /// - hidden: `[batch, seq, hidden]`; bias: `[batch, 1, 1, seq]`
    /// - output: `layers + 1` times `[batch, seq, hidden]`, and `layers` times `[batch, heads, seq, seq]`
    pub fn forward_with_states(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
    ) -> (Vec<Tensor<3>>, Vec<Tensor<4>>) {
        let mut attentions = Vec::with_capacity(self.layer.len());
        (self.states(hidden, bias, Some(&mut attentions)), attentions)
    }

    /// Every layer's hidden states, the input first.
    ///
    /// # Shapes
    ///
    /// - hidden: `[batch, seq, hidden]`; bias: `[batch, 1, 1, seq]`
    /// - output: `layers + 1` times `[batch, seq, hidden]`
    pub fn hidden_states(&self, hidden: Tensor<3>, bias: Tensor<4>) -> Vec<Tensor<3>> {
        self.states(hidden, bias, None)
    }

    fn states(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        mut attentions: Option<&mut Vec<Tensor<4>>>,
    ) -> Vec<Tensor<3>> {
        let mut states = vec![hidden];
        for (index, layer) in self.layer.iter().enumerate() {
            let hidden = states[index].clone();
            let keep = attentions.as_deref_mut();
            states.push(layer.forward(hidden, bias.clone(), Mode::Eval, index, keep));
        }
        states
    }
}
