//! The model of token classification.

use bert_model::{BertConfig, BertForTokenClassification, Mode, token_loss};
use burn::tensor::Tensor;

use crate::data::TaskData;
use crate::data::token_classification::{SentenceSet, TokenClassification};
use crate::model::{MicroBatch, TaskModel, TokenBatch};
use crate::setup::{BaseCheckpoint, Setup};

impl TaskModel for TokenClassification<'_> {
    type Model = BertForTokenClassification;
    /// Sentences, with the positions and numbers of their words' tags.
    type Batch = TokenBatch;

    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        checkpoint.with_labels(&self.names)
    }

    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> MicroBatch<TokenBatch> {
        let SentenceSet { sentences, encoded } = &self.sets().train;
        let padded = encoded.batch(items, encoded.padded_length(whole));
        let (mut positions, mut tags) = (Vec::new(), Vec::new());
        for (row, &item) in items.iter().enumerate() {
            for (position, tag) in encoded.first_pieces(item).iter().zip(&sentences[item].tags) {
                let number = self.names.iter().position(|name| name == tag).expect("a tag of train");
                positions.push((row * padded.seq_length + position) as i32);
                tags.push(number as i32);
            }
        }
        let targets = tags.len();
        MicroBatch { batch: TokenBatch { padded, targets: [positions, tags] }, targets }
    }

    fn loss(
        &self,
        model: &BertForTokenClassification,
        _frozen: Option<&Tensor<2>>,
        batch: &TokenBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let Setup { config, checkpoint: BaseCheckpoint { device, .. }, .. } = self.setup();
        let input = batch.padded.input(device);
        let logits = if config.freeze_encoder {
            model.forward_frozen(input, mode)
        } else {
            model.forward(input, mode)
        };
        let [positions, tags] = batch.targets(device);
        token_loss(logits, positions, tags, targets as f64)
    }

    /// Loss of a uniform distribution over the tags.
    fn uniform_loss(&self) -> f64 {
        (self.names.len() as f64).ln()
    }
}
