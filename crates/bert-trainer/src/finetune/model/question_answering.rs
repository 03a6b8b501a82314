//! The model of extractive question answering.

use bert_model::{BertForQuestionAnswering, BertInput, Mode, SpanLogits, span_loss};
use burn::tensor::{Int, Tensor};

use crate::finetune::data::TaskData;
use crate::finetune::data::question_answering::QuestionAnswering;
use crate::finetune::model::token_outputs::{TokenBatch, TokenModel};
use crate::finetune::model::{MicroBatch, TaskModel};

impl TokenModel for BertForQuestionAnswering {
    type Logits = SpanLogits;

    fn logits(&self, input: BertInput, mode: Mode) -> SpanLogits {
        self.forward(input, mode)
    }

    fn logits_of_frozen_encoder(&self, input: BertInput, _mode: Mode) -> SpanLogits {
        self.forward_frozen(input)
    }

    fn cross_entropy(logits: SpanLogits, [starts, ends]: [Tensor<1, Int>; 2], count: f64) -> Tensor<1> {
        span_loss(logits, starts, ends, count)
    }
}

impl TaskModel for QuestionAnswering<'_> {
    type Model = BertForQuestionAnswering;
    /// Windows, with the start and end of the answer in each.
    type Batch = TokenBatch;

    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> MicroBatch<TokenBatch> {
        let encoded = &self.sets().train.encoded;
        let target = |&window: &usize| {
            let (start, end) = encoded.window(window).target;
            (start as i32, end as i32)
        };
        let (starts, ends) = items.iter().map(target).unzip();
        let padded = encoded.batch(items, encoded.padded_length(whole));
        MicroBatch { batch: TokenBatch { padded, targets: [starts, ends] }, targets: items.len() }
    }

    fn loss(
        &self,
        model: &BertForQuestionAnswering,
        _frozen: Option<&Tensor<2>>,
        batch: &TokenBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        model.batch_loss(self.setup(), batch, targets, mode)
    }

    /// Loss of a uniform distribution over the tokens.
    fn uniform_loss(&self) -> f64 {
        (self.setup().max_seq_length as f64).ln()
    }
}
