//! Pads sequences of different lengths to one matrix of ids, and groups items into batches by length.

use bert_model::BertInput;
use burn::tensor::Device;

use crate::compute::host_tensors::bert_input;
use bert_tasks::EncodedPair;

/// Sequences padded to the longest of them, rounded up to a multiple of 8.
pub(crate) struct PaddedBatch {
    rows: usize,
    /// Length of each row.
    pub(crate) seq_length: usize,
    input_ids: Vec<i32>,
    input_mask: Vec<i32>,
    segment_ids: Vec<i32>,
}

impl PaddedBatch {
    /// Creates a batch of one sequence without padding.
    pub(crate) fn of_one(sequence: &EncodedPair) -> Self {
        Self::new(&[sequence], 0, sequence.input_ids.len())
    }

    /// Pads sequences to at most `max_length`, the number of positions of the model. No sequence may be longer.
    pub(crate) fn new(sequences: &[&EncodedPair], pad_id: i32, max_length: usize) -> Self {
        let seq_length = padded_length(sequences.iter().copied(), max_length);
        Self::of_length(sequences, pad_id, seq_length)
    }

    /// Pads sequences to `seq_length`. No sequence may be longer.
    pub(crate) fn of_length(sequences: &[&EncodedPair], pad_id: i32, seq_length: usize) -> Self {
        let cells = sequences.len() * seq_length;
        let mut batch = Self {
            rows: sequences.len(),
            seq_length,
            input_ids: Vec::with_capacity(cells),
            input_mask: Vec::with_capacity(cells),
            segment_ids: Vec::with_capacity(cells),
        };
        for EncodedPair { input_ids, segment_ids } in sequences {
            let padding = seq_length - input_ids.len();
            batch.input_ids.extend(input_ids.iter().map(|&id| id as i32));
            batch.input_ids.extend(std::iter::repeat_n(pad_id, padding));
            batch.input_mask.extend(std::iter::repeat_n(1, input_ids.len()));
            batch.input_mask.extend(std::iter::repeat_n(0, padding));
            batch.segment_ids.extend(segment_ids.iter().map(|&id| id as i32));
            batch.segment_ids.extend(std::iter::repeat_n(0, padding));
        }
        batch
    }

    /// Returns the model input, `[rows, seq_length]` each.
    pub(crate) fn input(&self, device: &Device) -> BertInput {
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

/// Returns the indices of items, sorted by length and divided into batches: for evaluation, where order does not matter
/// but padding is costly.
pub(crate) fn by_length(lengths: &[usize], batch_size: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| lengths[i]);
    order.chunks(batch_size).map(<[usize]>::to_vec).collect()
}
