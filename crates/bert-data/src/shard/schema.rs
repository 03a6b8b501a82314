//! Defines the columns of shards and their types, and checks that a file has them.

use crate::error::{Error, Locate, Result, RowProblem, ShardProblem};
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, Int32Array, ListArray, RecordBatch};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The columns, in order.
pub const COLUMNS: [&str; 5] =
    ["input_ids", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_label"];

/// The column behind the others where tokens are stored without masks and a segmenter found the words.
pub const MARKS: &str = "continues_word";

pub(crate) fn element(kind: DataType) -> FieldRef {
    // "element" is the name that the Parquet specification gives to the items of a list.
    Arc::new(Field::new("element", kind, false))
}

/// The columns: `input_ids: list<int32>`, `segment_ids: list<int8>`, `masked_lm_positions: list<int32>`,
/// `masked_lm_ids: list<int32>`, `next_sentence_label: int8` (1 = B is random); nothing is nullable.
#[must_use]
pub fn schema() -> SchemaRef {
    schema_of(COLUMNS, [DataType::Int32, DataType::Int8, DataType::Int32, DataType::Int32])
}

/// Four lists of these types, and a label.
fn schema_of(names: [&str; 5], lists: [DataType; 4]) -> SchemaRef {
    let lists = lists.map(|kind| DataType::List(element(kind)));
    let kinds = lists.into_iter().chain([DataType::Int8]);
    let fields = names.into_iter().zip(kinds).map(|(name, kind)| Field::new(name, kind, false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// `continues_word: list<bool>`, one for each of `input_ids`.
pub(crate) fn marks_field() -> Field {
    Field::new(MARKS, DataType::List(element(DataType::Boolean)), false)
}

/// These columns and [`MARKS`] behind them.
pub(crate) fn with_marks(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().cloned().chain([Arc::new(marks_field())]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns, in order.
pub const HF_COLUMNS: [&str; 5] =
    ["input_ids", "token_type_ids", "attention_mask", "labels", "next_sentence_label"];

/// The columns: `input_ids: list<int32>` (behind the tokens the id of `[PAD]`), `token_type_ids: list<int8>` (0 and 1,
/// behind the tokens 0), `attention_mask: list<int8>` (1 for tokens, 0 behind them), `labels: list<int32>` (the
/// original id of a masked token, else -100), all of `max_seq_length`, and `next_sentence_label: int8` (1 = B is
/// random). Nothing is nullable.
#[must_use]
pub fn hf_schema() -> SchemaRef {
    schema_of(HF_COLUMNS, [DataType::Int32, DataType::Int8, DataType::Int8, DataType::Int32])
}

/// A column of lists of these lengths.
pub(crate) fn list_array(
    values: ArrayRef,
    lengths: impl IntoIterator<Item = usize>,
) -> Result<ArrayRef, ArrowError> {
    let (item, offsets) = (element(values.data_type().clone()), OffsetBuffer::from_lengths(lengths));
    Ok(Arc::new(ListArray::try_new(item, offsets, values, None)?))
}

/// Ids or positions as `int32`.
pub(crate) fn int32(values: &[u32]) -> ArrayRef {
    Arc::new(Int32Array::new(ScalarBuffer::from(Buffer::from_slice_ref(values)), None))
}

/// A column of lists of numbers that has the right type and no null.
pub(crate) struct ListColumn<'a, T> {
    values: &'a [T],
    borders: &'a [i32],
}

impl<'a, T: ArrowNativeType> ListColumn<'a, T> {
    /// Column `at` of a batch, whose numbers are of the Parquet type `P` and taken for `T`, of the same size.
    pub(crate) fn of<P: ArrowPrimitiveType>(batch: &'a RecordBatch, at: usize) -> Self {
        let lists = batch.column(at).as_list::<i32>();
        let values = lists.values().as_primitive::<P>().values().inner().typed_data();
        Self { values, borders: lists.value_offsets() }
    }

    /// Where a row's numbers are among those of all.
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        self.borders[row] as usize..self.borders[row + 1] as usize
    }

    /// The numbers of a row.
    pub(crate) fn row(&self, row: usize) -> &'a [T] {
        &self.values[self.range(row)]
    }
}

/// Rows of one record batch on its way to the file.
pub(crate) const BATCH: usize = 512;

/// The first row with a null, or with a null inside a list, and the column it is in.
pub(crate) fn first_null(batch: &RecordBatch, names: &[&'static str]) -> Option<(usize, &'static str)> {
    let has_null = |column: &dyn Array, row: usize| {
        column.is_null(row)
            || column
                .as_list_opt::<i32>()
                .is_some_and(|list| list.values().null_count() > 0 && list.value(row).null_count() > 0)
    };
    names.iter().chain([&MARKS]).zip(batch.columns()).find_map(|(&name, column)| {
        (0..column.len()).find(|&row| has_null(column, row)).map(|row| (row, name))
    })
}

/// The marks of words behind `columns` other columns, one for each token; none where they are not stored. No null may
/// be among them.
pub(crate) fn marks_of(batch: &RecordBatch, columns: usize) -> Vec<bool> {
    match batch.columns().get(columns) {
        None => Vec::new(),
        Some(column) => column.as_list::<i32>().values().as_boolean().values().iter().collect(),
    }
}

/// Whether the marks of words have the lengths of the tokens, if they are stored; the row where they have not.
pub(crate) fn check_marks(batch: &RecordBatch, columns: usize) -> Result<(), (usize, RowProblem)> {
    let Some(column) = batch.columns().get(columns) else { return Ok(()) };
    let lengths = |column: &ArrayRef| column.as_list::<i32>().offsets().lengths().collect::<Vec<_>>();
    let (tokens, marks) = (lengths(batch.column(0)), lengths(column));
    match tokens.iter().zip(&marks).position(|(tokens, marks)| tokens != marks) {
        None => Ok(()),
        Some(row) => {
            let (found, expected) = (marks[row], tokens[row]);
            Err((row, RowProblem::Length { column: MARKS, found, of: "input_ids", expected }))
        }
    }
}

/// Columns must have the right names, order and types. Nullable ones pass: other writers make them so, and nulls are
/// looked for in the rows.
pub(crate) fn check_columns(
    path: &Path,
    found: &Schema,
    expected: &Schema,
    marks_may_follow: bool,
) -> Result<()> {
    fn describe(kind: &DataType) -> String {
        match kind {
            DataType::List(item) => format!("list<{}>", describe(item.data_type())),
            other => other.to_string().to_lowercase(),
        }
    }
    let wrong = |column: &str, found, wanted: &str| Err(wrong_column(path, column, found, wanted));
    for (index, field) in expected.fields().iter().enumerate() {
        let wanted = describe(field.data_type());
        let actual = found.fields().get(index).filter(|actual| actual.name() == field.name());
        let actual = actual.map_or_else(|| "missing".to_owned(), |actual| describe(actual.data_type()));
        if actual != wanted {
            return wrong(field.name(), actual, &wanted);
        }
    }
    let (mut next, marks) = (expected.fields().len(), marks_field());
    if marks_may_follow
        && found.fields().get(next).is_some_and(|field| {
            field.name() == marks.name() && describe(field.data_type()) == describe(marks.data_type())
        })
    {
        next += 1;
    }
    match found.fields().get(next) {
        Some(extra) => wrong(extra.name(), describe(extra.data_type()), "no further column"),
        None => Ok(()),
    }
}

/// The error of a shard that has marks of words where it should not, or has none where it should.
pub(crate) fn wrong_marks(path: &Path, wanted: bool) -> Error {
    let (missing, none) = ("missing", "no such column");
    let (found, expected) = if wanted { (missing, "list<boolean>") } else { ("list<boolean>", none) };
    wrong_column(path, MARKS, found.to_owned(), expected)
}

fn wrong_column(path: &Path, column: &str, found: String, expected: &str) -> Error {
    let (column, expected) = (column.to_owned(), expected.to_owned());
    ShardProblem::Column { column, found, expected }.at(path).into()
}
