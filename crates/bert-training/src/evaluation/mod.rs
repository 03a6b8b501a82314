//! Evaluates a pre-trained model on held-out instances: loss and accuracy of the masked LM and of next-sentence
//! prediction.
//!
//! Ports `metric_fn` of `run_pretraining.py`. Each score is a sum over all evaluated instances, accumulated
//! in f64 in their order, and divided once by the number of targets. Unlike the reference, this module
//! evaluates every instance exactly once. Data without masks, or with documents instead of instances, gets
//! the pairs and masks of epoch 0 under the data's own seed, which are the same in every run.

pub(crate) mod forgetting;
pub(crate) mod ngram_baselines;
pub(crate) mod top_k;

use std::path::PathBuf;

use bert_data::{DataSet, Nsp};
use bert_inference::StopFlag;
use bert_inference::host_tensors::read;
use bert_model::{BertForPreTraining, PretrainingInput, cross_entropy};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

use crate::data_loader::{DataLoader, PretrainingBatch};
use crate::error::{Error, after_step};
use crate::group::Group;
use crate::run_dir::metrics_log::nan_if_null;

/// Losses in nats and accuracies in [0, 1] on held-out data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Number of evaluated instances.
    pub instances: u64,
    /// Number of masked-LM targets in the evaluated instances.
    pub predictions: u64,
    /// Mean negative log-likelihood of the masked tokens.
    #[serde(deserialize_with = "nan_if_null")]
    pub masked_lm_loss: f64,
    /// Number of characters of the masked tokens, as [`bert_data::Vocabulary::characters`] counts them.
    pub masked_characters: u64,
    /// Negative log-likelihood of the masked tokens divided by their characters, in nats. Losses per token
    /// cannot be compared across vocabularies, because one vocabulary splits the same text into more tokens
    /// than another. This score can be compared if the text and the fraction of masked tokens are the same
    /// and `[UNK]` is rare.
    #[serde(deserialize_with = "nan_if_null")]
    pub masked_lm_nats_per_character: f64,
    /// Fraction of masked tokens that the model ranks first.
    #[serde(deserialize_with = "nan_if_null")]
    pub masked_lm_accuracy: f64,
    /// Mean cross-entropy of the next-sentence labels; NaN if they are meaningless.
    #[serde(deserialize_with = "nan_if_null")]
    pub next_sentence_loss: f64,
    /// Fraction of next-sentence labels predicted correctly.
    #[serde(deserialize_with = "nan_if_null")]
    pub next_sentence_accuracy: f64,
    /// Fraction of instances whose second segment is random (label 1).
    #[serde(deserialize_with = "nan_if_null")]
    pub random_next: f64,
    /// The evaluations of the parts of a mixture, of which the scores above are the weighted means; empty for
    /// one data set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartEvaluation>,
}

/// The evaluation of the held-out data of a part of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartEvaluation {
    /// Folder of the held-out data.
    pub data: PathBuf,
    /// Share of the part in the mean.
    pub share: f64,
    /// The scores.
    #[serde(flatten)]
    pub evaluation: Evaluation,
}

/// An evaluation after a step: a line of `evaluations.jsonl`, or the `evaluation.json` of saved weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRecord {
    /// Number of finished steps.
    pub step: u64,
    /// The scores.
    #[serde(flatten)]
    pub evaluation: Evaluation,
}

impl Evaluation {
    /// Returns the mean of evaluations by their shares, with the evaluations as its parts. Returns a single
    /// evaluation unchanged, and `None` if there is none. The numbers of instances, predictions and
    /// characters are added up.
    pub fn mean_of(mut parts: Vec<PartEvaluation>) -> Option<Self> {
        if parts.len() < 2 {
            return parts.pop().map(|part| part.evaluation);
        }
        let mean =
            |value: fn(&Self) -> f64| parts.iter().map(|part| part.share * value(&part.evaluation)).sum();
        let sum = |value: fn(&Self) -> u64| parts.iter().map(|part| value(&part.evaluation)).sum();
        Some(Self {
            instances: sum(|e| e.instances),
            predictions: sum(|e| e.predictions),
            masked_lm_loss: mean(|e| e.masked_lm_loss),
            masked_characters: sum(|e| e.masked_characters),
            masked_lm_nats_per_character: mean(|e| e.masked_lm_nats_per_character),
            masked_lm_accuracy: mean(|e| e.masked_lm_accuracy),
            next_sentence_loss: mean(|e| e.next_sentence_loss),
            next_sentence_accuracy: mean(|e| e.next_sentence_accuracy),
            random_next: mean(|e| e.random_next),
            parts,
        })
    }

    /// Returns the scores with NaN for next-sentence prediction. Its scores are meaningless for data without
    /// pairs and for a model with an untrained next-sentence head.
    #[must_use]
    pub fn without_next_sentence(self) -> Self {
        let nan = f64::NAN;
        Self { next_sentence_loss: nan, next_sentence_accuracy: nan, random_next: nan, ..self }
    }

    /// Returns whether the scores of next-sentence prediction are meaningful.
    pub fn has_next_sentence(&self) -> bool {
        self.next_sentence_loss.is_finite()
    }
}

/// Evaluates `model` (without autodiff) on the first `limit` instances of the loader's folder, or on all of
/// them. Data made with `--nsp off` has no next-sentence scores.
///
/// # Errors
/// Fails when a shard cannot be read.
pub fn evaluate(
    model: &BertForPreTraining,
    loader: &mut DataLoader,
    batch_size: usize,
    limit: Option<u64>,
) -> Result<Evaluation, Error> {
    let batches = EvaluationBatches { size: batch_size, limit };
    evaluate_in(&mut Group::alone(), model, loader, batches, &StopFlag::new())
}

/// The batches of an evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvaluationBatches {
    /// Number of instances in a batch.
    pub(crate) size: usize,
    /// Maximum number of instances.
    pub(crate) limit: Option<u64>,
}

/// Evaluates like [`evaluate`], with all ranks of a group: rank `i % ranks` evaluates batch `i`. The sums of all
/// batches are added in their order.
///
/// # Errors
/// Fails when a rank has an error or is lost, or when a stop is requested before the last batch.
pub(crate) fn evaluate_in(
    group: &mut Group,
    model: &BertForPreTraining,
    loader: &mut DataLoader,
    batches: EvaluationBatches,
    stop: &StopFlag,
) -> Result<Evaluation, Error> {
    let data = loader.data().clone();
    let device = &device_of(model);
    let instances = batches.limit.unwrap_or(u64::MAX).min(loader.rows());
    let count = instances.div_ceil(batches.size as u64) as usize;
    let size = batches.size as u64;
    let mut own_words = || {
        let mut words = Vec::new();
        let starts = (group.rank() as u64 * size..instances).step_by(group.ranks() * batches.size);
        for start in starts.take_while(|_| !group.holds_error()) {
            stop.check().map_err(|error| after_step(error, group.step()))?;
            let batch = loader.stored(start, instances.min(start + size))?;
            let sums = sums_of_batch(model, &batch, &data, device)?;
            words.extend(bytemuck::cast::<_, [u64; EvaluationSums::WORDS]>(sums));
        }
        Ok(words)
    };
    let own = own_words();
    let own = group.hold(own)?;
    let ranks = group.ranks();
    let batches_of = |rank: usize| (count + ranks - 1 - rank) / ranks;
    let all = group.gather(own, |rank| EvaluationSums::WORDS * batches_of(rank))?;
    let mut sums = EvaluationSums::default();
    for batch in 0..count {
        let start = EvaluationSums::WORDS * (batch / ranks);
        let words = &all[batch % ranks][start..start + EvaluationSums::WORDS];
        sums.add(bytemuck::from_bytes(bytemuck::cast_slice(words)));
    }
    let evaluation = sums.mean();
    let has_pairs = data.manifest().config.nsp != Nsp::Off;
    Ok(if has_pairs { evaluation } else { evaluation.without_next_sentence() })
}

/// Returns the device of a model's parameters.
pub(crate) fn device_of(model: &BertForPreTraining) -> Device {
    model.devices().into_iter().next().expect("a model has parameters")
}

/// Returns all sums over one batch.
fn sums_of_batch(
    model: &BertForPreTraining,
    batch: &PretrainingBatch,
    data: &DataSet,
    device: &Device,
) -> Result<EvaluationSums, Error> {
    let targets = batch.targets(device);
    let part =
        evaluate_batch(model, batch.input(device), targets.masked_lm_ids, targets.next_sentence_labels)?;
    let characters = batch.masked_lm_ids.iter().map(|&id| data.vocabulary().characters(id as u32));
    Ok(EvaluationSums {
        masked_characters: characters.sum::<usize>() as u64,
        random_next: batch.next_sentence_labels.iter().sum::<i32>() as f64,
        ..part
    })
}

/// Sums over the batches of an evaluation: losses and numbers of correct predictions, not yet divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct EvaluationSums {
    /// Number of evaluated instances.
    pub instances: u64,
    /// Number of masked-LM targets in the evaluated instances.
    pub predictions: u64,
    /// Number of characters of the masked tokens.
    pub masked_characters: u64,
    /// Negative log-likelihood of the masked tokens, in nats.
    pub masked_lm_loss: f64,
    /// Number of masked tokens that the model ranks first.
    pub masked_lm_correct: f64,
    /// Cross-entropy of the next-sentence labels, in nats.
    pub next_sentence_loss: f64,
    /// Number of next-sentence labels predicted correctly.
    pub next_sentence_correct: f64,
    /// Number of instances whose second segment is random.
    pub random_next: f64,
}

impl EvaluationSums {
    /// Adds the sums of another batch.
    pub fn add(&mut self, part: &Self) {
        self.instances += part.instances;
        self.predictions += part.predictions;
        self.masked_characters += part.masked_characters;
        self.masked_lm_loss += part.masked_lm_loss;
        self.masked_lm_correct += part.masked_lm_correct;
        self.next_sentence_loss += part.next_sentence_loss;
        self.next_sentence_correct += part.next_sentence_correct;
        self.random_next += part.random_next;
    }

    /// Number of 64-bit words, one for each field.
    const WORDS: usize = size_of::<Self>() / size_of::<u64>();

    /// Returns the means. Without targets, the masked-LM scores are NaN.
    pub fn mean(self) -> Evaluation {
        let predictions = self.predictions as f64;
        let instances = self.instances as f64;
        Evaluation {
            instances: self.instances,
            predictions: self.predictions,
            masked_lm_loss: self.masked_lm_loss / predictions,
            masked_characters: self.masked_characters,
            masked_lm_nats_per_character: self.masked_lm_loss / self.masked_characters as f64,
            masked_lm_accuracy: self.masked_lm_correct / predictions,
            next_sentence_loss: self.next_sentence_loss / instances,
            next_sentence_accuracy: self.next_sentence_correct / instances,
            random_next: self.random_next / instances,
            parts: Vec::new(),
        }
    }
}

/// Returns the sums over one batch. `masked_characters` and `random_next`, which do not depend on the model, are 0.
///
/// # Errors
/// Fails when the device fails.
pub fn evaluate_batch(
    model: &BertForPreTraining,
    input: PretrainingInput,
    masked_lm_ids: Tensor<1, Int>,
    next_sentence_labels: Tensor<1, Int>,
) -> Result<EvaluationSums, bert_inference::Error> {
    let [predictions] = masked_lm_ids.dims();
    let [instances] = next_sentence_labels.dims();
    let scores = model.scores(input, masked_lm_ids);
    let next = scores.seq_relationship_logits;
    let predicted = next.clone().argmax(1).reshape([instances]); // [batch]
    let next_correct = predicted.equal(next_sentence_labels.clone()).float();
    let next_nll = cross_entropy(next, next_sentence_labels);
    // Read all values from the device in one transfer. They are added on the host, so the sum does not depend on the
    // batch size.
    let mut all = vec![next_nll, next_correct];
    if predictions > 0 {
        all.extend([scores.masked_lm_nll, scores.masked_lm_correct]);
    }
    let all = read(Tensor::cat(all, 0))?;
    let (labels, words) = all.split_at(2 * instances);
    let sum = |values: &[f32]| values.iter().map(|&value| f64::from(value)).sum();
    Ok(EvaluationSums {
        instances: instances as u64,
        predictions: predictions as u64,
        masked_lm_loss: sum(&words[..predictions]),
        masked_lm_correct: sum(&words[predictions..]),
        next_sentence_loss: sum(&labels[..instances]),
        next_sentence_correct: sum(&labels[instances..]),
        ..EvaluationSums::default()
    })
}
