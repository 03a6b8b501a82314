//! Collects rows into one batch on the host, padded to one length. Converts the batch, or its micro-batches, to
//! tensors.

use bert_data::Row;
use bert_inference::PaddedBatch;
use bert_inference::host_tensors::int_vector;
use bert_model::{PretrainingInput, PretrainingTargets};
use burn::tensor::{Device, Tensor};

/// One batch of instances on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PretrainingBatch {
    /// The sequences, padded to one length.
    pub padded: PaddedBatch,
    /// Index of its first sequence in the batch that it was split from; 0 for a whole batch.
    pub first_sequence: usize,
    /// Masked positions as `row * seq_length + position`, without padding.
    pub masked_lm_positions: Vec<i32>,
    /// The original ids at the masked positions.
    pub masked_lm_ids: Vec<i32>,
    /// 1 where the second segment is a random one, `[rows]`.
    pub next_sentence_labels: Vec<i32>,
}

impl PretrainingBatch {
    pub(super) fn with_capacity(batch_size: usize, seq_length: usize) -> Self {
        Self { padded: PaddedBatch::with_capacity(batch_size, seq_length), ..Self::default() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Row<'_>, pad_id: i32) {
        let start = (self.padded.rows * self.padded.seq_length) as u32;
        self.padded.push(row.input_ids, row.segment_ids.iter().map(|&id| i32::from(id)), pad_id);
        self.masked_lm_positions.extend(row.masked_lm_positions.iter().map(|&p| (start + p) as i32));
        self.masked_lm_ids.extend(row.masked_lm_ids.iter().map(|&id| id as i32));
        self.next_sentence_labels.push(i32::from(row.next_sentence_label));
    }

    /// Removes padding: cuts every sequence to `length`, which no sequence may exceed.
    pub(crate) fn narrow(&mut self, length: usize) {
        let wide = self.padded.seq_length;
        self.padded.narrow(length);
        for position in &mut self.masked_lm_positions {
            let row = *position as usize / wide;
            let column = *position as usize % wide;
            *position = (row * length + column) as i32;
        }
    }

    /// Returns the number of sequences.
    pub fn batch_size(&self) -> usize {
        self.padded.rows
    }

    /// Returns the number of masked-LM targets.
    pub fn num_predictions(&self) -> usize {
        self.masked_lm_ids.len()
    }

    /// Returns the batch as at most `parts` micro-batches of nearly equal size, in order, none of them empty. The
    /// targets of the batch must be in row order.
    pub fn split(&self, parts: usize) -> Vec<Self> {
        let bounds = micro_batch_bounds(self.batch_size(), parts).into_iter();
        self.split_rows(&bounds.map(|row| self.first_sequence + row).collect::<Vec<_>>())
    }

    /// Returns a micro-batch for each pair of neighbours in `bounds`, which are rows of the whole batch.
    pub(crate) fn split_rows(&self, bounds: &[usize]) -> Vec<Self> {
        let parts = bounds.windows(2).filter(|w| w[0] < w[1]);
        parts.map(|w| self.rows(w[0] - self.first_sequence, w[1] - self.first_sequence)).collect()
    }

    fn rows(&self, from: usize, to: usize) -> Self {
        let first_cell = |row: usize| (row * self.padded.seq_length) as i32;
        let first_at = |row: usize| self.masked_lm_positions.partition_point(|&p| p < first_cell(row));
        let targets = first_at(from)..first_at(to);
        let masked_lm_positions = self.masked_lm_positions[targets.clone()].iter();
        Self {
            padded: self.padded.slice(from..to),
            first_sequence: self.first_sequence + from,
            masked_lm_positions: masked_lm_positions.map(|p| p - first_cell(from)).collect(),
            masked_lm_ids: self.masked_lm_ids[targets].to_vec(),
            next_sentence_labels: self.next_sentence_labels[from..to].to_vec(),
        }
    }

    /// Returns the model's input as tensors.
    pub fn input(&self, device: &Device) -> PretrainingInput {
        PretrainingInput {
            bert: self.padded.input(device),
            masked_lm_positions: int_vector(&self.masked_lm_positions, device),
        }
    }

    /// Returns the targets of the loss as tensors.
    pub fn targets(&self, device: &Device) -> PretrainingTargets {
        PretrainingTargets {
            masked_lm_ids: int_vector(&self.masked_lm_ids, device),
            masked_lm_weights: Tensor::ones([self.num_predictions()], device),
            next_sentence_labels: int_vector(&self.next_sentence_labels, device),
        }
    }
}

/// Returns the first row of each of `parts` micro-batches of nearly equal size, and the end of the last one.
pub(crate) fn micro_batch_bounds(rows: usize, parts: usize) -> Vec<usize> {
    (0..=parts).map(|part| part * rows / parts).collect()
}

#[cfg(test)]
mod tests {
    use bert_random::{Domain, Random, Stream};

    use super::*;

    fn batch() -> PretrainingBatch {
        PretrainingBatch {
            padded: PaddedBatch {
                rows: 3,
                seq_length: 2,
                input_ids: vec![1, 2, 3, 4, 5, 6],
                input_mask: vec![1; 6],
                segment_ids: vec![0, 1, 0, 1, 0, 1],
            },
            first_sequence: 0,
            masked_lm_positions: vec![1, 2, 4, 5],
            masked_lm_ids: vec![20, 30, 50, 60],
            next_sentence_labels: vec![0, 1, 0],
        }
    }

    #[test]
    fn micro_batches_have_every_row_and_target_once() {
        let parts = batch().split(2);
        assert_eq!(parts.iter().map(PretrainingBatch::batch_size).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(parts.iter().map(|part| part.first_sequence).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(parts[0].masked_lm_positions, [1]);
        assert_eq!(parts[1].masked_lm_positions, [0, 2, 3]);
        assert_eq!(parts[1].masked_lm_ids, [30, 50, 60]);
        assert_eq!(parts[1].padded.input_ids, [3, 4, 5, 6]);
        assert_eq!(batch().split(1), [batch()]);
        assert_eq!(batch().split(7).len(), 3);
    }

    /// Compares the targets of each part with a search through all targets.
    #[test]
    fn split_keeps_the_targets_of_each_row() {
        let mut random = Stream::new(1, Domain::Test, &[]);
        for _ in 0..50 {
            let batch_size = 1 + random.below(40);
            let seq_length = 1 + random.below(9);
            let cells = (0..(batch_size * seq_length) as i32).collect::<Vec<_>>();
            let chosen: Vec<i32> = cells.iter().copied().filter(|_| random.below(3) == 0).collect();
            let batch = PretrainingBatch {
                padded: PaddedBatch {
                    rows: batch_size,
                    seq_length,
                    input_ids: cells.clone(),
                    input_mask: cells.clone(),
                    segment_ids: cells.clone(),
                },
                first_sequence: 0,
                masked_lm_ids: chosen.iter().map(|p| p + 1000).collect(),
                masked_lm_positions: chosen,
                next_sentence_labels: vec![0; batch_size],
            };
            for parts in [1, 2, 3, batch_size, 2 * batch_size] {
                let mut first = 0;
                let split = batch.split(parts);
                assert!(split.iter().all(|part| part.batch_size() <= batch_size.div_ceil(parts)));
                for part in &split {
                    let cells = first..first + (part.batch_size() * seq_length) as i32;
                    let all = batch.masked_lm_positions.iter().copied();
                    let (positions, ids): (Vec<i32>, Vec<i32>) =
                        all.filter(|p| cells.contains(p)).map(|p| (p - first, p + 1000)).unzip();
                    assert_eq!((&part.masked_lm_positions, &part.masked_lm_ids), (&positions, &ids));
                    first = cells.end;
                }
                assert_eq!(first, cells.len() as i32, "{parts} parts leave no row out");
            }
        }
    }
}
