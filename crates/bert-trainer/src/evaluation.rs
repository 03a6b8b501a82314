//! Evaluation of a pre-trained model on held-out instances.
//!
//! In: a model, a data folder. Out: masked-LM and next-sentence loss and accuracy, each a sum over
//! all evaluated instances divided once by the number of targets. Ports the metrics of
//! `run_pretraining.py`; unlike there, every instance is evaluated once and none twice. Where the
//! data has no masks, or documents instead of instances, they are those of epoch 0 under the data's
//! own seed, the same in every run.

use bert_model::{BertForPreTraining, Mode, correct_count, cross_entropy_sum};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::metrics_log::nan_if_null;

/// Losses in nats and accuracies in [0, 1] on held-out data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Number of evaluated instances.
    pub instances: u64,
    /// Number of masked-LM targets in them.
    pub predictions: u64,
    /// Mean negative log-likelihood of the masked tokens.
    #[serde(deserialize_with = "nan_if_null")]
    pub masked_lm_loss: f64,
    /// Share of masked tokens predicted first.
    #[serde(deserialize_with = "nan_if_null")]
    pub masked_lm_accuracy: f64,
    /// Mean cross-entropy of the next-sentence labels.
    #[serde(deserialize_with = "nan_if_null")]
    pub next_sentence_loss: f64,
    /// Share of next-sentence labels predicted right.
    #[serde(deserialize_with = "nan_if_null")]
    pub next_sentence_accuracy: f64,
    /// Share of the instances whose second segment is a random one (label 1).
    #[serde(deserialize_with = "nan_if_null")]
    pub random_next: f64,
}

/// Evaluates `model` (without autodiff) on the first `limit` instances of the loader's folder, or
/// all of them.
///
/// # Errors
/// When a shard cannot be read.
pub fn evaluate(
    model: &BertForPreTraining,
    loader: &mut DataLoader,
    batch_size: usize,
    limit: Option<u64>,
    device: &Device,
) -> Result<Evaluation, Error> {
    let end = limit.unwrap_or(u64::MAX).min(loader.rows());
    let mut sums = Evaluation { instances: end, ..Evaluation::default() };
    let count = |tensor: Tensor<1>| f64::from(tensor.into_scalar::<f32>());
    let mut start = 0;
    while start < end {
        let stop = (start + batch_size as u64).min(end);
        let batch = loader.stored(start, stop)?;
        let targets = batch.targets(device);
        let output = model.forward(batch.input(device), Mode::Eval);
        let (words, next) = (output.prediction_logits, output.seq_relationship_logits);
        sums.predictions += batch.num_predictions() as u64;
        sums.masked_lm_accuracy += count(correct_count(words.clone(), targets.masked_lm_ids.clone(), None));
        sums.masked_lm_loss += count(cross_entropy_sum(words, targets.masked_lm_ids));
        sums.random_next += batch.next_sentence_labels.iter().sum::<i32>() as f64;
        let labels = targets.next_sentence_labels;
        sums.next_sentence_accuracy += count(correct_count(next.clone(), labels.clone(), None));
        sums.next_sentence_loss += count(cross_entropy_sum(next, labels));
        start = stop;
    }
    let (predictions, instances) = (sums.predictions.max(1) as f64, sums.instances.max(1) as f64);
    sums.masked_lm_loss /= predictions;
    sums.masked_lm_accuracy /= predictions;
    sums.next_sentence_loss /= instances;
    sums.next_sentence_accuracy /= instances;
    sums.random_next /= instances;
    Ok(sums)
}
