//! A layer of the encoder: self-attention, fused with attention to BERT, then the feed-forward network.

use bert_model::Mode;
use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::config::TranslationConfig;
use crate::layers::blocks::{Attended, AttentionBlock, BlockMode, FeedForwardBlock};
use crate::layers::drop_net::Branches;

/// A sequence and the bias that hides its padding.
#[derive(Clone, Debug)]
pub struct MaskedStates {
    /// `[batch, seq, width]`
    pub states: Tensor<3>,
    /// `[batch, 1, 1, seq]`
    pub bias: Tensor<4>,
}

/// A layer of the encoder.
#[derive(Module, Debug)]
pub struct EncoderLayer {
    /// Self-attention and, in a fused model, attention to BERT.
    pub attention: AttentionBlock,
    /// The feed-forward network.
    pub feed_forward: FeedForwardBlock,
    drop_net_prob: f64,
    layer: usize,
    first_block: usize,
}

impl EncoderLayer {
    /// Creates layer number `layer` with zeros in every matrix.
    pub fn zeroed(config: &TranslationConfig, layer: usize, device: &Device) -> Self {
        Self {
            attention: AttentionBlock::zeroed(config, config.is_fused(), device),
            feed_forward: FeedForwardBlock::zeroed(config, device),
            drop_net_prob: config.drop_net_prob,
            layer,
            // Blocks 0 and 1 are the embeddings.
            first_block: 2 + 2 * layer,
        }
    }

    /// Returns the hidden states after the layer.
    ///
    /// # Shapes
    /// - x: `[batch, seq, hidden]`; bert: `[batch, bert_seq, bert_hidden]`
    /// - output: `[batch, seq, hidden]`
    pub fn forward(&self, x: MaskedStates, bert: Option<&MaskedStates>, mode: Mode) -> Tensor<3> {
        let block = |block| BlockMode { mode, block: self.first_block + block };
        let attention = &self.attention;
        let own = Attended { projected: attention.attention.project(x.states.clone()), bias: x.bias };
        let bert = bert.and_then(|bert| attend_to_bert(attention, bert));
        let branches = Branches::draw(self.drop_net_prob, mode, self.layer);
        let x = attention.forward(x.states, &own, bert.as_ref(), branches, block(0));
        self.feed_forward.forward(x, block(1))
    }
}

/// Projects BERT's hidden states for a block; returns `None` if the block has no attention to BERT.
pub(crate) fn attend_to_bert(block: &AttentionBlock, bert: &MaskedStates) -> Option<Attended> {
    let projected = block.bert_attention.as_ref()?.project(bert.states.clone());
    Some(Attended { projected, bias: bert.bias.clone() })
}
