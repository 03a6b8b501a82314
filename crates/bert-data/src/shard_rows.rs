//! From a Parquet shard back to rows, every one checked.
//!
//! In goes a file, out come [`ShardRows`], columns in memory, for the data loader and for inspection. A damaged or
//! foreign file is an error with shard and row, never a panic. Not for digests (`manifest`).

use std::fs::File;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int8Type, Int32Type, Schema};
use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::config::Columns;
use crate::error::{Error, Result, RowProblem, ShardError};
use crate::hf_columns::{HF_COLUMNS, append_hf, hf_schema};
use crate::instance::Instance;
use crate::masking::MaskedInstance;
use crate::parquet_file::{Batches, ParquetFile};
use crate::record_batch::{COLUMNS, MARKS, marks_field, schema};
use crate::shard::BATCH;
use crate::word_marks::{marked, unmarked};

/// One row of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Token ids after masking, with `[CLS]` and both `[SEP]`, without padding.
    pub input_ids: &'a [i32],
    /// 0 or 1 for each token.
    pub segment_ids: &'a [i8],
    /// Positions of the masked tokens, ascending; none in a stored row where the loader makes the masks.
    pub masked_lm_positions: &'a [i32],
    /// The original ids at these positions.
    pub masked_lm_ids: &'a [i32],
    /// 1 when B is random, else 0.
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

    fn append(&mut self, batch: &RecordBatch) -> Result<(), (u64, RowProblem)> {
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
        Some(row) => Err((row, RowProblem::MarkCount { marks: marks[row], tokens: tokens[row] })),
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

/// Reads a whole shard, with the columns of either kind, and checks its columns and rows.
///
/// # Errors
/// One of the `Shard...` variants of [`Error`], or [`Error::Io`].
pub fn read_shard(path: &Path) -> Result<ShardRows> {
    let builder = open(path)?;
    let is_hf = builder.schema().fields().get(1).is_some_and(|field| field.name() == HF_COLUMNS[1]);
    read_rows(path, builder, if is_hf { Columns::Hf } else { Columns::Reference })
}

fn read_rows(path: &Path, builder: Builder, columns: Columns) -> Result<ShardRows> {
    check_shard_columns(path, builder.schema(), columns)?;
    let batches = Batches::of(builder.with_batch_size(BATCH));
    let batches = batches.map_err(|source| ShardError::Unreadable { path: path.to_owned(), source })?;
    let mut rows = ShardRows::default();
    for batch in batches {
        let batch = batch.map_err(|source| ShardError::BatchUnreadable { path: path.to_owned(), source })?;
        append_batch(&mut rows, &batch, columns).map_err(|(row, problem)| {
            Error::Shard(ShardError::Row { path: path.to_owned(), row, problem })
        })?;
    }
    Ok(rows)
}

/// A shard of instances must have the columns of its kind.
pub(crate) fn check_shard_columns(path: &Path, found: &Schema, columns: Columns) -> Result<()> {
    match columns {
        Columns::Reference => check_columns(path, found, &schema(), true),
        Columns::Hf => check_columns(path, found, &hf_schema(), false),
    }
}

/// Appends a batch of either kind of columns; the error is the number of a row and what is wrong with it.
pub(crate) fn append_batch(
    rows: &mut ShardRows,
    batch: &RecordBatch,
    columns: Columns,
) -> Result<(), (u64, RowProblem)> {
    match columns {
        Columns::Reference => rows.append(batch),
        Columns::Hf => append_hf(batch, rows),
    }
}

type Builder = ParquetRecordBatchReaderBuilder<File>;

fn open(path: &Path) -> Result<Builder> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let opened = ParquetFile::open(file, |_| true)
        .map_err(|source| ShardError::Unreadable { path: path.to_owned(), source })?;
    Ok(opened.builder)
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
    for (index, field) in expected.fields().iter().enumerate() {
        let wanted = describe(field.data_type());
        let actual = found.fields().get(index).filter(|actual| actual.name() == field.name());
        let actual = actual.map_or_else(|| "missing".to_owned(), |actual| describe(actual.data_type()));
        if actual != wanted {
            let column = field.name().clone();
            return Err(ShardError::Column {
                path: path.to_owned(),
                column,
                found: actual,
                expected: wanted,
            }
            .into());
        }
    }
    let mut next = expected.fields().len();
    let marks = marks_field();
    if found.fields().get(next).is_some_and(|field| {
        marks_may_follow
            && field.name() == marks.name()
            && describe(field.data_type()) == describe(marks.data_type())
    }) {
        next += 1;
    }
    if let Some(extra) = found.fields().get(next) {
        return Err(ShardError::Column {
            path: path.to_owned(),
            column: extra.name().clone(),
            found: describe(extra.data_type()),
            expected: "no further column".to_owned(),
        }
        .into());
    }
    Ok(())
}
