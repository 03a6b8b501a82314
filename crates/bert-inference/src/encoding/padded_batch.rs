//! Pads sequences of different lengths to one matrix of ids, and groups items into batches by length.

use std::ops::Range;

use bert_model::BertInput;
use bert_tasks::EncodedPair;
use burn::tensor::Device;

use crate::compute::host_tensors::bert_input;

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

/// Returns the indices of items, sorted by length and divided into batches: for evaluation, where order does not matter
/// but padding is costly.
pub(crate) fn by_length(lengths: &[usize], batch_size: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| lengths[i]);
    order.chunks(batch_size).map(<[usize]>::to_vec).collect()
}
