//! Extractive question answering: scores the start and end positions of an answer in a text.
//!
//! Ports `create_model` of the reference's `run_squad.py` (`BertForQuestionAnswering` of `transformers`): one dense
//! layer with two outputs per token, without dropout and without the pooler.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor};

use crate::config::BertConfig;
use crate::layers::dropout::Mode;
use crate::layers::linear::linear;
use crate::models::architecture::Architecture;
use crate::models::bert::{BertInput, BertModel};
use crate::models::pretraining::cross_entropy_sum;

/// BERT with a start and an end score for every token.
#[derive(Module, Debug)]
pub struct BertForQuestionAnswering {
    /// The encoder.
    pub bert: BertModel,
    /// `hidden -> 2`: start and end score.
    pub qa_outputs: Linear,
}

/// Start and end logits of every token of a batch.
#[derive(Debug, Clone)]
pub struct SpanLogits {
    /// `[batch, seq]`: logits of the first token of the answer.
    pub start: Tensor<2>,
    /// `[batch, seq]`: logits of the last token of the answer.
    pub end: Tensor<2>,
}

impl Architecture for BertForQuestionAnswering {
    const NAME: &'static str = "BertForQuestionAnswering";

    fn zeroed(config: &BertConfig, device: &Device) -> Self {
        Self { bert: BertModel::zeroed(config, device), qa_outputs: linear(config.hidden_size, 2, device) }
    }

    fn map_encoder(self, f: impl FnOnce(BertModel) -> BertModel) -> Self {
        Self { bert: f(self.bert), ..self }
    }
}

impl BertForQuestionAnswering {
    /// Returns the logits of a batch, including the padding.
    ///
    /// # Shapes
    /// - input: `[batch, seq]` each
    /// - output: `[batch, seq]` each
    pub fn forward(&self, input: BertInput, mode: Mode) -> SpanLogits {
        self.spans(self.bert.sequence_output(input, mode))
    }

    /// Returns the logits like [`Self::forward`], with the encoder frozen: it receives no gradient and applies no
    /// dropout.
    pub fn forward_frozen(&self, input: BertInput) -> SpanLogits {
        self.spans(self.bert.sequence_output(input, Mode::Eval).detach())
    }

    fn spans(&self, sequence: Tensor<3>) -> SpanLogits {
        let [batch, seq, _] = sequence.dims();
        let logits = self.qa_outputs.forward(sequence); // [batch, seq, 2]
        let column = |at: usize| logits.clone().narrow(2, at, 1).reshape([batch, seq]); // [batch, seq]
        SpanLogits { start: column(0), end: column(1) }
    }
}

/// Returns the sum over the rows of `(CE(start) + CE(end)) / 2`, divided by `rows`, the number of rows of the global
/// batch. CE is the cross-entropy over the positions of the sequence, in nats.
///
/// # Shapes
/// - logits: `[batch, seq]` each
/// - start, end: `[batch]`, positions in the sequence; 0, the position of `[CLS]`, if the text has no answer
/// - output: `[1]`
pub fn span_loss(logits: SpanLogits, start: Tensor<1, Int>, end: Tensor<1, Int>, rows: f64) -> Tensor<1> {
    let both = cross_entropy_sum(logits.start, start) + cross_entropy_sum(logits.end, end);
    both.div_scalar(2.0 * rows)
}
