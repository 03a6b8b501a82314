//! Makes Arrow record batches of packed rows.
//!
//! The columns are those of [`schema`], without padding, or those that `transformers` wants
//! ([`crate::shard::hf_columns`]). The reference pads every field; here input mask and mask weights follow from the
//! lengths.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int8Array, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::shard::hf_columns::hf_batch;
use crate::shard::packed_row::PackedRow;
use crate::shard::row::Row;
use crate::shard::schema::element;
use crate::shard::schema::hf_schema;
use crate::shard::schema::schema;
use crate::shard::schema::with_marks;
use crate::tokenization::word_marks::unmarked;

/// Takes the marks from ids over a vocabulary of this size, as a column beside them.
pub(crate) fn take_marks(
    ids: &mut [i32],
    counts: &[usize],
    vocabulary: usize,
) -> Result<ArrayRef, ArrowError> {
    let mut marks = Vec::with_capacity(ids.len());
    for id in ids {
        let (plain, marked) = unmarked(*id as u32, vocabulary);
        *id = plain as i32;
        marks.push(marked);
    }
    let (offsets, marks) =
        (OffsetBuffer::from_lengths(counts.iter().copied()), Arc::new(BooleanArray::from(marks)));
    Ok(Arc::new(ListArray::try_new(element(DataType::Boolean), offsets, marks, None)?))
}

/// As which columns rows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowColumns {
    /// Those of the reference; `marked` is the size of the vocabulary where ids may be marked.
    Reference { marked: Option<usize> },
    /// Those of `transformers`, padded to a length with an id.
    Hf { length: usize, pad: i32 },
}

impl Default for RowColumns {
    fn default() -> Self {
        Self::Reference { marked: None }
    }
}

impl RowColumns {
    /// The columns of the shards.
    pub(crate) fn schema(self) -> SchemaRef {
        match self {
            Self::Reference { marked: None } => schema(),
            Self::Reference { marked: Some(_) } => with_marks(&schema()),
            Self::Hf { .. } => hf_schema(),
        }
    }
}

/// Collects rows to record batches.
#[derive(Debug, Default)]
pub(crate) struct BatchBuilder {
    input_ids: Vec<i32>,
    segment_ids: Vec<i8>,
    token_counts: Vec<usize>,
    positions: Vec<i32>,
    ids: Vec<i32>,
    mask_counts: Vec<usize>,
    labels: Vec<i8>,
    columns: RowColumns,
    /// How many tokens and masks the batch before had room for.
    room: (usize, usize),
}

impl BatchBuilder {
    /// A builder of batches with these columns.
    pub(crate) fn new(columns: RowColumns) -> Self {
        Self { columns, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(crate) fn push(&mut self, row: PackedRow<'_>) {
        if self.labels.is_empty() {
            // Only now, when the batch before is written and its memory free.
            let (tokens, masks) = self.room;
            self.input_ids.reserve(tokens);
            self.segment_ids.reserve(tokens);
            self.positions.reserve(masks);
            self.ids.reserve(masks);
        }
        let masks_before = self.positions.len();
        row.unpack(&mut self.input_ids, &mut self.positions, &mut self.ids);
        let segments_before = self.segment_ids.len();
        self.segment_ids.resize(segments_before + row.first_segment_tokens(), 0);
        self.segment_ids.resize(segments_before + row.tokens(), 1);
        self.token_counts.push(row.tokens());
        self.mask_counts.push(self.positions.len() - masks_before);
        self.labels.push(row.next_sentence_label());
    }

    /// The rows so far as a batch; the builder is empty afterwards.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let room = (self.input_ids.capacity(), self.ids.capacity());
        let mut this = std::mem::replace(self, Self { room, ..Self::new(self.columns) });
        let marks = match this.columns {
            RowColumns::Hf { length, pad } => return hf_batch(this.rows(), this.len(), length, pad),
            RowColumns::Reference { marked: None } => None,
            RowColumns::Reference { marked: Some(vocabulary) } => {
                Some(take_marks(&mut this.input_ids, &this.token_counts, vocabulary)?)
            }
        };
        let int32 = |values: Vec<i32>, counts: &[usize]| -> Result<ArrayRef, ArrowError> {
            let offsets = OffsetBuffer::from_lengths(counts.iter().copied());
            let values = Arc::new(Int32Array::from(values));
            Ok(Arc::new(ListArray::try_new(element(DataType::Int32), offsets, values, None)?))
        };
        let segments = ListArray::try_new(
            element(DataType::Int8),
            OffsetBuffer::from_lengths(this.token_counts.iter().copied()),
            Arc::new(Int8Array::from(this.segment_ids)),
            None,
        )?;
        let mut columns: Vec<ArrayRef> = vec![
            int32(this.input_ids, &this.token_counts)?,
            Arc::new(segments),
            int32(this.positions, &this.mask_counts)?,
            int32(this.ids, &this.mask_counts)?,
            Arc::new(Int8Array::from(this.labels)),
        ];
        columns.extend(marks);
        RecordBatch::try_new(this.columns.schema(), columns)
    }

    /// The rows so far.
    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let (mut token, mut mask) = (0, 0);
        (0..self.len()).map(move |row| {
            let tokens = token..token + self.token_counts[row];
            let masks = mask..mask + self.mask_counts[row];
            (token, mask) = (tokens.end, masks.end);
            Row {
                input_ids: &self.input_ids[tokens.clone()],
                segment_ids: &self.segment_ids[tokens],
                masked_lm_positions: &self.positions[masks.clone()],
                masked_lm_ids: &self.ids[masks],
                next_sentence_label: self.labels[row],
                continues_word: &[],
            }
        })
    }
}
