//! Converts rows to Arrow record batches and back, either with the columns of [`schema`], without padding, or with the
//! columns of `transformers` ([`crate::shard::hf_columns`]).
//!
//! The reference pads every field; here input mask and mask weights follow from the lengths.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{BooleanArray, Int8Array, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use bert_tokenization::{IdSpace, TokenId};

use crate::error::{Error, null_in};
use crate::shard::hf_columns::hf_batch;
use crate::shard::row::{Row, ShardRows, check_row};
use crate::shard::schema::{
    COLUMNS, ListColumn, first_null, hf_schema, int32, list_array, marks_of, schema, with_marks,
};

/// The columns in which rows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowColumns {
    /// The columns of the reference, and word marks if the ids have them.
    Reference(IdSpace),
    /// The columns of `transformers`, padded to a length with an id.
    Hf { length: usize, pad: TokenId },
}

impl RowColumns {
    /// Returns the schema of the shards.
    pub(crate) fn schema(self) -> SchemaRef {
        match self {
            Self::Reference(ids) => with_marks(schema(), ids.word_marks),
            Self::Hf { .. } => hf_schema(),
        }
    }

    /// Returns the id space of the stored rows.
    pub(crate) fn ids(self) -> IdSpace {
        match self {
            Self::Reference(ids) => ids,
            Self::Hf { .. } => IdSpace::default(),
        }
    }

    /// Returns rows as a batch.
    pub(crate) fn batch(self, rows: &ShardRows) -> Result<RecordBatch, ArrowError> {
        if let Self::Hf { length, pad } = self {
            return hf_batch(rows.iter(), rows.len(), length, pad);
        }
        let segments = Arc::new(Int8Array::from(rows.segment_ids.clone()));
        let mut columns = vec![
            list_array(int32(&rows.input_ids), lengths(&rows.token_ends))?,
            list_array(segments, lengths(&rows.token_ends))?,
            list_array(int32(&rows.masked_lm_positions), lengths(&rows.mask_ends))?,
            list_array(int32(&rows.masked_lm_ids), lengths(&rows.mask_ends))?,
            Arc::new(Int8Array::from(rows.next_sentence_labels.clone())),
        ];
        if rows.has_marks() {
            let marks = Arc::new(BooleanArray::from(rows.continues_word.clone()));
            columns.push(list_array(marks, lengths(&rows.token_ends))?);
        }
        RecordBatch::try_new(self.schema(), columns)
    }
}

fn lengths(ends: &[u64]) -> impl Iterator<Item = usize> {
    ends.iter().scan(0, |start, &end| Some((end - std::mem::replace(start, end)) as usize))
}

/// Appends the rows of a batch with the reference's columns; the number of a row with a problem is counted from the
/// first of `rows`.
pub(crate) fn append_reference(batch: &RecordBatch, rows: &mut ShardRows) -> Result<(), (u64, Error)> {
    let first = rows.len() as u64;
    let wrong = |(row, problem): (usize, Error)| (first + row as u64, problem);
    if let Some((row, name)) = first_null(batch, &COLUMNS) {
        return Err(wrong((row, null_in(name))));
    }
    let marks = marks_of(batch, COLUMNS.len()).map_err(wrong)?;
    let input_ids = ListColumn::of::<Int32Type>(batch, 0);
    let segments = ListColumn::of::<Int8Type>(batch, 1);
    let [positions, ids] = [2, 3].map(|at| ListColumn::of::<Int32Type>(batch, at));
    let labels = batch.column(4).as_primitive::<Int8Type>();
    for index in 0..batch.num_rows() {
        let row = Row {
            input_ids: input_ids.row(index),
            segment_ids: segments.row(index),
            masked_lm_positions: positions.row(index),
            masked_lm_ids: ids.row(index),
            next_sentence_label: labels.value(index),
            continues_word: marks.get(input_ids.range(index)).unwrap_or_default(),
        };
        check_row(row).map_err(|problem| wrong((index, problem)))?;
        rows.push(row);
    }
    Ok(())
}
