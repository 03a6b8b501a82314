//! Multi-head self-attention with its output projection and residual, the first of a layer's two blocks.
//!
//! Computes `softmax(q k' / sqrt(d) + mask) v`, section 3.2 of "Attention is all you need". Ports `attention_layer`
//! of the reference's `modeling.py` and the `attention/output` scope of `transformer_model`. Causal masks and cross
//! attention are not supported.

use bert_kernels::attention::{AttentionOutput, AttentionSettings};
use bert_kernels::layer_norm::residual_layer_norm;
use bert_kernels::self_attention::{self, QkvProjections, self_attention};
use bert_kernels::{Compute, Kernels, PackedWeights, Precision, dense};
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor, assert_shape};

use crate::config::BertConfig;
use crate::layers::adapter_fusion::AdapterFusion;
use crate::layers::bottleneck_adapter::{Bottleneck, SelfAttentionLora};
use crate::layers::dropout::{Mode, SelectedTokens, Site, TokenMasks};
use crate::layers::linear::{layer_norm, linear, parameters, projection};

/// The reference's penalty for a masked key. It is added to the score instead of minus infinity, so that a row without
/// any real key still has finite probabilities.
const MASKED_KEY: f64 = -10_000.0;

/// Returns the bias that is added to the attention scores: 0 for a real key, -10000 for padding.
///
/// Only keys are masked. Padded queries attend too, but their outputs are not used.
///
/// # Shapes
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

    /// Returns the context of every token.
    ///
    /// # Shapes
    /// - hidden and output: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    pub fn forward(&self, hidden: Tensor<3>, bias: Tensor<4>, mode: Mode, layer: usize) -> Tensor<3> {
        let [_, seq, hidden_size] = hidden.dims();
        let heads = self.num_attention_heads;
        let key_of_masks = mode.site(Site::AttentionProbabilities(layer));
        let dropout = key_of_masks.dropout(self.attention_probs_dropout_prob, heads * seq * seq);
        let ctx = self.compute.with_packed_weights(&self.packed);
        self_attention(
            ctx,
            hidden,
            self.projections(),
            bias,
            AttentionSettings { heads, scale: self.scale(hidden_size), dropout },
        )
    }

    /// Returns the context and the attention probabilities of every token, without dropout. Runs burn's own operations
    /// in f32.
    ///
    /// # Shapes
    /// - hidden: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    /// - output: see [`AttentionOutput`]
    pub fn forward_with_attention(&self, hidden: Tensor<3>, bias: Tensor<4>) -> AttentionOutput {
        let compute = Compute { kernels: Kernels::Plain, precision: Precision::F32 };
        let heads = self.num_attention_heads;
        let scale = self.scale(hidden.dims()[2]);
        self_attention::plain(
            compute,
            hidden,
            self.projections(),
            bias,
            AttentionSettings { heads, scale, dropout: None },
        )
    }

    /// Returns the query and the key of every token, all heads side by side, in f32.
    ///
    /// # Shapes
    /// - hidden and both outputs: `[batch, seq, hidden]`
    pub fn queries_and_keys(&self, hidden: Tensor<3>) -> [Tensor<3>; 2] {
        let QkvProjections { query, key, .. } = self.projections();
        [query, key].map(|layer| hidden.clone().matmul(layer.weight.unsqueeze()) + layer.bias.unsqueeze())
    }

    /// Returns `1 / sqrt(d)`, by which the scores are multiplied.
    fn scale(&self, hidden_size: usize) -> f64 {
        1.0 / ((hidden_size / self.num_attention_heads) as f64).sqrt()
    }

    fn projections(&self) -> QkvProjections {
        let [mut query, key, mut value] = [&self.query, &self.key, &self.value].map(projection);
        if let Some(lora) = &self.lora {
            query.weight = lora.query.add_to(query.weight);
            value.weight = lora.value.add_to(value.weight);
        }
        QkvProjections { query, key, value }
    }
}

/// A projection, dropout, and LayerNorm over the sum with the residual: the end of each of a layer's two
/// blocks.
#[derive(Module, Debug)]
pub struct BertResidualOutput {
    /// `width -> hidden`.
    pub dense: Linear,
    /// LayerNorm over the last axis.
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
    /// - x: `[batch, seq, width]`
    /// - residual and output: `[batch, seq, hidden]`
    pub fn forward(&self, x: Tensor<3>, residual: Tensor<3>, mode: Mode, site: Site) -> Tensor<3> {
        let [batch, seq, _] = residual.dims();
        assert_shape!(x, [batch, seq, _]);
        self.finish(self.product(x), residual, mode, site, None).0
    }

    fn product(&self, x: Tensor<3>) -> Tensor<3> {
        dense::product(self.compute.with_packed_weights(&self.packed), x, self.dense.weight.val())
    }

    /// Computes the steps of [`Self::forward`] that follow the projection. Returns the output, and the attention
    /// weights of fused adapters.
    ///
    /// # Shapes
    /// - x, residual and output: `[batch, seq, hidden]`, or `[1, n, hidden]` for selected tokens
    /// - shares: `[batch, seq, adapters]`, or `[1, n, adapters]`
    pub(crate) fn finish(
        &self,
        x: Tensor<3>,
        residual: Tensor<3>,
        mode: Mode,
        site: Site,
        tokens: Option<&SelectedTokens>,
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        let [batch, seq, hidden] = residual.dims();
        assert_shape!(x, [batch, seq, hidden]);
        let bias = projection(&self.dense).bias;
        let masks = |site| TokenMasks { key: mode.site(site), tokens };
        let norm = parameters(&self.layer_norm, self.layer_norm_eps);
        if let (Some(fusion), Site::FeedForwardOutput(layer)) = (&self.fusion, site) {
            let h = masks(site).apply(x.cast(residual.dtype()) + bias.unsqueeze(), self.hidden_dropout_prob);
            let masks = masks(Site::AdapterFusion(layer));
            let (hidden, shares) = fusion.finish_block(self.compute, h, residual, norm, masks);
            return (hidden, Some(shares));
        }
        if let Some(adapter) = &self.adapter {
            let h = masks(site).apply(x.cast(residual.dtype()) + bias.unsqueeze(), self.hidden_dropout_prob);
            return (adapter.finish_block(self.compute, h, residual, norm), None);
        }
        let dropout = masks(site).dropout(self.hidden_dropout_prob, seq, hidden);
        (residual_layer_norm(self.compute, [x, residual], bias, norm, dropout), None)
    }
}

/// Self-attention and its output projection, the first block of a layer.
#[derive(Module, Debug)]
pub struct BertAttention {
    /// The self-attention of all heads; published as `attention.self`.
    pub self_attention: BertSelfAttention,
    /// The output projection, dropout, residual and LayerNorm; published as `attention.output`.
    pub output: BertResidualOutput,
}

impl BertAttention {
    pub(crate) fn zeroed(config: &BertConfig, device: &Device) -> Self {
        Self {
            self_attention: BertSelfAttention::zeroed(config, device),
            output: BertResidualOutput::zeroed(config, config.hidden_size, device),
        }
    }

    /// Returns the hidden states of all tokens, or of selected ones, after the block. Selected tokens attend to all
    /// tokens.
    ///
    /// # Shapes
    /// - hidden: `[batch, seq, hidden]`
    /// - bias: `[batch, 1, 1, seq]`
    /// - output: `[batch, seq, hidden]`, or `[1, n, hidden]` for selected tokens
    pub fn forward(
        &self,
        hidden: Tensor<3>,
        bias: Tensor<4>,
        mode: Mode,
        layer: usize,
        tokens: Option<&SelectedTokens>,
    ) -> Tensor<3> {
        let mut states = [self.self_attention.forward(hidden.clone(), bias, mode, layer), hidden];
        if let Some(tokens) = tokens {
            let dtype = states[1].dtype();
            states = states.map(|x| tokens.select(self.output.compute, x.cast(dtype)));
        }
        let [context, hidden] = states;
        let x = self.output.product(context);
        self.output.finish(x, hidden, mode, Site::AttentionOutput(layer), tokens).0
    }

    /// Returns the hidden states after the block and the attention probabilities, without dropout.
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
        let AttentionOutput { context, probabilities } =
            self.self_attention.forward_with_attention(hidden.clone(), bias);
        (self.output.forward(context, hidden, Mode::Eval, Site::AttentionOutput(layer)), probabilities)
    }
}
