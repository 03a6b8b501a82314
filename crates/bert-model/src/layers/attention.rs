//! Multi-head self-attention with its output projection and residual, the first of a layer's two blocks.
//!
//! Computes `softmax(q k' / sqrt(d) + mask) v`, section 3.2 of "Attention is all you need". Ports `attention_layer`
//! of the reference's `modeling.py` and the `attention/output` scope of `transformer_model`. Causal masks and cross
//! attention are not supported.

use bert_kernels::layer_norm::residual_layer_norm;
use bert_kernels::self_attention::self_attention;
use bert_kernels::{Compute, PackedWeights, dense};
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Int, Tensor, assert_shape};

use crate::config::BertConfig;
use crate::layers::adapter_fusion::AdapterFusion;
use crate::layers::bottleneck_adapter::Bottleneck;
use crate::layers::dropout::{Mode, Site, dropout};
use crate::layers::layer_norm::{affine, layer_norm};
use crate::layers::linear::{linear, weight_and_bias};
use crate::layers::lora::SelfAttentionLora;

/// The reference's penalty for a masked key. It is added to the score instead of minus infinity, so that a row without
/// any real key still has finite probabilities.
const MASKED_KEY: f64 = -10_000.0;

/// Returns the bias that is added to the attention scores: 0 for a real key, -10000 for padding.
///
/// Only keys are masked. Padded queries attend too, but their outputs are not used.
///
/// # Shapes
///
/// - input_mask: `[batch, seq]`, 1 for a real token
/// - output: `[batch, 1, 1, seq]`
pub fn attention_bias(input_mask: Tensor<2, Int>) -> Tensor<4> {
    let [batch, seq] = input_mask.dims();
    let padding = input_mask.float().neg().add_scalar(1.0);
    padding.mul_scalar(MASKED_KEY).reshape([batch, 1, 1, seq]) // [batch, 1, 1, seq]
}

/// The query, key and value projections of all heads.
#[derive(Module, Debug)]
pub struct BertSelfAttention {
    /// `hidden -> hidden`, all heads side by side.
    pub query: Linear,
    /// `hidden -> hidden`, all heads side by side.
    pub key: Linear,
    /// `hidden -> hidden`, all heads side by side.
    pub value: Linear,
    /// LoRA for the query and value projections.
    pub lora: Option<SelfAttentionLora>,
    num_attention_heads: usize,
    pub(crate) attention_probs_dropout_prob: f64,
    #[module(skip)]
    compute: Compute,
    #[module(skip)]
    packed: PackedWeights,
}

impl BertSelfAttention {
    fn zeroed(config: &BertConfig, device: &Device) -> Self {
        let hidden = config.hidden_size;
        Self {
            query: linear(hidden, hidden, device),
            key: linear(hidden, hidden, device),
            value: linear(hidden, hidden, device),
            lora: None,
            num_attention_heads: config.num_attention_heads,
            attention_probs_dropout_prob: config.attention_probs_dropout_prob,
            compute: config.compute,
            packed: PackedWeights::default(),
        }
    }

    /// Returns the context of every token. Appends the attention probabilities before dropout to `attentions`, if
    /// given.
    ///
    /// # Shapes
    ///
    /// - hidden: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    /// - output: `[batch, seq, hidden]`
    /// - appended probabilities: `[batch, heads, seq, seq]`
    pub fn forward(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        mode: Mode,
        layer: usize,
        attentions: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        let [batch, seq, hidden_size] = hidden.dims();
        assert_shape!(bias, [batch, 1, 1, seq]);
        let heads = self.num_attention_heads;
        let head_dim = hidden_size / heads;
        let scale = 1.0 / (head_dim as f64).sqrt();
        let key_of_masks = mode.site(Site::AttentionProbabilities(layer));
        let Some(attentions) = attentions else {
            let projections = self.projections();
            let dropout = key_of_masks.dropout(self.attention_probs_dropout_prob, heads * seq * seq);
            let ctx = self.compute.with_packed_weights(&self.packed);
            return self_attention(ctx, hidden, projections, bias, heads, scale, dropout);
        };
        let split = |x: Tensor<3>| {
            x.reshape([batch, seq, heads, head_dim]) // [batch, seq, heads, head_dim]
                .swap_dims(1, 2) // [batch, heads, seq, head_dim]
        };

        let [query, key, value] = self
            .projections()
            .map(|(weight, bias)| split(burn::tensor::module::linear(hidden.clone(), weight, Some(bias))));

        let scores = query.matmul(key.transpose()).mul_scalar(scale) + bias; // [batch, heads, seq, seq]
        let probabilities = softmax(scores, 3);
        attentions.push(probabilities.clone());
        let probabilities = dropout(probabilities, self.attention_probs_dropout_prob, key_of_masks);

        let context = probabilities.matmul(value); // [batch, heads, seq, head_dim]
        context
            .swap_dims(1, 2) // [batch, seq, heads, head_dim]
            .reshape([batch, seq, hidden_size]) // [batch, seq, hidden]
    }

    /// Returns weight and bias of the query, key and value projections.
    fn projections(&self) -> [(Tensor<2>, Tensor<1>); 3] {
        let mut projections = [&self.query, &self.key, &self.value].map(weight_and_bias);
        if let Some(lora) = &self.lora {
            let [(query, _), _, (value, _)] = &mut projections;
            *query = lora.query.add_to(query.clone());
            *value = lora.value.add_to(value.clone());
        }
        projections
    }
}

/// A projection, dropout, and LayerNorm over the sum with the residual. Ends both blocks of a layer.
#[derive(Module, Debug)]
pub struct BertResidualOutput {
    /// `width -> hidden`.
    pub dense: Linear,
    /// Over the last axis.
    pub layer_norm: LayerNorm,
    /// Adapter applied after the projection, before the residual.
    pub adapter: Option<Bottleneck>,
    /// Fused adapters, used instead of `adapter`.
    pub fusion: Option<AdapterFusion>,
    pub(crate) hidden_dropout_prob: f64,
    layer_norm_eps: f64,
    #[module(skip)]
    compute: Compute,
    #[module(skip)]
    packed: PackedWeights,
}

impl BertResidualOutput {
    pub(crate) fn zeroed(config: &BertConfig, width: usize, device: &Device) -> Self {
        Self {
            dense: linear(width, config.hidden_size, device),
            layer_norm: layer_norm(config, device),
            adapter: None,
            fusion: None,
            hidden_dropout_prob: config.hidden_dropout_prob,
            layer_norm_eps: config.layer_norm_eps,
            compute: config.compute,
            packed: PackedWeights::default(),
        }
    }

    /// Computes `LayerNorm(residual + dropout(dense(x)))`: the paper's post-LN. An adapter is applied before the sum.
    ///
    /// # Shapes
    ///
    /// - x: `[batch, seq, width]`
    /// - residual and output: `[batch, seq, hidden]`
    pub fn forward(&self, x: Tensor<3>, residual: Tensor<3>, mode: Mode, site: Site) -> Tensor<3> {
        let [batch, seq, _] = residual.dims();
        assert_shape!(x, [batch, seq, _]);
        let x = dense::product(self.compute.with_packed_weights(&self.packed), x, self.dense.weight.val());
        self.finish(x, residual, mode, site).0
    }

    /// Computes the steps after the projection of [`Self::forward`]. Returns the output, and the attention weights of
    /// fused adapters.
    ///
    /// # Shapes
    ///
    /// - x, residual and output: `[batch, seq, hidden]`
    /// - shares: `[batch, seq, adapters]`
    pub(crate) fn finish(
        &self,
        x: Tensor<3>,
        residual: Tensor<3>,
        mode: Mode,
        site: Site,
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        let [batch, seq, hidden] = residual.dims();
        assert_shape!(x, [batch, seq, hidden]);
        let (_, bias) = weight_and_bias(&self.dense);
        let key = mode.site(site);
        let norm = affine(&self.layer_norm);
        if let (Some(fusion), Site::FeedForwardOutput(layer)) = (&self.fusion, site) {
            let h = dropout(x + bias.unsqueeze(), self.hidden_dropout_prob, key);
            let key = mode.site(Site::AdapterFusion(layer));
            let (hidden, shares) =
                fusion.finish_block(self.compute, h, residual, norm, self.layer_norm_eps, key);
            return (hidden, Some(shares));
        }
        if let Some(adapter) = &self.adapter {
            let h = dropout(x + bias.unsqueeze(), self.hidden_dropout_prob, key);
            return (adapter.finish_block(self.compute, h, residual, norm, self.layer_norm_eps), None);
        }
        let dropout = key.dropout(self.hidden_dropout_prob, seq * hidden);
        (residual_layer_norm(self.compute, x, bias, residual, norm, self.layer_norm_eps, dropout), None)
    }
}

/// Self-attention and its output projection, the first block of a layer.
#[derive(Module, Debug)]
pub struct BertAttention {
    /// Published as `attention.self`.
    pub self_attention: BertSelfAttention,
    /// Published as `attention.output`.
    pub output: BertResidualOutput,
}

impl BertAttention {
    pub(crate) fn zeroed(config: &BertConfig, device: &Device) -> Self {
        Self {
            self_attention: BertSelfAttention::zeroed(config, device),
            output: BertResidualOutput::zeroed(config, config.hidden_size, device),
        }
    }

    /// Returns the hidden states after the block. Appends the attention probabilities before dropout to `attentions`,
    /// if given.
    ///
    /// # Shapes
    ///
    /// - hidden and output: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    /// - appended probabilities: `[batch, heads, seq, seq]`
    pub fn forward(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        mode: Mode,
        layer: usize,
        attentions: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        let context = self.self_attention.forward(hidden.clone(), bias, mode, layer, attentions);
        self.output.forward(context, hidden, mode, Site::AttentionOutput(layer))
    }
}
