//! Embeddings: word + segment + position, LayerNorm, dropout.
//!
//! In: ids `[batch, seq]`. Out: the first hidden states `[batch, seq, hidden]`. Ports
//! `embedding_lookup` and `embedding_postprocessor` of the reference's `modeling.py`. Not for other
//! position encodings: positions are learned and absolute.

use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, Initializer, LayerNorm, LayerNormConfig};
use burn::tensor::{Device, Int, Tensor, assert_shape};

use crate::config::BertConfig;
use crate::dropout::{Mode, Site, dropout};

/// The three tables and their LayerNorm.
#[derive(Module, Debug)]
pub struct BertEmbeddings {
    /// `[vocab_size, hidden]`; the masked-LM head projects onto this same table.
    pub word_embeddings: Embedding,
    /// `[max_position_embeddings, hidden]`.
    pub position_embeddings: Embedding,
    /// `[type_vocab_size, hidden]`.
    pub token_type_embeddings: Embedding,
    /// Over the last axis.
    pub layer_norm: LayerNorm,
    pub(crate) hidden_dropout_prob: f64,
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
        }
    }

    /// Embeds one batch.
    ///
    /// # Shapes
    ///
    /// - input_ids, segment_ids: `[batch, seq]`, `seq <= max_position_embeddings`
    /// - output: `[batch, seq, hidden]`
    pub fn forward(&self, input_ids: Tensor<2, Int>, segment_ids: Tensor<2, Int>, mode: Mode) -> Tensor<3> {
        let [batch, seq] = input_ids.dims();
        assert_shape!(segment_ids, [batch, seq]);
        let positions = self.position_embeddings.weight.val();
        assert!(
            seq <= positions.dims()[0],
            "a sequence of {seq} tokens, but the model has {} positions",
            positions.dims()[0]
        );
        let positions = positions.narrow(0, 0, seq).unsqueeze::<3>(); // [1, seq, hidden]

        let x = self.word_embeddings.forward(input_ids)
            + self.token_type_embeddings.forward(segment_ids)
            + positions; // [batch, seq, hidden]
        let x = self.layer_norm.forward(x);
        dropout(x, self.hidden_dropout_prob, mode.site(Site::Embeddings))
    }
}

/// A LayerNorm with the configuration's epsilon, which stands inside the square root, gamma 1 and beta 0.
pub(crate) fn layer_norm(config: &BertConfig, device: &Device) -> LayerNorm {
    LayerNormConfig::new(config.hidden_size).with_epsilon(config.layer_norm_eps).init(device)
}
