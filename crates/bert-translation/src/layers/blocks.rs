//! The two kinds of blocks of a layer, each `LayerNorm(x + dropout(block(x)))`: post-LN, as in Vaswani et al., 2017.
//!
//! A fused attention block computes the mean of two attentions (Zhu et al., 2020, equations 4 to 6):
//! `1/2 attention(x, memory) + 1/2 attention(x, BERT(source))`, or one of them alone ([`Branches`]).

use bert_kernels::Compute;
use bert_kernels::layer_norm::residual_layer_norm;
use bert_model::layers::linear::{affine, linear, parameters, product};
use bert_model::{Mode, Site};
use burn::module::Module;
use burn::nn::{LayerNorm, LayerNormConfig, Linear};
use burn::tensor::{Device, Tensor, activation::relu};

use crate::config::TranslationConfig;
use crate::layers::attention::{KeysAndValues, MultiHeadAttention};
use crate::layers::drop_net::Branches;

/// A sequence that is attended to: its keys and values, and the bias that hides its padding.
#[derive(Clone, Debug)]
pub struct Attended {
    /// `[batch, keys, hidden]` each.
    pub projected: KeysAndValues,
    /// `[batch or 1, 1, queries or 1, keys]`
    pub bias: Tensor<4>,
}

/// The training mode of a block, and its number in the model, which determine its dropout mask.
#[derive(Clone, Copy, Debug)]
pub struct BlockMode {
    /// Training or evaluation.
    pub mode: Mode,
    /// The number of the block; all blocks of a model have different numbers.
    pub block: usize,
}

/// The end of a block: dropout, residual and LayerNorm.
#[derive(Module, Debug)]
pub struct ResidualNorm {
    /// LayerNorm over the last axis.
    pub layer_norm: LayerNorm,
    epsilon: f64,
    dropout_prob: f64,
    #[module(skip)]
    compute: Compute,
}

impl ResidualNorm {
    fn new(config: &TranslationConfig, device: &Device) -> Self {
        Self {
            layer_norm: LayerNormConfig::new(config.hidden_size).init(device),
            epsilon: config.layer_norm_eps,
            dropout_prob: config.dropout_prob,
            compute: config.compute,
        }
    }

    /// Computes `LayerNorm(residual + dropout(x + bias))`.
    fn forward(&self, x: Tensor<3>, bias: Tensor<1>, residual: Tensor<3>, at: BlockMode) -> Tensor<3> {
        let [_, seq, hidden] = x.dims();
        let norm = parameters(&self.layer_norm, self.epsilon);
        let key = at.mode.site(Site::AttentionOutput(at.block));
        let dropout = key.dropout(self.dropout_prob, seq * hidden);
        residual_layer_norm(self.compute, [x, residual], bias, norm, dropout)
    }
}

/// Attention and, in a fused model, parallel attention to BERT.
#[derive(Module, Debug)]
pub struct AttentionBlock {
    /// Attention to the Transformer's own states.
    pub attention: MultiHeadAttention,
    /// Attention to BERT's hidden states.
    pub bert_attention: Option<MultiHeadAttention>,
    /// Dropout, residual and LayerNorm.
    pub end: ResidualNorm,
}

impl AttentionBlock {
    pub(crate) fn zeroed(config: &TranslationConfig, is_fused: bool, device: &Device) -> Self {
        let attention = |memory| {
            let hidden = config.hidden_size;
            let heads = config.num_attention_heads;
            MultiHeadAttention::zeroed(hidden, memory, heads, config.compute, device)
        };
        Self {
            attention: attention(config.hidden_size),
            bert_attention: is_fused.then(|| attention(config.bert_hidden_size)),
            end: ResidualNorm::new(config, device),
        }
    }

    /// Returns the hidden states after the block. `branches` selects the attentions; without `bert` there is only one.
    ///
    /// # Shapes
    /// - x and output: `[batch, queries, hidden]`
    /// - memory, bert: see [`Attended`]
    pub fn forward(
        &self,
        x: Tensor<3>,
        memory: &Attended,
        bert: Option<&Attended>,
        branches: Branches,
        at: BlockMode,
    ) -> Tensor<3> {
        let attend = |attention: &MultiHeadAttention, to: &Attended| {
            attention.forward(x.clone(), &to.projected, to.bias.clone())
        };
        let (output, bias) = match (&self.bert_attention, bert, branches) {
            (Some(attention), Some(bert), Branches::Bert) => attend(attention, bert),
            (Some(attention), Some(bert), Branches::Both) => {
                let (ordinary, ordinary_bias) = attend(&self.attention, memory);
                let (fused, fused_bias) = attend(attention, bert);
                ((ordinary + fused).mul_scalar(0.5), (ordinary_bias + fused_bias).mul_scalar(0.5))
            }
            _ => attend(&self.attention, memory),
        };
        self.end.forward(output, bias, x, at)
    }
}

/// The feed-forward network `relu(x W1 + b1) W2 + b2`.
#[derive(Module, Debug)]
pub struct FeedForwardBlock {
    /// `hidden -> intermediate`.
    pub intermediate: Linear,
    /// `intermediate -> hidden`.
    pub output: Linear,
    /// Dropout, residual and LayerNorm.
    pub end: ResidualNorm,
    #[module(skip)]
    compute: Compute,
}

impl FeedForwardBlock {
    pub(crate) fn zeroed(config: &TranslationConfig, device: &Device) -> Self {
        let hidden = config.hidden_size;
        let intermediate = config.intermediate_size;
        Self {
            intermediate: linear(hidden, intermediate, device),
            output: linear(intermediate, hidden, device),
            end: ResidualNorm::new(config, device),
            compute: config.compute,
        }
    }

    /// Returns the hidden states after the block.
    ///
    /// # Shapes
    /// - x and output: `[batch, seq, hidden]`
    pub fn forward(&self, x: Tensor<3>, at: BlockMode) -> Tensor<3> {
        let wide = relu(affine(self.compute, &self.intermediate, x.clone()));
        let (output, bias) = product(self.compute, &self.output, wide);
        self.end.forward(output, bias, x, at)
    }
}
