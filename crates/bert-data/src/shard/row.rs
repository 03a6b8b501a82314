//! Rows of training data in memory, column by column.

use crate::error::RowProblem;
use crate::error::{Result, ShardError};
use crate::instance::masking::MaskedInstance;
use crate::instance::pairs::Instance;
use crate::shard::schema::{COLUMNS, check_marks, first_null, marks_of};
use crate::tokenization::word_marks::{marked, unmarked};
use arrow::array::AsArray;
use arrow::datatypes::{Int8Type, Int32Type};
use arrow::record_batch::RecordBatch;
use std::path::Path;

/// One row of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Token ids after masking, with `[CLS]` and a `[SEP]` after each segment, without padding.
    pub input_ids: &'a [i32],
    /// 0 or 1 for each token.
    pub segment_ids: &'a [i8],
    /// Positions of the masked tokens, ascending; none in a stored row where the loader makes the masks.
    pub masked_lm_positions: &'a [i32],
    /// The original ids at these positions.
    pub masked_lm_ids: &'a [i32],
    /// 1 when B is random or, with sentence order, when the segments are swapped; else 0.
    pub next_sentence_label: i8,
    /// For each token whether a segmenter found it to go on with the word before it; nothing where that is not stored.
    pub continues_word: &'a [bool],
}

impl Row<'_> {
    /// Copies the row into an instance, ids marked where a segmenter found a word to go on; the reverse of writing it.
    pub(crate) fn copy_to(&self, vocabulary: usize, instance: &mut MaskedInstance) {
        let copy = |from: &[i32], to: &mut Vec<u32>| {
            to.clear();
            to.extend(from.iter().map(|&value| value as u32));
        };
        copy(self.input_ids, &mut instance.tokens);
        for (id, _) in
            instance.tokens.iter_mut().zip(self.continues_word).filter(|(_, continues)| **continues)
        {
            *id = marked(*id, vocabulary);
        }
        copy(self.masked_lm_positions, &mut instance.masked_lm_positions);
        copy(self.masked_lm_ids, &mut instance.masked_lm_ids);
        instance.segment_ids.clear();
        instance.segment_ids.extend_from_slice(self.segment_ids);
        instance.is_random_next = self.next_sentence_label == 1;
    }
}

/// The rows of a shard in memory, column by column. Every row was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardRows {
    input_ids: Vec<i32>,
    segment_ids: Vec<i8>,
    token_ends: Vec<u64>,
    masked_lm_positions: Vec<i32>,
    masked_lm_ids: Vec<i32>,
    mask_ends: Vec<u64>,
    next_sentence_labels: Vec<i8>,
    /// As many as `input_ids`, or none.
    continues_word: Vec<bool>,
}

impl ShardRows {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.next_sentence_labels.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next_sentence_labels.is_empty()
    }

    /// One row.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn row(&self, index: usize) -> Row<'_> {
        let range = |ends: &[u64]| {
            let start = if index == 0 { 0 } else { ends[index - 1] as usize };
            start..ends[index] as usize
        };
        let (tokens, masks) = (range(&self.token_ends), range(&self.mask_ends));
        Row {
            continues_word: self.continues_word.get(tokens.clone()).unwrap_or_default(),
            input_ids: &self.input_ids[tokens.clone()],
            segment_ids: &self.segment_ids[tokens],
            masked_lm_positions: &self.masked_lm_positions[masks.clone()],
            masked_lm_ids: &self.masked_lm_ids[masks],
            next_sentence_label: self.next_sentence_labels[index],
        }
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len()).map(|index| self.row(index))
    }

    /// Checks that every row fits a model: ids inside the vocabulary, lengths within the limits.
    ///
    /// # Errors
    /// [`ShardError::Row`] for the first row that does not fit; `path` is named in it.
    pub fn check(
        &self,
        path: &Path,
        vocabulary: usize,
        max_seq_length: usize,
        max_predictions_per_seq: usize,
    ) -> Result<()> {
        let checked = self.check_from(0, vocabulary, max_seq_length, max_predictions_per_seq);
        checked.map_err(|(row, problem)| ShardError::Row { path: path.to_owned(), row, problem }.into())
    }

    /// [`ShardRows::check`] of the rows from `first` on; the error is the number of a row and what is wrong with it.
    pub(crate) fn check_from(
        &self,
        first: usize,
        vocabulary: usize,
        max_seq_length: usize,
        max_predictions_per_seq: usize,
    ) -> Result<(), (u64, RowProblem)> {
        let outside = |ids: &[i32]| ids.iter().copied().find(|&id| id as usize >= vocabulary);
        for index in first..self.len() {
            let row = self.row(index);
            let (tokens, masks) = (row.input_ids.len(), row.masked_lm_ids.len());
            let problem = if let Some(id) = outside(row.input_ids).or_else(|| outside(row.masked_lm_ids)) {
                RowProblem::TokenId { id, vocabulary }
            } else if tokens > max_seq_length {
                RowProblem::TooLong { tokens, limit: max_seq_length }
            } else if masks > max_predictions_per_seq {
                RowProblem::TooManyMasks { masks, limit: max_predictions_per_seq }
            } else {
                continue;
            };
            return Err((index as u64, problem));
        }
        Ok(())
    }

    /// Whether the rows have marks of words.
    #[must_use]
    pub fn has_marks(&self) -> bool {
        !self.continues_word.is_empty()
    }

    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<(), (u64, RowProblem)> {
        let first = self.len() as u64;
        let lists: Vec<_> = batch.columns()[..4].iter().map(|column| column.as_list::<i32>()).collect();
        let labels = batch.column(4).as_primitive::<Int8Type>();
        if let Some((row, name)) = first_null(batch, &COLUMNS) {
            return Err((first + row as u64, RowProblem::Null(name)));
        }
        check_marks(batch, COLUMNS.len()).map_err(|(row, problem)| (first + row as u64, problem))?;
        let int32 = |at: usize| lists[at].values().as_primitive::<Int32Type>().values();
        let (input_ids, positions, ids) = (int32(0), int32(2), int32(3));
        let marks = marks_of(batch, COLUMNS.len());
        let segments = lists[1].values().as_primitive::<Int8Type>().values();
        for index in 0..batch.num_rows() {
            let range = |at: usize| {
                let offsets = lists[at].value_offsets();
                offsets[index] as usize..offsets[index + 1] as usize
            };
            let row = Row {
                input_ids: &input_ids[range(0)],
                segment_ids: &segments[range(1)],
                masked_lm_positions: &positions[range(2)],
                masked_lm_ids: &ids[range(3)],
                next_sentence_label: labels.value(index),
                continues_word: &marks[if marks.is_empty() { 0..0 } else { range(0) }],
            };
            check_row(row).map_err(|problem| (first + index as u64, problem))?;
            self.push(row);
        }
        Ok(())
    }

    /// Takes all rows away and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.input_ids.clear();
        self.segment_ids.clear();
        self.token_ends.clear();
        self.masked_lm_positions.clear();
        self.masked_lm_ids.clear();
        self.mask_ends.clear();
        self.next_sentence_labels.clear();
        self.continues_word.clear();
    }

    /// Appends an instance without masks, over a vocabulary of this size. Marks of words are kept only where `marks`.
    pub(crate) fn push_instance(&mut self, instance: &Instance, vocabulary: usize, marks: bool) {
        let unmarked = |&id: &u32| unmarked(id, vocabulary);
        self.input_ids.extend(instance.tokens.iter().map(|id| unmarked(id).0 as i32));
        if marks {
            self.continues_word.extend(instance.tokens.iter().map(|id| unmarked(id).1));
        }
        self.segment_ids.extend_from_slice(&instance.segment_ids);
        self.token_ends.push(self.input_ids.len() as u64);
        self.mask_ends.push(self.masked_lm_ids.len() as u64);
        self.next_sentence_labels.push(i8::from(instance.is_random_next));
    }

    pub(crate) fn push(&mut self, row: Row<'_>) {
        self.input_ids.extend_from_slice(row.input_ids);
        self.continues_word.extend_from_slice(row.continues_word);
        self.segment_ids.extend_from_slice(row.segment_ids);
        self.token_ends.push(self.input_ids.len() as u64);
        self.masked_lm_positions.extend_from_slice(row.masked_lm_positions);
        self.masked_lm_ids.extend_from_slice(row.masked_lm_ids);
        self.mask_ends.push(self.masked_lm_ids.len() as u64);
        self.next_sentence_labels.push(row.next_sentence_label);
    }
}

pub(crate) fn check_row(row: Row<'_>) -> Result<(), RowProblem> {
    let tokens = row.input_ids.len();
    if tokens == 0 {
        return Err(RowProblem::Empty);
    }
    if row.segment_ids.len() != tokens {
        return Err(RowProblem::SegmentCount { segments: row.segment_ids.len(), tokens });
    }
    if row.masked_lm_ids.len() != row.masked_lm_positions.len() {
        let (ids, positions) = (row.masked_lm_ids.len(), row.masked_lm_positions.len());
        return Err(RowProblem::MaskCount { ids, positions });
    }
    if let Some(&segment) = row.segment_ids.iter().find(|&&segment| !matches!(segment, 0 | 1)) {
        return Err(RowProblem::SegmentId(segment));
    }
    if !matches!(row.next_sentence_label, 0 | 1) {
        return Err(RowProblem::Label(row.next_sentence_label));
    }
    let mut least = 0;
    for &position in row.masked_lm_positions {
        if position < least || position as usize >= tokens {
            return Err(RowProblem::Position { position, tokens });
        }
        least = position + 1;
    }
    match row.input_ids.iter().chain(row.masked_lm_ids).find(|&&id| id < 0) {
        Some(&id) => Err(RowProblem::TokenId { id, vocabulary: i32::MAX as usize }),
        None => Ok(()),
    }
}
