//! Defines the columns of shards and their types.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, Int32Array, ListArray, RecordBatch};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};

use crate::config::Columns;
use crate::error::Error;

/// The columns, in order.
pub(crate) const COLUMNS: [&str; 5] =
    ["input_ids", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_label"];

/// The last column, present if tokens are stored without masks and a segmenter found the words.
pub(crate) const MARKS: &str = "continues_word";

pub(crate) fn element(kind: DataType) -> FieldRef {
    // "element" is the name that the Parquet specification gives to the items of a list.
    Arc::new(Field::new("element", kind, false))
}

/// Returns the schema: `input_ids: list<int32>`, `segment_ids: list<int8>`, `masked_lm_positions: list<int32>`,
/// `masked_lm_ids: list<int32>`, `next_sentence_label: int8` (1 = B is random); nothing is nullable.
pub(crate) fn schema() -> SchemaRef {
    schema_of(COLUMNS, [DataType::Int32, DataType::Int8, DataType::Int32, DataType::Int32])
}

/// Returns the schema of four lists of these types and a label.
fn schema_of(names: [&str; 5], lists: [DataType; 4]) -> SchemaRef {
    let lists = lists.map(|kind| DataType::List(element(kind)));
    let kinds = lists.into_iter().chain([DataType::Int8]);
    let fields = names.into_iter().zip(kinds).map(|(name, kind)| Field::new(name, kind, false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Returns these columns, followed by [`MARKS`] if tokens have marks: `continues_word: list<bool>`, one value for each
/// of `input_ids`.
pub(crate) fn with_marks(columns: SchemaRef, marks: bool) -> SchemaRef {
    if !marks {
        return columns;
    }
    let marks = Field::new(MARKS, DataType::List(element(DataType::Boolean)), false);
    let fields = columns.fields().iter().cloned().chain([Arc::new(marks)]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns, in order.
pub const HF_COLUMNS: [&str; 5] =
    ["input_ids", "token_type_ids", "attention_mask", "labels", "next_sentence_label"];

/// Returns the schema: `input_ids: list<int32>` (padded with the id of `[PAD]`), `token_type_ids: list<int8>` (0 and 1,
/// padded with 0), `attention_mask: list<int8>` (1 for tokens, 0 for padding), `labels: list<int32>` (the original id
/// of a masked token, else -100), all of length `max_seq_length`, and `next_sentence_label: int8` (1 = B is random).
/// Nothing is nullable.
pub(crate) fn hf_schema() -> SchemaRef {
    schema_of(HF_COLUMNS, [DataType::Int32, DataType::Int8, DataType::Int8, DataType::Int32])
}

/// Returns the columns of a shard of instances.
pub(crate) fn row_schema(columns: Columns, marks: bool) -> SchemaRef {
    let columns = match columns {
        Columns::Reference => schema(),
        Columns::Hf => hf_schema(),
    };
    with_marks(columns, marks)
}

/// Returns a column of lists of these lengths.
pub(crate) fn list_array(
    values: ArrayRef,
    lengths: impl IntoIterator<Item = usize>,
) -> Result<ArrayRef, ArrowError> {
    let item = element(values.data_type().clone());
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(item, offsets, values, None)?))
}

/// Returns ids or positions as `int32`.
pub(crate) fn int32(values: &[u32]) -> ArrayRef {
    Arc::new(Int32Array::new(ScalarBuffer::from(Buffer::from_slice_ref(values)), None))
}

/// A column of lists of numbers that has the right type and no null.
pub(crate) struct ListColumn<'a, T> {
    values: &'a [T],
    borders: &'a [i32],
}

impl<'a, T: ArrowNativeType> ListColumn<'a, T> {
    /// Returns column `at` of a batch, whose numbers have the Parquet type `P` and are read as `T`, of the same size.
    pub(crate) fn of<P: ArrowPrimitiveType>(batch: &'a RecordBatch, at: usize) -> Self {
        let lists = batch.column(at).as_list::<i32>();
        let values = lists.values().as_primitive::<P>().values().inner().typed_data();
        Self { values, borders: lists.value_offsets() }
    }

    /// Returns the range of a row's numbers in `values`.
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        self.borders[row] as usize..self.borders[row + 1] as usize
    }

    /// Returns the numbers of a row.
    pub(crate) fn row(&self, row: usize) -> &'a [T] {
        &self.values[self.range(row)]
    }
}

/// Number of rows per record batch when writing.
pub(crate) const BATCH: usize = 512;

/// Rejects a null, or a null inside a list, in the columns of these names and in the word marks. The error has the number
/// of its row.
pub(crate) fn check_nulls(batch: &RecordBatch, names: &[&str]) -> Result<(), (usize, Error)> {
    let has_null = |column: &dyn Array, row: usize| {
        column.is_null(row)
            || column
                .as_list_opt::<i32>()
                .is_some_and(|list| list.values().null_count() > 0 && list.value(row).null_count() > 0)
    };
    for (name, column) in names.iter().chain([&MARKS]).zip(batch.columns()) {
        if let Some(row) = (0..column.len()).find(|&row| has_null(column, row)) {
            return Err((row, Error::data(format!("column {name} has a null"))));
        }
    }
    Ok(())
}

/// Returns the word marks, one for each token, from the column after `columns` other columns; empty if they are not
/// stored. Nulls are not allowed. The error is the first row without one mark per token.
pub(crate) fn marks_of(batch: &RecordBatch, columns: usize) -> Result<Vec<bool>, (usize, Error)> {
    let Some(column) = batch.columns().get(columns) else { return Ok(Vec::new()) };
    let lengths = |column: &ArrayRef| column.as_list::<i32>().offsets().lengths().collect::<Vec<_>>();
    let tokens = lengths(batch.column(0));
    let marks = lengths(column);
    match tokens.iter().zip(&marks).position(|(tokens, marks)| tokens != marks) {
        None => Ok(column.as_list::<i32>().values().as_boolean().values().iter().collect()),
        Some(row) => {
            let found = marks[row];
            let expected = tokens[row];
            Err((row, Error::data(format!("{found} {MARKS} for {expected} input_ids"))))
        }
    }
}
