//! A layer of the decoder: masked self-attention, attention to the encoder fused with attention to BERT, and the
//! feed-forward network.

use bert_model::Mode;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::config::TranslationConfig;
use crate::layers::attention::KeysAndValues;
use crate::layers::blocks::{Attended, AttentionBlock, BlockMode, FeedForwardBlock};
use crate::layers::drop_net::Branches;
use crate::layers::encoder::{MaskedStates, attend_to_bert};

/// The keys and values of a layer that later steps use.
#[derive(Clone, Debug)]
pub struct LayerCache {
    /// Keys and values at the target positions so far; `None` before the first.
    own: Option<KeysAndValues>,
    encoder: Attended,
    bert: Option<Attended>,
}

impl LayerCache {
    /// Selects rows of the cached target positions. A new row and the row from which it is copied must have
    /// the same source sentence.
    pub(crate) fn select_targets(&mut self, rows: &Tensor<1, Int>) {
        self.own = self.own.take().map(|own| own.select(rows.clone()));
    }
}

/// A layer of the decoder.
#[derive(Module, Debug)]
pub struct DecoderLayer {
    /// Attention to this and earlier target positions.
    pub self_attention: AttentionBlock,
    /// Attention to the encoder and, in a fused model, to BERT.
    pub cross_attention: AttentionBlock,
    /// The feed-forward network.
    pub feed_forward: FeedForwardBlock,
    drop_net_prob: f64,
    layer: usize,
    first_block: usize,
}

impl DecoderLayer {
    /// Creates layer number `layer` with zeros in every matrix.
    pub fn zeroed(config: &TranslationConfig, layer: usize, device: &Device) -> Self {
        Self {
            self_attention: AttentionBlock::zeroed(config, false, device),
            cross_attention: AttentionBlock::zeroed(config, config.is_fused(), device),
            feed_forward: FeedForwardBlock::zeroed(config, device),
            drop_net_prob: config.drop_net_prob,
            layer: config.encoder_layers + layer,
            first_block: 2 + 2 * config.encoder_layers + 3 * layer,
        }
    }

    /// Projects the encoder's and BERT's hidden states to keys and values.
    ///
    /// # Shapes
    /// - encoder: `[batch, source, hidden]`; bert: `[batch, bert_seq, bert_hidden]`
    pub fn cache(&self, encoder: &MaskedStates, bert: Option<&MaskedStates>) -> LayerCache {
        let projected = self.cross_attention.attention.project(encoder.states.clone());
        LayerCache {
            own: None,
            encoder: Attended { projected, bias: encoder.bias.clone() },
            bert: bert.and_then(|bert| attend_to_bert(&self.cross_attention, bert)),
        }
    }

    /// Returns the hidden states of the positions that follow the cached ones, and adds these positions to the cache.
    ///
    /// # Shapes
    /// - x and output: `[batch, targets, hidden]`
    /// - bias: `[1, 1, targets, cached + targets]`
    pub fn forward(&self, x: Tensor<3>, bias: Tensor<4>, cache: &mut LayerCache, mode: Mode) -> Tensor<3> {
        let block = |block| BlockMode { mode, block: self.first_block + block };
        let projected = self.self_attention.attention.project(x.clone());
        let projected = match cache.own.take() {
            Some(earlier) => earlier.followed_by(projected),
            None => projected,
        };
        cache.own = Some(projected.clone());
        let own = Attended { projected, bias };
        let x = self.self_attention.forward(x, &own, None, Branches::Both, block(0));
        let branches = Branches::draw(self.drop_net_prob, mode, self.layer);
        let x = self.cross_attention.forward(x, &cache.encoder, cache.bert.as_ref(), branches, block(1));
        self.feed_forward.forward(x, block(2))
    }
}
