//! Tokenizes examples and builds batches: word pieces, segments and labels, padded to the longest sequence of the
//! batch.
//!
//! Computes the logits and predictions of a classifier.
//!
//! Pads sequences of different lengths to one matrix of ids, and groups items into batches by length.

use std::ops::Range;

use bert_model::{
    Architecture, BertForMultipleChoice, BertForSequenceClassification, BertInput, BertWithFeatureHead, Mode,
};
use bert_tasks::{EncodedPair, Example, Kind, Label, SpecialIds, Truncation, encode_pair};
use bert_tokenization::{Tokenizer, Vocabulary};
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor, activation};

use crate::compute::host_tensors::{bert_input, float_vector, int_vector, read};
use crate::compute::stop_flag::StopFlag;
use crate::error::Error;

/// The tokenized examples of a split.
pub struct Features {
    /// All sequences, grouped by example.
    sequences: Vec<EncodedPair>,
    per_example: usize,
    labels: Vec<Option<Label>>,
    pad_id: i32,
    max_length: usize,
    truncation: Truncation,
}

/// A batch of examples of a split, padded to one length.
pub struct ClassificationBatch {
    /// Indices of the examples in the split.
    pub examples: Vec<usize>,
    padded: PaddedBatch,
    per_example: usize,
    labels: Vec<Option<Label>>,
}

impl Features {
    /// Tokenizes examples and truncates them to `max_length` tokens; no batch is padded beyond this length.
    pub fn new(
        examples: &[Example],
        tokenizer: &Tokenizer,
        vocabulary: &Vocabulary,
        max_length: usize,
    ) -> Self {
        let special = SpecialIds { cls: vocabulary.cls_id(), sep: vocabulary.sep_id() };
        let mut encoder = tokenizer.encoder();
        let mut ids = |text: &str| {
            let mut ids = Vec::new();
            encoder.encode(text, &mut ids);
            ids
        };
        let mut truncation = Truncation::default();
        let mut sequences = Vec::new();
        for example in examples {
            let a = ids(&example.text_a);
            let seconds = example.text_b.iter().chain(&example.choices).map(|b| Some(ids(b)));
            let mut seconds: Vec<Option<Vec<u32>>> = seconds.collect();
            if seconds.is_empty() {
                seconds.push(None);
            }
            for b in &seconds {
                let encoded = encode_pair(&a, b.as_deref(), special, max_length);
                let texts = a.len() + b.as_deref().map_or(0, <[u32]>::len);
                truncation.add(texts, encoded.text_tokens());
                sequences.push(encoded);
            }
            let texts = [&example.text_a].into_iter().chain(&example.text_b).chain(&example.choices);
            truncation.with_special +=
                usize::from(texts.into_iter().any(|text| Tokenizer::has_special_tokens(text)));
        }
        Self {
            sequences,
            per_example: examples.first().map_or(1, |example| example.choices.len().max(1)),
            labels: examples.iter().map(|example| example.label).collect(),
            pad_id: vocabulary.pad_id() as i32,
            max_length,
            truncation,
        }
    }

    /// Wraps sequences that are already encoded, without labels; each has at most `max_length` tokens.
    pub fn from_encoded(encoded: Vec<EncodedPair>, vocabulary: &Vocabulary, max_length: usize) -> Self {
        let labels = vec![None; encoded.len()];
        let pad_id = vocabulary.pad_id() as i32;
        let truncation = Truncation::default();
        Self { sequences: encoded, per_example: 1, labels, pad_id, max_length, truncation }
    }

    /// Returns the numbers of texts that were cut and of texts that contain special tokens.
    pub fn truncation(&self) -> Truncation {
        self.truncation
    }

    /// Returns the number of examples.
    pub fn count(&self) -> usize {
        self.labels.len()
    }

    /// Returns the number of sequences per example: 1, or the number of choices.
    pub fn per_example(&self) -> usize {
        self.per_example
    }

    /// Returns the encoded sequences of an example.
    pub fn sequences(&self, example: usize) -> &[EncodedPair] {
        &self.sequences[example * self.per_example..][..self.per_example]
    }

    /// Returns batches of all examples, sorted by the length of their longest sequence.
    pub fn by_length(&self, batch_size: usize) -> Vec<Vec<usize>> {
        let longest = |pairs: &[EncodedPair]| pairs.iter().map(|one| one.input_ids.len()).max().unwrap_or(0);
        let lengths: Vec<usize> = self.sequences.chunks(self.per_example).map(longest).collect();
        by_length(&lengths, batch_size)
    }

    /// Returns a batch of the given examples.
    pub fn batch(&self, examples: Vec<usize>) -> ClassificationBatch {
        let length = self.padded_length(&examples);
        self.batch_of_length(examples, length)
    }

    /// Returns the length to which a batch of these examples is padded.
    pub fn padded_length(&self, examples: &[usize]) -> usize {
        padded_length(examples.iter().flat_map(|&i| self.sequences(i)), self.max_length)
    }

    /// Returns the sequences of the given examples, padded to `length`.
    pub fn padded(&self, examples: &[usize], length: usize) -> PaddedBatch {
        let sequences: Vec<&EncodedPair> = examples.iter().flat_map(|&i| self.sequences(i)).collect();
        PaddedBatch::with_length(&sequences, self.pad_id, length)
    }

    /// Returns a batch of the given examples, padded to `length`.
    pub fn batch_of_length(&self, examples: Vec<usize>, length: usize) -> ClassificationBatch {
        ClassificationBatch {
            padded: self.padded(&examples, length),
            per_example: self.per_example,
            labels: examples.iter().map(|&i| self.labels[i]).collect(),
            examples,
        }
    }
}

impl ClassificationBatch {
    /// Returns the model's input; each tensor is `[examples * per_example, seq]`.
    pub fn input(&self, device: &Device) -> BertInput {
        self.padded.input(device)
    }

    /// Returns the row numbers of the examples' sequences, for selecting from a table of cached outputs.
    pub fn rows(&self, device: &Device) -> Tensor<1, Int> {
        let sequences = |&i: &usize| i * self.per_example..(i + 1) * self.per_example;
        let rows: Vec<i32> = self.examples.iter().flat_map(sequences).map(|i| i as i32).collect();
        int_vector(&rows, device)
    }

    /// Returns the class numbers, `[batch]`.
    ///
    /// # Panics
    /// Panics if an example has no class.
    pub fn classes(&self, device: &Device) -> Tensor<1, Int> {
        let class = |label: &Option<Label>| match label {
            Some(Label::Class(class)) => *class as i32,
            other => panic!("a training example has label {other:?}, not a class"),
        };
        int_vector(&self.labels.iter().map(class).collect::<Vec<_>>(), device)
    }

    /// Returns the scores, each changed by `scaled`, `[batch]`.
    ///
    /// # Panics
    /// Panics if an example has no score.
    pub fn scores(&self, device: &Device, scaled: impl Fn(f32) -> f32) -> Tensor<1> {
        let score = |label: &Option<Label>| match label {
            Some(Label::Score(score)) => scaled(*score),
            other => panic!("a training example has label {other:?}, not a score"),
        };
        float_vector(self.labels.iter().map(score).collect(), device)
    }
}

/// Number of examples in a batch of inference.
pub const EVAL_BATCH: usize = 64;

/// BERT with a classification head.
pub trait ClassifierModel: Architecture {
    /// Returns the input features of the classifier, `[sequences, features]`; the pooled output by default.
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2>;

    /// Returns whether the features are constant while the encoder is frozen.
    fn features_are_fixed(&self) -> bool {
        true
    }

    /// Returns the logits of each example, `[examples, labels]`, from the features of its sequences.
    fn logits(&self, features: Tensor<2>, per_example: usize, mode: Mode) -> Tensor<2>;

    /// Returns the last layer.
    fn classifier(&mut self) -> &mut Linear;
}

impl ClassifierModel for BertWithFeatureHead {
    /// Ignores the mode and evaluates the encoder, because it is frozen.
    fn features(&self, input: BertInput, _mode: Mode) -> Tensor<2> {
        BertWithFeatureHead::features(self, input)
    }

    fn features_are_fixed(&self) -> bool {
        self.has_fixed_features()
    }

    fn logits(&self, features: Tensor<2>, _per_example: usize, mode: Mode) -> Tensor<2> {
        self.classify(features, mode)
    }

    fn classifier(&mut self) -> &mut Linear {
        &mut self.head_classifier
    }
}

impl ClassifierModel for BertForSequenceClassification {
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.bert.pooled_output(input, mode)
    }

    fn logits(&self, features: Tensor<2>, _per_example: usize, mode: Mode) -> Tensor<2> {
        self.classify(features, mode)
    }

    fn classifier(&mut self) -> &mut Linear {
        &mut self.classifier
    }
}

impl ClassifierModel for BertForMultipleChoice {
    fn features(&self, input: BertInput, mode: Mode) -> Tensor<2> {
        self.bert.pooled_output(input, mode)
    }

    fn logits(&self, features: Tensor<2>, per_example: usize, mode: Mode) -> Tensor<2> {
        self.choose(features, per_example, mode)
    }

    fn classifier(&mut self) -> &mut Linear {
        &mut self.classifier
    }
}

/// Returns the prediction of each row: the most probable class (ties go to the lowest), or the score.
pub fn decide(rows: &[Vec<f32>], kind: Kind) -> Vec<Label> {
    let class = |row: &Vec<f32>| {
        let better = |best: usize, i: usize| if row[i] > row[best] { i } else { best };
        Label::Class((1..row.len()).fold(0, better))
    };
    match kind {
        Kind::Regression { .. } => rows.iter().map(|row| Label::Score(row[0])).collect(),
        _ => rows.iter().map(class).collect(),
    }
}

/// Returns the class probabilities of every example in order, or the score for a regression.
///
/// # Errors
/// Fails when a stop is requested before the last batch, or when the device fails.
pub fn predict<M: ClassifierModel>(
    model: &M,
    features: &Features,
    kind: Kind,
    device: &Device,
    stop: &StopFlag,
) -> Result<Vec<Vec<f32>>, Error> {
    let device = device.clone().inner();
    let mut rows = vec![Vec::new(); features.count()];
    for examples in features.by_length(EVAL_BATCH) {
        stop.check()?;
        let batch = features.batch(examples);
        let outputs = model.features(batch.input(&device), Mode::Eval);
        let logits = model.logits(outputs, features.per_example(), Mode::Eval);
        let outputs = match kind {
            Kind::Regression { .. } => logits,
            _ => activation::softmax(logits, 1),
        };
        let [_, width] = outputs.dims();
        for (&example, row) in batch.examples.iter().zip(read(outputs)?.chunks(width)) {
            rows[example] = row.to_vec();
        }
    }
    Ok(rows)
}

/// Sequences padded to one length, on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaddedBatch {
    /// Number of sequences.
    pub rows: usize,
    /// Length of every row.
    pub seq_length: usize,
    /// Word-piece ids, `[rows, seq_length]`, padded with `[PAD]`.
    pub input_ids: Vec<i32>,
    /// 1 for real tokens, 0 for padding, `[rows, seq_length]`.
    pub input_mask: Vec<i32>,
    /// 0 for the first segment and padding, 1 for the second, `[rows, seq_length]`.
    pub segment_ids: Vec<i32>,
}

impl PaddedBatch {
    /// Creates an empty batch with space for `rows` sequences.
    pub fn with_capacity(rows: usize, seq_length: usize) -> Self {
        let cells = || Vec::with_capacity(rows * seq_length);
        Self { rows: 0, seq_length, input_ids: cells(), input_mask: cells(), segment_ids: cells() }
    }

    /// Creates a batch of one sequence without padding.
    pub fn single(sequence: &EncodedPair) -> Self {
        Self::new(&[sequence], 0, sequence.input_ids.len())
    }

    /// Pads sequences to the longest of them, rounded up to a multiple of 8, but at most to `max_length`, the number of
    /// positions of the model. No sequence may be longer.
    pub fn new(sequences: &[&EncodedPair], pad_id: i32, max_length: usize) -> Self {
        let seq_length = padded_length(sequences.iter().copied(), max_length);
        Self::with_length(sequences, pad_id, seq_length)
    }

    /// Pads sequences to `seq_length`. No sequence may be longer.
    pub(crate) fn with_length(sequences: &[&EncodedPair], pad_id: i32, seq_length: usize) -> Self {
        let mut batch = Self::with_capacity(sequences.len(), seq_length);
        for EncodedPair { input_ids, segment_ids } in sequences {
            batch.push(input_ids, segment_ids.iter().map(|&id| id as i32), pad_id);
        }
        batch
    }

    /// Appends a sequence of at most `seq_length` tokens.
    pub fn push(&mut self, input_ids: &[u32], segment_ids: impl Iterator<Item = i32>, pad_id: i32) {
        self.rows += 1;
        let end = self.rows * self.seq_length;
        self.input_ids.extend(input_ids.iter().map(|&id| id as i32));
        self.input_mask.extend(std::iter::repeat_n(1, input_ids.len()));
        self.segment_ids.extend(segment_ids);
        self.input_ids.resize(end, pad_id);
        self.input_mask.resize(end, 0);
        self.segment_ids.resize(end, 0);
    }

    /// Returns the length of the longest sequence.
    pub fn longest(&self) -> usize {
        let rows = self.input_mask.chunks(self.seq_length.max(1));
        rows.map(|row| row.iter().rposition(|&real| real == 1).map_or(0, |last| last + 1)).max().unwrap_or(0)
    }

    /// Removes padding: cuts every sequence to `length`, which no sequence may exceed.
    pub fn narrow(&mut self, length: usize) {
        let wide = self.seq_length;
        for cells in [&mut self.input_ids, &mut self.input_mask, &mut self.segment_ids] {
            for row in 1..self.rows {
                cells.copy_within(row * wide..row * wide + length, row * length);
            }
            cells.truncate(self.rows * length);
        }
        self.seq_length = length;
    }

    /// Returns a copy of these rows.
    pub fn slice(&self, rows: Range<usize>) -> Self {
        let cells = rows.start * self.seq_length..rows.end * self.seq_length;
        Self {
            rows: rows.len(),
            seq_length: self.seq_length,
            input_ids: self.input_ids[cells.clone()].to_vec(),
            input_mask: self.input_mask[cells.clone()].to_vec(),
            segment_ids: self.segment_ids[cells].to_vec(),
        }
    }

    /// Returns the model input, `[rows, seq_length]` each.
    pub fn input(&self, device: &Device) -> BertInput {
        let shape = [self.rows, self.seq_length];
        bert_input([&self.input_ids, &self.input_mask, &self.segment_ids], shape, device)
    }
}

/// Returns the length to which [`PaddedBatch::new`] pads sequences.
pub(crate) fn padded_length<'a>(
    sequences: impl Iterator<Item = &'a EncodedPair>,
    max_length: usize,
) -> usize {
    let longest = sequences.map(|sequence| sequence.input_ids.len()).max().unwrap_or(0);
    longest.next_multiple_of(8).min(max_length)
}

/// Returns the indices of items, sorted by length and divided into batches. This is for evaluation, where the order
/// does not matter but padding is costly.
pub(crate) fn by_length(lengths: &[usize], batch_size: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| lengths[i]);
    order.chunks(batch_size).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lowest_class() {
        let kind = Kind::Classification;
        let rows = [vec![0.4, 0.4, 0.2], vec![0.1, 0.2, 0.7]];
        assert_eq!(decide(&rows, kind), [Label::Class(0), Label::Class(2)]);
    }
}
