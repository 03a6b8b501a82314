//! The model of a fine-tuning: its initial weights, adapters and trainable layers, its micro-batches and its loss.

pub(crate) mod adapters;
pub(crate) mod classification;
pub(crate) mod initial_model;
pub(crate) mod question_answering;
pub(crate) mod token_classification;
pub(crate) mod trainable_layers;

use bert_inference::Error;
use bert_inference::compute::host_tensors::int_vector;
use bert_inference::compute::stop_flag::{StopFlag, StopRequested};
use bert_inference::encoding::padded_batch::PaddedBatch;
use bert_model::{Architecture, BertConfig, Mode};
use burn::tensor::{Device, Int, Tensor};

use crate::data::TaskData;

/// A part of the training items of one step.
pub(crate) struct MicroBatch<B> {
    /// The items, padded to one length.
    pub(crate) batch: B,
    /// Number of targets.
    pub(crate) targets: usize,
}

/// A batch of sequences with targets at tokens, two numbers for each target.
pub(crate) struct TokenBatch {
    padded: PaddedBatch,
    targets: [Vec<i32>; 2],
}

impl TokenBatch {
    fn targets(&self, device: &Device) -> [Tensor<1, Int>; 2] {
        self.targets.each_ref().map(|numbers| int_vector(numbers, device))
    }
}

/// The model of a task and its loss.
pub(crate) trait TaskModel: TaskData {
    /// BERT with the task's head.
    type Model: Architecture;
    /// A batch of training items, padded to one length.
    type Batch;

    /// Returns the checkpoint's configuration with the outputs of the task.
    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        checkpoint
    }

    /// Modifies a loaded model before training; `fresh` names the tensors that the checkpoint lacks.
    fn prepared(&self, model: Self::Model, _fresh: &[&String], _seed: u64) -> Result<Self::Model, Error> {
        Ok(model)
    }

    /// Returns the number of sequences of an item: 1, or the number of choices.
    fn sequences_per_item(&self) -> usize {
        1
    }

    /// Returns a micro-batch of the items with these indices. It is padded to the length of the whole batch of a step,
    /// so that it has the dropout masks of its rows there. The loss of a step is divided by the targets of all its
    /// micro-batches.
    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> MicroBatch<Self::Batch>;

    /// Returns the frozen encoder's output for every item, if the head needs nothing else.
    fn frozen_outputs(
        &self,
        _model: &Self::Model,
        _stop: &StopFlag,
    ) -> Result<Option<Tensor<2>>, StopRequested> {
        Ok(None)
    }

    /// Returns the contribution of a batch to the loss of a step with `targets` targets, `[1]`.
    fn loss(
        &self,
        model: &Self::Model,
        frozen: Option<&Tensor<2>>,
        batch: &Self::Batch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1>;

    /// Returns the loss of a uniform prediction. A run whose training loss stays far above it has diverged.
    fn uniform_loss(&self) -> f64;
}
