//! Examples to batches: word pieces, segments, labels, padded to the longest of the batch.

use bert_data::rng::{Domain, Random, Stream};
use bert_data::{Tokenizer, Vocabulary};
use bert_model::BertInput;
use burn::tensor::{Device, Int, Tensor};

use crate::host::{float_vector, int_matrix, int_vector};
use crate::tasks::{EncodedPair, Example, Label, SpecialIds, encode_pair};

/// The examples of a split as the model sees them.
pub struct Features {
    encoded: Vec<EncodedPair>,
    labels: Vec<Option<Label>>,
    pad_id: i32,
    max_length: usize,
}

/// Some examples of a split, padded to one length.
pub struct ClassificationBatch {
    /// Their numbers in the split.
    pub examples: Vec<usize>,
    seq_length: usize,
    input_ids: Vec<i32>,
    input_mask: Vec<i32>,
    segment_ids: Vec<i32>,
    labels: Vec<Option<Label>>,
}

impl Features {
    /// Tokenizes examples; none is longer than `max_length` tokens, and no batch is padded further.
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
        let encoded = examples.iter().map(|example| {
            let a = ids(&example.text_a);
            let b = example.text_b.as_deref().map(&mut ids);
            encode_pair(&a, b.as_deref(), special, max_length)
        });
        Self {
            encoded: encoded.collect(),
            labels: examples.iter().map(|example| example.label).collect(),
            pad_id: vocabulary.pad_id() as i32,
            max_length,
        }
    }

    /// Examples that are ids already, none longer than `max_length`, without labels.
    pub fn of_encoded(encoded: Vec<EncodedPair>, vocabulary: &Vocabulary, max_length: usize) -> Self {
        let labels = vec![None; encoded.len()];
        Self { encoded, labels, pad_id: vocabulary.pad_id() as i32, max_length }
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.encoded.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// An example as the model sees it.
    pub fn encoded(&self, example: usize) -> &EncodedPair {
        &self.encoded[example]
    }

    /// All examples by length, in batches: for evaluation, where order does not matter but padding costs.
    pub fn by_length(&self, batch_size: usize) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|&i| self.encoded[i].input_ids.len());
        order.chunks(batch_size).map(<[usize]>::to_vec).collect()
    }

    /// The given examples as one batch, padded to the longest of them and up to a multiple of 8, as far as
    /// `max_length` allows: the model may have no positions beyond it.
    pub fn batch(&self, examples: Vec<usize>) -> ClassificationBatch {
        let longest = examples.iter().map(|&i| self.encoded[i].input_ids.len()).max().unwrap_or(0);
        let seq_length = longest.next_multiple_of(8).min(self.max_length);
        let cells = examples.len() * seq_length;
        let mut batch = ClassificationBatch {
            seq_length,
            input_ids: Vec::with_capacity(cells),
            input_mask: Vec::with_capacity(cells),
            segment_ids: Vec::with_capacity(cells),
            labels: examples.iter().map(|&i| self.labels[i]).collect(),
            examples,
        };
        for &i in &batch.examples {
            let EncodedPair { input_ids, segment_ids } = &self.encoded[i];
            let padding = seq_length - input_ids.len();
            batch.input_ids.extend(input_ids.iter().map(|&id| id as i32));
            batch.input_ids.extend(std::iter::repeat_n(self.pad_id, padding));
            batch.input_mask.extend(std::iter::repeat_n(1, input_ids.len()));
            batch.input_mask.extend(std::iter::repeat_n(0, padding));
            batch.segment_ids.extend(segment_ids.iter().map(|&id| id as i32));
            batch.segment_ids.extend(std::iter::repeat_n(0, padding));
        }
        batch
    }

    /// The given examples as `parts` batches of nearly equal size, each padded for itself.
    pub fn micro_batches(&self, examples: &[usize], parts: usize) -> Vec<ClassificationBatch> {
        let bounds: Vec<usize> = (0..=parts).map(|part| part * examples.len() / parts).collect();
        let parts = bounds.windows(2).filter(|w| w[0] < w[1]);
        parts.map(|w| self.batch(examples[w[0]..w[1]].to_vec())).collect()
    }
}

impl ClassificationBatch {
    /// What the model reads.
    pub fn input(&self, device: &Device) -> BertInput {
        let shape = [self.examples.len(), self.seq_length];
        BertInput {
            input_ids: int_matrix(&self.input_ids, shape, device),
            input_mask: int_matrix(&self.input_mask, shape, device),
            segment_ids: int_matrix(&self.segment_ids, shape, device),
        }
    }

    /// The numbers of the examples, for picking rows of a table of cached outputs.
    pub fn rows(&self, device: &Device) -> Tensor<1, Int> {
        let rows: Vec<i32> = self.examples.iter().map(|&i| i as i32).collect();
        int_vector(&rows, device)
    }

    /// Class numbers, `[batch]`.
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

    /// Scores, `[batch]`.
    ///
    /// # Panics
    /// When an example has no score.
    pub fn scores(&self, device: &Device) -> Tensor<1> {
        let score = |label: &Option<Label>| match label {
            Some(Label::Score(score)) => *score,
            other => panic!("a training example has label {other:?}, not a score"),
        };
        float_vector(self.labels.iter().map(score).collect(), device)
    }
}

/// The order of training examples: epoch after epoch, each a permutation keyed by (seed, epoch).
pub struct SampleOrder {
    seed: u64,
    examples: usize,
    current: Option<(u64, Vec<usize>)>,
}

impl SampleOrder {
    /// The order of a run over `examples` examples.
    pub fn new(seed: u64, examples: usize) -> Self {
        Self { seed, examples, current: None }
    }

    /// The examples number `start..start + size` of the run; a batch may reach into the next epoch.
    pub fn batch(&mut self, start: u64, size: usize) -> Vec<usize> {
        (start..start + size as u64).map(|index| self.at(index)).collect()
    }

    fn at(&mut self, index: u64) -> usize {
        let (epoch, position) = (index / self.examples as u64, index % self.examples as u64);
        if self.current.as_ref().is_none_or(|(of, _)| *of != epoch) {
            let mut order: Vec<usize> = (0..self.examples).collect();
            Stream::new(self.seed, Domain::FinetuneOrder, &[epoch]).shuffle(&mut order);
            self.current = Some((epoch, order));
        }
        self.current.as_ref().expect("set above").1[position as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_has_every_example_once() {
        let mut order = SampleOrder::new(3, 10);
        let all = order.batch(0, 30);
        for epoch in all.chunks(10) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert_ne!(all[..10], all[10..20]);
        let mut again = SampleOrder::new(3, 10);
        assert_eq!(again.batch(8, 5), all[8..13]);
    }
}
