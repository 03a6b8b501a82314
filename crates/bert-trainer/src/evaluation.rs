//! Evaluates a pre-trained model on held-out instances: loss and accuracy of the masked LM and of next-sentence
//! prediction.
//!
//! Ports `metric_fn` of `run_pretraining.py`. Each figure is a sum over all evaluated instances, added up in f64
//! and in their order, and divided once by the number of targets. Unlike the reference, it evaluates every instance
//! exactly once. Data without masks, or with documents instead of instances, gets the pairs and masks of epoch 0
//! under the data's own seed, the same in every run.

use bert_model::{BertForPreTraining, PretrainingInput, cross_entropy};
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::host::values;
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
    /// Characters of the masked tokens, as [`bert_data::Vocabulary::characters`] counts them; 0 in logs that are older
    /// than this figure.
    #[serde(default)]
    pub masked_characters: u64,
    /// Negative log-likelihood of the masked tokens divided by their characters, in nats. Losses per token of two
    /// vocabularies cannot be compared, since one cuts the same text into more tokens than the other; this can, where
    /// text and share of masks are the same and `[UNK]` is rare. NaN in older logs.
    #[serde(default = "nan", deserialize_with = "nan_if_null")]
    pub masked_lm_nats_per_character: f64,
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

/// An evaluation of the weights after a step, as a line of `evaluations.jsonl` or as `evaluation.json` beside them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRecord {
    /// Finished steps.
    pub step: u64,
    /// The figures.
    #[serde(flatten)]
    pub evaluation: Evaluation,
}

fn nan() -> f64 {
    f64::NAN
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
    for start in (0..end).step_by(batch_size) {
        let batch = loader.stored(start, end.min(start + batch_size as u64))?;
        let targets = batch.targets(device);
        let part =
            evaluate_batch(model, batch.input(device), targets.masked_lm_ids, targets.next_sentence_labels);
        sums.predictions += part.predictions;
        let characters = batch.masked_lm_ids.iter().map(|&id| loader.vocabulary().characters(id as u32));
        sums.masked_characters += characters.sum::<usize>() as u64;
        sums.masked_lm_loss += part.masked_lm_loss;
        sums.masked_lm_accuracy += part.masked_lm_accuracy;
        sums.next_sentence_loss += part.next_sentence_loss;
        sums.next_sentence_accuracy += part.next_sentence_accuracy;
        sums.random_next += batch.next_sentence_labels.iter().sum::<i32>() as f64;
    }
    sums.masked_lm_nats_per_character = sums.masked_lm_loss / sums.masked_characters.max(1) as f64;
    let (predictions, instances) = (sums.predictions.max(1) as f64, sums.instances.max(1) as f64);
    sums.masked_lm_loss /= predictions;
    sums.masked_lm_accuracy /= predictions;
    sums.next_sentence_loss /= instances;
    sums.next_sentence_accuracy /= instances;
    sums.random_next /= instances;
    Ok(sums)
}

/// Sums over one batch: losses and right answers, not yet divided. What the input alone tells is left out.
pub fn evaluate_batch(
    model: &BertForPreTraining,
    input: PretrainingInput,
    masked_lm_ids: Tensor<1, Int>,
    next_sentence_labels: Tensor<1, Int>,
) -> Evaluation {
    let [predictions] = masked_lm_ids.dims();
    let [instances] = next_sentence_labels.dims();
    let scores = model.scores(input, masked_lm_ids);
    let next = scores.seq_relationship_logits;
    let predicted = next.clone().argmax(1).reshape([instances]); // [batch]
    let next_correct = predicted.equal(next_sentence_labels.clone()).float();
    let next_nll = cross_entropy(next, next_sentence_labels);
    // One transfer from the device for all of them; added up here, batches of any size give one sum.
    let all =
        values(Tensor::cat(vec![scores.masked_lm_nll, scores.masked_lm_correct, next_nll, next_correct], 0));
    let (words, labels) = all.split_at(2 * predictions);
    let sum = |values: &[f32]| values.iter().map(|&value| f64::from(value)).sum();
    Evaluation {
        instances: instances as u64,
        predictions: predictions as u64,
        masked_lm_loss: sum(&words[..predictions]),
        masked_lm_accuracy: sum(&words[predictions..]),
        next_sentence_loss: sum(&labels[..instances]),
        next_sentence_accuracy: sum(&labels[instances..]),
        ..Evaluation::default()
    }
}
