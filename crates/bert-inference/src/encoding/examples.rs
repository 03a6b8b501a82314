//! Tokenizes examples and builds batches: word pieces, segments and labels, padded to the longest sequence of the
//! batch.

use bert_model::BertInput;
use bert_tasks::{EncodedPair, Example, Label, SpecialIds, Truncation, encode_pair};
use bert_tokenization::{Tokenizer, Vocabulary};
use burn::tensor::{Device, Int, Tensor};

use crate::compute::host_tensors::{float_vector, int_vector};
use crate::encoding::padded_batch::{PaddedBatch, by_length, padded_length};

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
    /// Tokenizes examples, truncated to `max_length` tokens; no batch is padded beyond that.
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

    /// Returns the number of texts that were cut, and of texts with special tokens.
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

    /// Returns a batch of the given examples, padded to `length`.
    pub fn batch_of_length(&self, examples: Vec<usize>, length: usize) -> ClassificationBatch {
        let sequences: Vec<&EncodedPair> = examples.iter().flat_map(|&i| self.sequences(i)).collect();
        ClassificationBatch {
            padded: PaddedBatch::with_length(&sequences, self.pad_id, length),
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
    /// When an example has no class.
    pub fn classes(&self, device: &Device) -> Tensor<1, Int> {
        let class = |label: &Option<Label>| match label {
            Some(Label::Class(class)) => *class as i32,
            other => panic!("a training example has label {other:?}, not a class"),
        };
        int_vector(&self.labels.iter().map(class).collect::<Vec<_>>(), device)
    }

    /// Returns the scores after `scaled`, `[batch]`.
    ///
    /// # Panics
    /// When an example has no score.
    pub fn scores(&self, device: &Device, scaled: impl Fn(f32) -> f32) -> Tensor<1> {
        let score = |label: &Option<Label>| match label {
            Some(Label::Score(score)) => scaled(*score),
            other => panic!("a training example has label {other:?}, not a score"),
        };
        float_vector(self.labels.iter().map(score).collect(), device)
    }
}
