//! The loss of pre-training: masked LM and next sentence.

use bert_model::{BertForPreTraining, LossNormalizer, Mode, PretrainingLoss};
use burn::tensor::Device;

use crate::data_loader::PretrainingBatch;
use crate::step::{MicroBatchLoss, StepReport};

/// Returns the loss of a micro-batch as its share of the loss of the global batch: sums divided by the numbers of
/// targets in `normalizer`. A micro-batch has the dropout masks that its rows have in the whole batch. With `recompute`,
/// the layers are recomputed in the backward pass (gradient checkpointing).
pub fn pretraining_objective(
    normalizer: LossNormalizer,
    recompute: bool,
    device: &Device,
) -> impl Fn(&BertForPreTraining, &PretrainingBatch, Mode) -> MicroBatchLoss {
    let device = device.clone();
    move |model, batch, mode| {
        let mode = mode.from_sequence(batch.first_sequence as u64);
        let input = batch.input(&device);
        let targets = batch.targets(&device);
        if recompute {
            let (loss, kept) = model.loss_recomputing(input, targets, normalizer, mode);
            return PretrainingParts::with_parts(loss)
                .with_deferred_backward(|loss_gradients| kept.backward(loss_gradients));
        }
        PretrainingParts::with_parts(model.loss(input, targets, normalizer, mode))
    }
}

/// The two parts of a step's loss, in nats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PretrainingParts {
    /// Mean negative log-likelihood of the masked tokens.
    pub masked_lm: f64,
    /// Mean cross-entropy of the next-sentence labels; 0 if they have no weight.
    pub next_sentence: f64,
}

impl PretrainingParts {
    /// Reads the parts from the report of a step with the loss of [`pretraining_objective`].
    ///
    /// # Panics
    /// For the report of a step with another loss.
    pub(crate) fn new(report: &StepReport) -> Self {
        let &[masked_lm, next_sentence] = report.parts.as_slice() else {
            panic!("not a step of pre-training")
        };
        Self { masked_lm, next_sentence }
    }

    /// Returns a loss whose parts [`PretrainingParts::new`] reads.
    fn with_parts(loss: PretrainingLoss) -> MicroBatchLoss {
        MicroBatchLoss::new(loss.total, vec![loss.masked_lm, loss.next_sentence])
    }
}
