//! From rows to Arrow record batches: the columns of the training data.
//!
//! In go packed rows, out comes a [`RecordBatch`] with exactly the columns of [`schema`], without padding. Not for
//! files (`shard`). The reference pads every field; input mask and mask weights follow from the lengths.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int8Array, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::packed::PackedRow;

/// The columns, in order.
pub const COLUMNS: [&str; 5] =
    ["input_ids", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_label"];

fn element(kind: DataType) -> FieldRef {
    // "element" is the name that the Parquet specification gives to the items of a list.
    Arc::new(Field::new("element", kind, false))
}

/// The columns: `input_ids: list<int32>`, `segment_ids: list<int8>`, `masked_lm_positions: list<int32>`,
/// `masked_lm_ids: list<int32>`, `next_sentence_label: int8` (1 = B is random); nothing is nullable.
#[must_use]
pub fn schema() -> SchemaRef {
    let list = |name: &str, kind| Field::new(name, DataType::List(element(kind)), false);
    Arc::new(Schema::new(vec![
        list(COLUMNS[0], DataType::Int32),
        list(COLUMNS[1], DataType::Int8),
        list(COLUMNS[2], DataType::Int32),
        list(COLUMNS[3], DataType::Int32),
        Field::new(COLUMNS[4], DataType::Int8, false),
    ]))
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
}

impl BatchBuilder {
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(crate) fn push(&mut self, row: PackedRow<'_>) {
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
        let this = std::mem::take(self);
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
        let columns: Vec<ArrayRef> = vec![
            int32(this.input_ids, &this.token_counts)?,
            Arc::new(segments),
            int32(this.positions, &this.mask_counts)?,
            int32(this.ids, &this.mask_counts)?,
            Arc::new(Int8Array::from(this.labels)),
        ];
        RecordBatch::try_new(schema(), columns)
    }
}
