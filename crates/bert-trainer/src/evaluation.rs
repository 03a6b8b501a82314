//! Evaluates a pre-trained model on held-out instances: loss and accuracy of the masked LM and of next-sentence
//! prediction.
//!
//! Ports `metric_fn` of `run_pretraining.py`. Each figure is a sum over all evaluated instances, added up in f64
//! and in their order, and divided once by the number of targets. Unlike the reference, it evaluates every instance
//! exactly once. Data without masks, or with documents instead of instances, gets the pairs and masks of epoch 0
//! under the data's own seed, the same in every run.

use bert_data::Nsp;
use bert_model::{BertForPreTraining, PretrainingInput, cross_entropy};
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::host::values;
use crate::metrics_log::nan_if_null;
use crate::stop::StopFlag;

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
    /// Mean cross-entropy of the next-sentence labels; NaN where they mean nothing.
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

impl Evaluation {
    /// Returns the figures with NaN for the next sentence. Those figures mean nothing for data without pairs, and for a
    /// model whose next-sentence head was never trained.
    #[must_use]
    pub fn without_next_sentence(self) -> Self {
        let nan = f64::NAN;
        Self { next_sentence_loss: nan, next_sentence_accuracy: nan, random_next: nan, ..self }
    }

    /// Whether the figures of the next sentence mean something.
    pub fn has_next_sentence(&self) -> bool {
        self.next_sentence_loss.is_finite()
    }
}

/// Evaluates `model` (without autodiff) on the first `limit` instances of the loader's folder, or all of them. Data made
/// with `--nsp off` gives no figures of the next sentence.
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
    let done = evaluate_unless_stopped(model, loader, batch_size, limit, device, &StopFlag::new())?;
    Ok(done.expect("nobody sets this flag"))
}

/// Does what [`evaluate`] does; returns `None` when a stop is asked for before the last batch is done.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_unless_stopped(
    model: &BertForPreTraining,
    loader: &mut DataLoader,
    batch_size: usize,
    limit: Option<u64>,
    device: &Device,
    stop: &StopFlag,
) -> Result<Option<Evaluation>, Error> {
    let end = limit.unwrap_or(u64::MAX).min(loader.rows());
    let mut sums = EvaluationSums::default();
    for start in (0..end).step_by(batch_size) {
        if stop.requested().is_some() {
            return Ok(None);
        }
        let batch = loader.stored(start, end.min(start + batch_size as u64))?;
        let targets = batch.targets(device);
        let part =
            evaluate_batch(model, batch.input(device), targets.masked_lm_ids, targets.next_sentence_labels);
        let characters = batch.masked_lm_ids.iter().map(|&id| loader.vocabulary().characters(id as u32));
        sums.add(&EvaluationSums {
            masked_characters: characters.sum::<usize>() as u64,
            random_next: batch.next_sentence_labels.iter().sum::<i32>() as f64,
            ..part
        });
    }
    let evaluation = sums.mean();
    let pairs = loader.manifest().config.nsp != Nsp::Off;
    Ok(Some(if pairs { evaluation } else { evaluation.without_next_sentence() }))
}

/// Sums over the batches of an evaluation: losses and numbers of right answers, not yet divided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvaluationSums {
    /// Number of evaluated instances.
    pub instances: u64,
    /// Number of masked-LM targets in them.
    pub predictions: u64,
    /// Characters of the masked tokens.
    pub masked_characters: u64,
    /// Negative log-likelihood of the masked tokens, in nats.
    pub masked_lm_loss: f64,
    /// Masked tokens predicted first.
    pub masked_lm_correct: f64,
    /// Cross-entropy of the next-sentence labels, in nats.
    pub next_sentence_loss: f64,
    /// Next-sentence labels predicted right.
    pub next_sentence_correct: f64,
    /// Instances whose second segment is a random one.
    pub random_next: f64,
}

impl EvaluationSums {
    /// Adds the sums of a further batch.
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

    /// Returns the means. Without a target, the figures of the masked LM are NaN.
    pub fn mean(self) -> Evaluation {
        let (predictions, instances) = (self.predictions as f64, self.instances as f64);
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
        }
    }
}

/// Returns the sums over one batch. Those of the input alone, `masked_characters` and `random_next`, are 0.
pub fn evaluate_batch(
    model: &BertForPreTraining,
    input: PretrainingInput,
    masked_lm_ids: Tensor<1, Int>,
    next_sentence_labels: Tensor<1, Int>,
) -> EvaluationSums {
    let [predictions] = masked_lm_ids.dims();
    let [instances] = next_sentence_labels.dims();
    let scores = model.scores(input, masked_lm_ids);
    let next = scores.seq_relationship_logits;
    let predicted = next.clone().argmax(1).reshape([instances]); // [batch]
    let next_correct = predicted.equal(next_sentence_labels.clone()).float();
    let next_nll = cross_entropy(next, next_sentence_labels);
    // One transfer from the device for all of them; added up here, batches of any size give one sum.
    let mut all = vec![next_nll, next_correct];
    if predictions > 0 {
        all.extend([scores.masked_lm_nll, scores.masked_lm_correct]);
    }
    let all = values(Tensor::cat(all, 0));
    let (labels, words) = all.split_at(2 * instances);
    let sum = |values: &[f32]| values.iter().map(|&value| f64::from(value)).sum();
    EvaluationSums {
        instances: instances as u64,
        predictions: predictions as u64,
        masked_lm_loss: sum(&words[..predictions]),
        masked_lm_correct: sum(&words[predictions..]),
        next_sentence_loss: sum(&labels[..instances]),
        next_sentence_correct: sum(&labels[instances..]),
        ..EvaluationSums::default()
    }
}
