//! BERT with the two pre-training heads: masked LM and next-sentence prediction.
//!
//! Ports `get_masked_lm_output` and `get_next_sentence_output` of the reference's `run_pretraining.py`. Masked
//! positions are gathered before the projection, and the projection is the word embedding table itself. The heads
//! have no dropout.
//!
//! The losses are in nats.
//!
//! Every loss is a sum over rows, divided once by the number of real targets of the whole global batch, so that the
//! losses and gradients of micro-batches or devices simply add up. Ports `get_masked_lm_output` and
//! `get_next_sentence_output` of the reference's `run_pretraining.py`, which divide by the targets of each device
//! instead.

use bert_kernels::gelu::{Gelu, bias_gelu};
use bert_kernels::layer_norm::layer_norm as normalize;
use bert_kernels::masked_lm_eval::masked_lm_scores;
use bert_kernels::masked_lm_loss::{log_sum_exp, masked_lm_nll};
use bert_kernels::ordered_sum::sum;
use bert_kernels::{Compute, dense};
use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor, assert_shape};

use crate::config::BertConfig;
use crate::layers::dropout::{Mode, SelectedTokens};
use crate::layers::linear::{layer_norm, linear, parameters, product};
use crate::models::architecture::Architecture;
use crate::models::bert::{BertInput, BertModel};
use crate::models::gradient_checkpointing::RecomputeState;

/// One micro-batch of pre-training.
#[derive(Debug, Clone)]
pub struct PretrainingInput {
    /// The tokens.
    pub bert: BertInput,
    /// `[n]`: `row * seq + position` of each masked token.
    pub masked_lm_positions: Tensor<1, Int>,
}

impl PretrainingInput {
    /// Returns the tokens that the heads read: the first of each sequence, then the masked ones.
    pub(crate) fn tokens(&self) -> SelectedTokens {
        let ids = &self.bert.input_ids;
        SelectedTokens::first(ids.dims(), &ids.device()).and(self.masked_lm_positions.clone())
    }
}

/// The inputs of both heads.
struct HeadInputs {
    /// `[n, hidden]`: the hidden states of the masked tokens.
    masked: Tensor<2>,
    /// `[batch, hidden]`
    pooled: Tensor<2>,
}

/// Logits of both heads.
#[derive(Debug, Clone)]
pub struct PretrainingOutput {
    /// `[n, vocab]`
    pub prediction_logits: Tensor<2>,
    /// `[batch, 2]`: logit of a following second text, logit of a random one.
    pub seq_relationship_logits: Tensor<2>,
}

/// Per-token scores of an evaluation batch.
#[derive(Debug, Clone)]
pub struct PretrainingScores {
    /// `[n]`: `-log p` of the words that were at the masked positions.
    pub masked_lm_nll: Tensor<1>,
    /// `[n]`: 1 where that word has the maximum logit, otherwise 0.
    pub masked_lm_correct: Tensor<1>,
    /// `[batch, 2]`
    pub seq_relationship_logits: Tensor<2>,
}

/// The layers between a hidden state and the projection onto the vocabulary.
#[derive(Module, Debug)]
pub struct BertPredictionHeadTransform {
    /// `hidden -> hidden`.
    pub dense: Linear,
    /// LayerNorm over the last axis.
    pub layer_norm: LayerNorm,
    #[module(skip)]
    hidden_act: Gelu,
    layer_norm_eps: f64,
    #[module(skip)]
    compute: Compute,
}

/// The masked-LM head. Its projection is the word embedding table, which belongs to the encoder.
#[derive(Module, Debug)]
pub struct BertPredictionHead {
    /// The layers before the projection.
    pub transform: BertPredictionHeadTransform,
    /// `[vocab]`: the reference's `output_bias`.
    pub bias: Param<Tensor<1>>,
}

impl BertPredictionHead {
    /// Returns the transformed hidden states of the masked tokens.
    ///
    /// # Shapes
    /// - masked and output: `[n, hidden]`
    pub fn transform(&self, masked: Tensor<2>) -> Tensor<2> {
        let BertPredictionHeadTransform { dense, layer_norm, hidden_act, layer_norm_eps, compute } =
            &self.transform;
        let (masked, bias) = product(*compute, dense, masked);
        let masked = bias_gelu(*compute, masked, bias, *hidden_act);
        normalize(*compute, masked, parameters(layer_norm, *layer_norm_eps))
    }
}

/// Both heads.
#[derive(Module, Debug)]
pub struct BertPretrainingHeads {
    /// The masked-LM head.
    pub predictions: BertPredictionHead,
    /// The next-sentence classifier: `hidden -> 2`.
    pub seq_relationship: Linear,
}

/// BERT with both pre-training heads.
#[derive(Module, Debug)]
pub struct BertForPreTraining {
    /// The encoder.
    pub bert: BertModel,
    /// The heads.
    pub cls: BertPretrainingHeads,
}

impl Architecture for BertForPreTraining {
    const NAME: &'static str = "BertForPreTraining";

    fn zeroed(config: &BertConfig, device: &Device) -> Self {
        let hidden = config.hidden_size;
        let bias = burn::nn::Initializer::Zeros.init([config.vocab_size], device);
        let transform = BertPredictionHeadTransform {
            dense: linear(hidden, hidden, device),
            layer_norm: layer_norm(config, device),
            hidden_act: config.hidden_act,
            layer_norm_eps: config.layer_norm_eps,
            compute: config.compute,
        };
        Self {
            bert: BertModel::zeroed(config, device),
            cls: BertPretrainingHeads {
                predictions: BertPredictionHead { transform, bias },
                seq_relationship: linear(hidden, 2, device),
            },
        }
    }

    fn map_encoder(self, f: impl FnOnce(BertModel) -> BertModel) -> Self {
        Self { bert: f(self.bert), ..self }
    }
}

impl BertForPreTraining {
    /// Returns the logits of both heads.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each, and `[n]`; `n` may be 0
    /// - output: `[n, vocab]` and `[batch, 2]`
    pub fn forward(&self, input: PretrainingInput, mode: Mode) -> PretrainingOutput {
        let HeadInputs { masked, pooled } = self.head_inputs(input, mode);
        PretrainingOutput {
            prediction_logits: self.prediction_logits(masked),
            seq_relationship_logits: self.cls.seq_relationship.forward(pooled),
        }
    }

    /// Returns the logits of all words for the masked tokens.
    ///
    /// # Shapes
    /// - masked: `[n, hidden]`
    /// - output: `[n, vocab]`
    pub fn prediction_logits(&self, masked: Tensor<2>) -> Tensor<2> {
        let predictions = &self.cls.predictions;
        let bias = predictions.bias.val().unsqueeze::<2>(); // [1, vocab]
        let [n, _] = masked.dims();
        if n == 0 {
            return Tensor::zeros([0, bias.dims()[1]], &masked.device());
        }
        let transformed = predictions.transform(masked);
        let table = self.word_embeddings().transpose(); // [hidden, vocab]
        dense::product(predictions.transform.compute, transformed, table) + bias
    }

    /// Returns the inputs of both heads. The last layer computes no other token after its attention.
    fn head_inputs(&self, input: PretrainingInput, mode: Mode) -> HeadInputs {
        let tokens = input.tokens();
        let [batch, _] = input.bert.input_ids.dims();
        self.split(self.bert.selected_states(input.bert, &tokens, mode), batch)
    }

    /// Splits the states of [`PretrainingInput::tokens`].
    fn split(&self, states: Tensor<2>, batch: usize) -> HeadInputs {
        let [rows, hidden] = states.dims();
        let masked = match rows - batch {
            0 => Tensor::zeros([0, hidden], &states.device()),
            n => states.clone().narrow(0, batch, n),
        };
        HeadInputs { masked, pooled: self.bert.pooler.pool(states.narrow(0, 0, batch)) }
    }

    /// Returns both losses.
    ///
    /// The fused CPU kernel keeps at most one `[n, vocab]` buffer for the backward pass, the exponentials of
    /// the logits, whereas the composition of burn's operations keeps several.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each, and `[n]`; `n` may be 0
    /// - targets: `[n]`, `[n]`, `[batch]`
    /// - output: `[1]` each
    pub fn loss(
        &self,
        input: PretrainingInput,
        targets: PretrainingTargets,
        normalizer: LossNormalizer,
        mode: Mode,
    ) -> PretrainingLoss {
        self.loss_of(self.head_inputs(input, mode), targets, normalizer)
    }

    /// Returns the losses like [`Self::loss`], but with gradient checkpointing: the pass saves the input of each layer
    /// only, and [`RecomputeState::backward`] computes the gradients of the layers.
    ///
    /// # Shapes
    /// - same as [`Self::loss`]
    pub fn loss_recomputing(
        &self,
        input: PretrainingInput,
        targets: PretrainingTargets,
        normalizer: LossNormalizer,
        mode: Mode,
    ) -> (PretrainingLoss, RecomputeState) {
        let tokens = input.tokens();
        let [batch, _] = input.bert.input_ids.dims();
        let (states, recompute) = self.bert.forward_recomputing(input.bert, tokens, mode);
        (self.loss_of(self.split(states, batch), targets, normalizer), recompute)
    }

    fn loss_of(
        &self,
        HeadInputs { masked, pooled }: HeadInputs,
        targets: PretrainingTargets,
        normalizer: LossNormalizer,
    ) -> PretrainingLoss {
        let [n, _] = masked.dims();
        assert_shape!(targets.masked_lm_ids, [n]);
        assert_shape!(targets.masked_lm_weights, [n]);
        let logits = self.cls.seq_relationship.forward(pooled); // [batch, 2]
        let next_sentence = cross_entropy_sum(logits, targets.next_sentence_labels); // [1]
        let next_sentence = match normalizer.next_sentence {
            Some(rows) => next_sentence.div_scalar(rows),
            // The factor 0 keeps zero gradients for the pooler and the head, so that weight decay applies to them.
            None => next_sentence.mul_scalar(0.0),
        };
        if n == 0 {
            let nothing = next_sentence.zeros_like().detach();
            return PretrainingLoss::new(nothing, next_sentence);
        }

        let predictions = &self.cls.predictions;
        let transformed = predictions.transform(masked);
        let table = self.word_embeddings();
        let nll = masked_lm_nll(
            predictions.transform.compute,
            transformed,
            table,
            predictions.bias.val(),
            targets.masked_lm_ids,
        ); // [n]
        let masked_lm = sum(nll * targets.masked_lm_weights).mul_scalar(normalizer.masked_lm_scale());
        PretrainingLoss::new(masked_lm, next_sentence)
    }

    /// Returns the scores of both heads, without dropout and without materializing the `[n, vocab]` logits.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each, and `[n]`; `n` may be 0
    /// - masked_lm_ids: `[n]`
    /// - output: `[n]`, `[n]` and `[batch, 2]`
    pub fn scores(&self, input: PretrainingInput, masked_lm_ids: Tensor<1, Int>) -> PretrainingScores {
        let HeadInputs { masked, pooled } = self.head_inputs(input, Mode::Eval);
        let [masked_lm_nll, masked_lm_correct] = self.masked_lm_scores(masked, masked_lm_ids);
        let seq_relationship_logits = self.cls.seq_relationship.forward(pooled);
        PretrainingScores { masked_lm_nll, masked_lm_correct, seq_relationship_logits }
    }

    /// Returns the loss of each masked word, and 1 where that word has the maximum logit, otherwise 0.
    ///
    /// # Shapes
    /// - masked: `[n, hidden]`
    /// - masked_lm_ids and both outputs: `[n]`
    fn masked_lm_scores(&self, masked: Tensor<2>, masked_lm_ids: Tensor<1, Int>) -> [Tensor<1>; 2] {
        let [n, _] = masked.dims();
        if n == 0 {
            return [(); 2].map(|()| Tensor::zeros([0], &masked.device()));
        }
        let predictions = &self.cls.predictions;
        masked_lm_scores(
            predictions.transform.compute,
            predictions.transform(masked),
            self.word_embeddings(),
            predictions.bias.val(),
            masked_lm_ids,
        )
    }

    /// Returns the tied table, `[vocab, hidden]`.
    fn word_embeddings(&self) -> Tensor<2> {
        self.bert.embeddings.word_embeddings.weight.val()
    }
}

/// Targets of the pre-training heads for one micro-batch.
#[derive(Debug, Clone)]
pub struct PretrainingTargets {
    /// `[n]`: the words that were at the masked positions.
    pub masked_lm_ids: Tensor<1, Int>,
    /// `[n]`: 1 for a real prediction, 0 for padding.
    pub masked_lm_weights: Tensor<1>,
    /// `[batch]`: 0 if the second text follows the first, 1 if it is random.
    pub next_sentence_labels: Tensor<1, Int>,
}

/// Divisors of the losses' sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossNormalizer {
    /// Number of real masked positions in the global batch: the sum of `masked_lm_weights`.
    pub masked_lm: f64,
    /// Number of rows in the global batch; `None` for data without next-sentence labels, which sets that loss
    /// to 0.
    pub next_sentence: Option<f64>,
}

impl LossNormalizer {
    /// The constant that the reference adds to the divisor, in case a batch has no predictions.
    const GUARD: f64 = 1e-5;

    pub(crate) fn masked_lm_scale(&self) -> f64 {
        1.0 / (self.masked_lm + Self::GUARD)
    }
}

/// The losses of one micro-batch, already divided: they add up over the global batch.
#[derive(Debug, Clone)]
pub struct PretrainingLoss {
    /// `[1]`: the sum of both losses.
    pub total: Tensor<1>,
    /// `[1]`
    pub masked_lm: Tensor<1>,
    /// `[1]`
    pub next_sentence: Tensor<1>,
}

impl PretrainingLoss {
    pub(crate) fn new(masked_lm: Tensor<1>, next_sentence: Tensor<1>) -> Self {
        Self { total: masked_lm.clone() + next_sentence.clone(), masked_lm, next_sentence }
    }
}

/// Returns `-log p(label)` of each row.
///
/// # Shapes
/// - logits: `[rows, classes]`
/// - labels and output: `[rows]`
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    let [rows, _] = logits.dims();
    assert_shape!(labels, [rows]);
    let picked = logits
        .clone()
        .gather(1, labels.reshape([rows, 1])) // [rows, 1]
        .reshape([rows]); // [rows]
    log_sum_exp(logits) - picked
}

/// Returns the sum of `-log p(label)` over the rows.
///
/// # Shapes
/// - logits: `[rows, classes]`; labels: `[rows]`
/// - output: `[1]`
pub fn cross_entropy_sum(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    sum(cross_entropy(logits, labels))
}

/// Returns the summed cross-entropy of a classifier, divided by `rows`, the number of rows of the global batch.
///
/// # Shapes
/// - logits: `[batch, labels]`; labels: `[batch]`
/// - output: `[1]`
pub fn classification_loss(logits: Tensor<2>, labels: Tensor<1, Int>, rows: f64) -> Tensor<1> {
    cross_entropy_sum(logits, labels).div_scalar(rows)
}

/// Returns the summed squared error of a regression, divided by `rows`, the number of rows of the global batch.
///
/// # Shapes
/// - predictions: `[batch, 1]`; targets: `[batch]`
/// - output: `[1]`
pub fn regression_loss(predictions: Tensor<2>, targets: Tensor<1>, rows: f64) -> Tensor<1> {
    let [batch] = targets.dims();
    assert_shape!(predictions, [batch, 1]);
    let error = predictions.reshape([batch]) - targets; // [batch]
    sum(error.square()).div_scalar(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    #[test]
    fn sizes_of_bert_base_with_both_heads() {
        let config = BertConfig::preset(Preset::Base, 30522);
        // Modules are lazy: nothing of this size is allocated.
        let model = BertForPreTraining::zeroed(&config, &Device::flex());
        assert_eq!(model.num_params(), 110_106_428);
        assert_eq!(config.pretraining_parameter_count(), 110_106_428);
    }
}
