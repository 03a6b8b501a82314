//! The model of extractive question answering.

use bert_model::{BertForQuestionAnswering, Mode, span_loss};
use burn::tensor::Tensor;

use crate::data::TaskData;
use crate::data::question_answering::QuestionAnswering;
use crate::model::{MicroBatch, TaskModel, TokenBatch};
use crate::setup::{BaseCheckpoint, Setup};

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
        let Setup { config, checkpoint: BaseCheckpoint { device, .. }, .. } = self.setup();
        let input = batch.padded.input(device);
        let logits =
            if config.freeze_encoder { model.forward_frozen(input) } else { model.forward(input, mode) };
        let [starts, ends] = batch.targets(device);
        span_loss(logits, starts, ends, targets as f64)
    }

    /// Loss of a uniform distribution over the tokens.
    fn uniform_loss(&self) -> f64 {
        (self.setup().max_seq_length as f64).ln()
    }
}
