//! The columns that `transformers` trains from (`--columns hf`): makes Arrow record batches of rows, and rows of
//! batches.
//!
//! The names are the arguments of `BertForPreTraining.forward`. Every row is padded to `max_seq_length`, because the
//! default collator of `Trainer` stacks rows as they are. Nothing is lost: positions and ids of the masked tokens
//! follow from `labels`, the length from `attention_mask`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int8Array, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Int8Type, Int32Type};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::error::RowProblem;
use crate::shard::row::{Row, ShardRows, check_row};
use crate::shard::schema::HF_COLUMNS;
use crate::shard::schema::element;
use crate::shard::schema::first_null;
use crate::shard::schema::hf_schema;

/// The label of a token that is not masked; PyTorch's cross entropy leaves it out.
pub const NO_LABEL: i32 = -100;

/// `count` rows as a record batch, padded to `length` tokens with the id `pad`.
pub(crate) fn hf_batch<'a>(
    rows: impl Iterator<Item = Row<'a>>,
    count: usize,
    length: usize,
    pad: i32,
) -> Result<RecordBatch, ArrowError> {
    let size = count * length;
    let (mut input_ids, mut labels) = (Vec::with_capacity(size), vec![NO_LABEL; size]);
    let (mut types, mut mask) = (Vec::with_capacity(size), Vec::with_capacity(size));
    let mut next_sentence_labels = Vec::with_capacity(count);
    for (number, row) in rows.enumerate() {
        let end = (number + 1) * length;
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            labels[number * length + position as usize] = id;
        }
        mask.resize(number * length + row.input_ids.len(), 1i8);
        mask.resize(end, 0);
        input_ids.extend_from_slice(row.input_ids);
        input_ids.resize(end, pad);
        types.extend_from_slice(row.segment_ids);
        types.resize(end, 0i8);
        next_sentence_labels.push(row.next_sentence_label);
    }
    let list = |kind, values: ArrayRef| -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(length, count));
        Ok(Arc::new(ListArray::try_new(element(kind), offsets, values, None)?))
    };
    let columns = vec![
        list(DataType::Int32, Arc::new(Int32Array::from(input_ids)))?,
        list(DataType::Int8, Arc::new(Int8Array::from(types)))?,
        list(DataType::Int8, Arc::new(Int8Array::from(mask)))?,
        list(DataType::Int32, Arc::new(Int32Array::from(labels)))?,
        Arc::new(Int8Array::from(next_sentence_labels)),
    ];
    RecordBatch::try_new(hf_schema(), columns)
}

/// Appends the rows of a record batch without their padding; the number of a row with a problem is counted from the
/// first of `rows`.
pub(crate) fn append_hf(batch: &RecordBatch, rows: &mut ShardRows) -> Result<(), (u64, RowProblem)> {
    let first = rows.len() as u64;
    if let Some((row, name)) = first_null(batch, &HF_COLUMNS) {
        return Err((first + row as u64, RowProblem::Null(name)));
    }
    let lists: Vec<&ListArray> = batch.columns()[..4].iter().map(|column| column.as_list::<i32>()).collect();
    let int32 = |at: usize| lists[at].values().as_primitive::<Int32Type>().values();
    let int8 = |at: usize| lists[at].values().as_primitive::<Int8Type>().values();
    let (input_ids, types, mask, labels) = (int32(0), int8(1), int8(2), int32(3));
    let next_sentence_labels = batch.column(4).as_primitive::<Int8Type>();
    let (mut positions, mut ids) = (Vec::new(), Vec::new());
    for index in 0..batch.num_rows() {
        let range = |at: usize| {
            let offsets = lists[at].value_offsets();
            offsets[index] as usize..offsets[index + 1] as usize
        };
        let wrong = |problem| (first + index as u64, problem);
        let expected = range(0).len();
        for (at, &column) in HF_COLUMNS.iter().enumerate().take(4) {
            let found = range(at).len();
            if found != expected {
                return Err(wrong(RowProblem::ColumnLength { column, found, expected }));
            }
        }
        let tokens = padded_from(&mask[range(2)]).map_err(wrong)?;
        masks_of(&labels[range(3)], tokens, &mut positions, &mut ids).map_err(wrong)?;
        let row = Row {
            input_ids: &input_ids[range(0)][..tokens],
            segment_ids: &types[range(1)][..tokens],
            masked_lm_positions: &positions,
            masked_lm_ids: &ids,
            next_sentence_label: next_sentence_labels.value(index),
            continues_word: &[],
        };
        check_row(row).map_err(wrong)?;
        rows.push(row);
    }
    Ok(())
}

/// Where the padding begins: the mask is ones, then zeros.
fn padded_from(mask: &[i8]) -> Result<usize, RowProblem> {
    let tokens = mask.iter().take_while(|&&value| value == 1).count();
    match mask[tokens..].iter().position(|&value| value != 0) {
        None => Ok(tokens),
        Some(behind) => {
            let position = tokens + behind;
            Err(RowProblem::AttentionMask { position, value: mask[position] })
        }
    }
}

/// Positions and ids of the masked tokens; padding has none.
fn masks_of(
    labels: &[i32],
    tokens: usize,
    positions: &mut Vec<i32>,
    ids: &mut Vec<i32>,
) -> Result<(), RowProblem> {
    positions.clear();
    ids.clear();
    for (position, &label) in labels.iter().enumerate().filter(|(_, label)| **label != NO_LABEL) {
        if position >= tokens {
            return Err(RowProblem::LabelOfPadding { position, label, tokens });
        }
        positions.push(position as i32);
        ids.push(label);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [Row<'static>; 2] = [
        Row {
            input_ids: &[2, 4, 8, 3, 9, 3],
            segment_ids: &[0, 0, 0, 0, 1, 1],
            masked_lm_positions: &[1, 4],
            masked_lm_ids: &[7, 9],
            next_sentence_label: 1,
            continues_word: &[],
        },
        Row {
            input_ids: &[2, 8, 3, 5, 3, 6, 6, 3],
            segment_ids: &[0, 0, 0, 1, 1, 1, 1, 1],
            masked_lm_positions: &[],
            masked_lm_ids: &[],
            next_sentence_label: 0,
            continues_word: &[],
        },
    ];

    fn values<T: arrow::datatypes::ArrowPrimitiveType>(batch: &RecordBatch, at: usize) -> Vec<T::Native> {
        batch.column(at).as_list::<i32>().values().as_primitive::<T>().values().to_vec()
    }

    #[test]
    fn rows_are_padded_and_come_back() {
        let batch = hf_batch(ROWS.into_iter(), 2, 8, 1).unwrap();
        assert_eq!(values::<Int32Type>(&batch, 0), [2, 4, 8, 3, 9, 3, 1, 1, 2, 8, 3, 5, 3, 6, 6, 3]);
        assert_eq!(values::<Int8Type>(&batch, 1), [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
        assert_eq!(values::<Int8Type>(&batch, 2), [1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
        let labels = values::<Int32Type>(&batch, 3);
        assert_eq!((labels[1], labels[4]), (7, 9));
        assert_eq!(labels.iter().filter(|&&label| label == NO_LABEL).count(), 14);
        let mut rows = ShardRows::default();
        append_hf(&batch, &mut rows).unwrap();
        assert!(rows.iter().eq(ROWS));
    }

    #[test]
    fn each_contradiction_has_its_name() {
        let changed = |column: usize, values: ArrayRef, lengths: [usize; 2]| {
            let batch = hf_batch(ROWS.into_iter(), 2, 8, 0).unwrap();
            let mut columns = batch.columns().to_vec();
            let element = element(values.data_type().clone());
            let list =
                ListArray::try_new(element, OffsetBuffer::from_lengths(lengths), values, None).unwrap();
            columns[column] = Arc::new(list);
            let batch = RecordBatch::try_new(batch.schema(), columns).unwrap();
            append_hf(&batch, &mut ShardRows::default()).unwrap_err()
        };
        let mut mask = vec![1i8; 16];
        mask[3] = 0;
        let mask = Arc::new(Int8Array::from(mask));
        assert_eq!(changed(2, mask, [8, 8]), (0, RowProblem::AttentionMask { position: 4, value: 1 }));
        let mut all = [NO_LABEL; 17];
        all[6] = 5;
        let labels = |count: usize| Arc::new(Int32Array::from(all[..count].to_vec()));
        let problem = RowProblem::LabelOfPadding { position: 6, label: 5, tokens: 6 };
        assert_eq!(changed(3, labels(16), [8, 8]), (0, problem));
        for found in [7, 9] {
            let problem = RowProblem::ColumnLength { column: "labels", found, expected: 8 };
            assert_eq!(changed(3, labels(found + 8), [found, 8]), (0, problem));
        }
    }
}
