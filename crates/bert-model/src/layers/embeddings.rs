//! Embeddings: word + segment + position, LayerNorm, dropout.
//!
//! Ports `embedding_lookup` and `embedding_postprocessor` of the reference's `modeling.py`. Positions are learned and
//! absolute; other position encodings are not supported.

use bert_kernels::Compute;
use bert_kernels::embeddings::{Tables, embeddings};
use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, Initializer, LayerNorm};
use burn::tensor::{Device, Int, Tensor};

use crate::config::BertConfig;
use crate::layers::dropout::{Mode, Site};
use crate::layers::layer_norm::{layer_norm, parameters};

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
