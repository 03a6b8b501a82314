//! The Transformer with its embeddings, and BERT in front of it.

use bert_kernels::masked_lm_loss::masked_lm_nll;
use bert_kernels::ordered_sum::sum;
use bert_model::layers::attention::attention_bias;
use bert_model::layers::linear::{affine, linear};
use bert_model::{BertConfig, BertInput, BertModel, Mode, Site, dropout};
use burn::module::{Module, Param};
use burn::nn::{Embedding, EmbeddingConfig, Initializer, Linear};
use burn::tensor::{Device, Int, Tensor};

use crate::config::{Fusion, TranslationConfig};
use crate::layers::decoder::{DecoderLayer, LayerCache};
use crate::layers::encoder::{EncoderLayer, MaskedStates};
use crate::layers::positions::{causal_bias, sinusoidal};

/// A batch of source sentences, padded to one length.
#[derive(Clone, Debug)]
pub struct SourceBatch {
    /// `[batch, source]`: rows of the source vocabulary.
    pub input_ids: Tensor<2, Int>,
    /// `[batch, source]`: 1 for a real token, 0 for padding.
    pub input_mask: Tensor<2, Int>,
    /// The same sentences for BERT; `None` for a model without BERT.
    pub bert: Option<BertInput>,
}

/// A batch of target sentences, padded to one length.
#[derive(Clone, Debug)]
pub struct TargetBatch {
    /// `[batch, target]`: the start token and the sentence.
    pub input_ids: Tensor<2, Int>,
    /// `[n]`: the index of each real position in the flattened `[batch * target]`.
    pub positions: Tensor<1, Int>,
    /// `[n]`: the token that follows each real position.
    pub labels: Tensor<1, Int>,
}

/// Sums of losses over the real target positions, each `[1]`.
#[derive(Clone, Debug)]
pub struct TranslationLoss {
    /// The label-smoothed cross-entropy.
    pub smoothed: Tensor<1>,
    /// The cross-entropy without smoothing.
    pub cross_entropy: Tensor<1>,
}

/// The hidden states that the decoder attends to.
#[derive(Clone, Debug)]
pub struct EncodedSource {
    /// Hidden states of the encoder, `[batch, source, hidden]`.
    pub encoder: MaskedStates,
    /// Hidden states of BERT, `[batch, bert_seq, bert_hidden]`.
    pub bert: Option<MaskedStates>,
}

/// Encoder and decoder.
#[derive(Module, Debug)]
pub struct Transformer {
    /// `[source vocabulary, hidden]`; `None` if BERT replaces it.
    pub source_embeddings: Option<Embedding>,
    /// `bert_hidden -> hidden`, if BERT replaces the source embeddings.
    pub bert_projection: Option<Linear>,
    /// `[target vocabulary, hidden]`, also the output projection.
    pub target_embeddings: Embedding,
    /// `[target vocabulary]`
    pub output_bias: Param<Tensor<1>>,
    /// The layers of the encoder.
    pub encoder: Vec<EncoderLayer>,
    /// The layers of the decoder.
    pub decoder: Vec<DecoderLayer>,
    #[module(skip)]
    config: TranslationConfig,
}

impl Transformer {
    fn zeroed(config: &TranslationConfig, device: &Device) -> Self {
        let table = |rows| {
            let table = EmbeddingConfig::new(rows, config.hidden_size);
            table.with_initializer(Initializer::Zeros).init(device)
        };
        let from_bert = config.fusion == Fusion::Embeddings;
        Self {
            source_embeddings: (!from_bert).then(|| table(config.source_vocab_size)),
            bert_projection: from_bert.then(|| linear(config.bert_hidden_size, config.hidden_size, device)),
            target_embeddings: table(config.target_vocab_size),
            output_bias: Initializer::Zeros.init([config.target_vocab_size], device),
            encoder: (0..config.encoder_layers).map(|at| EncoderLayer::zeroed(config, at, device)).collect(),
            decoder: (0..config.decoder_layers).map(|at| DecoderLayer::zeroed(config, at, device)).collect(),
            config: config.clone(),
        }
    }

    /// Multiplies embeddings by `sqrt(hidden)`, adds the position vectors from position `first` on, and
    /// applies dropout.
    fn embed(&self, x: Tensor<3>, first: usize, block: usize, mode: Mode) -> Tensor<3> {
        let [_, length, hidden] = x.dims();
        let positions = sinusoidal(first, length, hidden, &x.device());
        let x = x.mul_scalar((hidden as f64).sqrt()) + positions;
        dropout(x, self.config.dropout_prob, mode.site(Site::AttentionOutput(block)))
    }

    /// Returns the encoder's hidden states.
    fn encode(&self, source: &SourceBatch, bert: Option<&MaskedStates>, mode: Mode) -> MaskedStates {
        let (x, bias) = match (&self.source_embeddings, &self.bert_projection, bert) {
            (None, Some(projection), Some(bert)) => {
                (affine(self.config.compute, projection, bert.states.clone()), bert.bias.clone())
            }
            (Some(table), ..) => {
                (table.forward(source.input_ids.clone()), attention_bias(source.input_mask.clone()))
            }
            _ => panic!("a model with BERT's embeddings needs the input of BERT"),
        };
        let mut states = self.embed(x, 0, 0, mode);
        for layer in &self.encoder {
            states = layer.forward(MaskedStates { states, bias: bias.clone() }, bert, mode);
        }
        MaskedStates { states, bias }
    }

    /// Returns the cache of every layer of the decoder, before the first target position.
    pub fn caches(&self, source: &EncodedSource) -> Vec<LayerCache> {
        self.decoder.iter().map(|layer| layer.cache(&source.encoder, source.bert.as_ref())).collect()
    }

    /// Returns the decoder's hidden states at the target positions from `first` on, and adds these positions
    /// to the caches.
    ///
    /// # Shapes
    /// - ids: `[batch, target]`
    /// - output: `[batch, target, hidden]`
    pub fn decode(
        &self,
        ids: Tensor<2, Int>,
        first: usize,
        caches: &mut [LayerCache],
        mode: Mode,
    ) -> Tensor<3> {
        let [_, length] = ids.dims();
        let device = ids.device();
        let bias = match first {
            0 => causal_bias(length, &device),
            // All cached positions are visible, and each new position is hidden from the new positions before it.
            _ => Tensor::cat(
                vec![Tensor::zeros([1, 1, length, first], &device), causal_bias(length, &device)],
                3,
            ),
        };
        let mut x = self.embed(self.target_embeddings.forward(ids), first, 1, mode);
        for (layer, cache) in self.decoder.iter().zip(caches) {
            x = layer.forward(x, bias.clone(), cache, mode);
        }
        x
    }

    /// Returns the logits of the next token.
    ///
    /// # Shapes
    /// - hidden: `[n, hidden]`
    /// - output: `[n, target vocabulary]`
    pub fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        let table = self.target_embeddings.weight.val().transpose(); // [hidden, vocabulary]
        bert_kernels::dense::product(self.config.compute, hidden, table) + self.output_bias.val().unsqueeze()
    }

    /// Returns the summed loss of the tokens that follow each position.
    ///
    /// Let `z` be the logits and `e` the smoothing. Then `(1 - e) (-log p(label)) + e mean_v(-log p(v))` equals `-log
    /// p(label) + e (z_label - mean_v(z_v))`, so the smoothing needs only the label's logit and the mean logit.
    ///
    /// # Shapes
    /// - hidden: `[n, hidden]`; labels: `[n]`
    pub fn loss(&self, hidden: Tensor<2>, labels: Tensor<1, Int>) -> TranslationLoss {
        let [n, _] = hidden.dims();
        let table = self.target_embeddings.weight.val();
        let bias = self.output_bias.val();
        let nll =
            masked_lm_nll(self.config.compute, hidden.clone(), table.clone(), bias.clone(), labels.clone());
        let cross_entropy = sum(nll);
        if self.config.label_smoothing == 0.0 {
            return TranslationLoss { smoothed: cross_entropy.clone(), cross_entropy };
        }
        let difference = table.clone().select(0, labels.clone()) - table.mean_dim(0); // [n, hidden]
        let bias_scores = bias.clone().select(0, labels) - bias.mean_dim(0); // [n]
        let above_mean = (hidden * difference).sum_dim(1).reshape([n]) + bias_scores; // [n]
        let smoothed = cross_entropy.clone() + sum(above_mean).mul_scalar(self.config.label_smoothing);
        TranslationLoss { smoothed, cross_entropy }
    }
}

/// A Transformer and, unless it works alone, a frozen BERT. A checkpoint contains both.
#[derive(Module, Debug)]
pub struct TranslationModel {
    /// BERT, which is not trained and runs without dropout.
    pub bert: Option<BertModel>,
    /// The Transformer.
    pub transformer: Transformer,
}

impl TranslationModel {
    /// Creates a model with zeros in every table and matrix. `bert` is the configuration of BERT.
    pub fn zeroed(config: &TranslationConfig, bert: Option<&BertConfig>, device: &Device) -> Self {
        let bert = bert.map(|bert| bert_model::Architecture::zeroed(bert, device));
        Self { bert: bert.map(BertModel::no_grad), transformer: Transformer::zeroed(config, device) }
    }

    /// Returns the sizes and probabilities.
    pub fn config(&self) -> &TranslationConfig {
        &self.transformer.config
    }

    /// Returns the hidden states that the decoder attends to.
    ///
    /// # Shapes
    /// - source: see [`SourceBatch`]; output: see [`EncodedSource`]
    pub fn encode(&self, source: &SourceBatch, mode: Mode) -> EncodedSource {
        let bert = self.bert.as_ref().zip(source.bert.clone()).map(|(model, input)| {
            let bias = attention_bias(input.input_mask.clone());
            MaskedStates { states: model.sequence_output(input, Mode::Eval).detach(), bias }
        });
        let encoder = self.transformer.encode(source, bert.as_ref(), mode);
        EncodedSource { encoder, bert }
    }

    /// Returns the sums of the losses of a batch.
    ///
    /// # Shapes
    /// - see [`SourceBatch`], [`TargetBatch`], [`TranslationLoss`]
    pub fn loss(&self, source: &SourceBatch, target: &TargetBatch, mode: Mode) -> TranslationLoss {
        let encoded = self.encode(source, mode);
        let mut caches = self.transformer.caches(&encoded);
        let hidden = self.transformer.decode(target.input_ids.clone(), 0, &mut caches, mode);
        let [batch, length, width] = hidden.dims();
        let hidden = hidden.reshape([batch * length, width]).select(0, target.positions.clone()); // [n, hidden]
        self.transformer.loss(hidden, target.labels.clone())
    }
}
