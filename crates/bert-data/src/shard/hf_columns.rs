//! The columns that `transformers` trains from (`--columns hf`): converts rows to Arrow record batches and back.
//!
//! The names are the arguments of `BertForPreTraining.forward`. Every row is padded to `max_seq_length`, because the
//! default collator of `Trainer` stacks rows unchanged. Nothing is lost: positions and ids of the masked tokens follow
//! from `labels`, the length from `attention_mask`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{Int8Array, Int32Array, RecordBatch};
use arrow_schema::ArrowError;
use bert_tokenization::TokenId;

use crate::error::Error;
use crate::shard::row::{Row, ShardRows, check_row};
use crate::shard::schema::{HF_COLUMNS, ListColumn, check_nulls, hf_schema, int32, list_array};

/// The label of a token that is not masked; PyTorch's cross entropy ignores it.
pub const NO_LABEL: i32 = -100;

/// Returns `count` rows as a record batch, padded to `length` tokens with the id `pad`.
pub(crate) fn hf_batch<'a>(
    rows: impl Iterator<Item = Row<'a>>,
    count: usize,
    length: usize,
    pad: TokenId,
) -> Result<RecordBatch, ArrowError> {
    let size = count * length;
    let mut input_ids = Vec::with_capacity(size);
    let mut labels = vec![NO_LABEL; size];
    let mut types = Vec::with_capacity(size);
    let mut mask = Vec::with_capacity(size);
    let mut next_sentence_labels = Vec::with_capacity(count);
    for (number, row) in rows.enumerate() {
        let end = (number + 1) * length;
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            labels[number * length + position as usize] = id as i32;
        }
        mask.resize(number * length + row.input_ids.len(), 1i8);
        mask.resize(end, 0);
        input_ids.extend_from_slice(row.input_ids);
        input_ids.resize(end, pad);
        types.extend_from_slice(row.segment_ids);
        types.resize(end, 0i8);
        next_sentence_labels.push(row.next_sentence_label);
    }
    let list = |values| list_array(values, std::iter::repeat_n(length, count));
    let columns = vec![
        list(int32(&input_ids))?,
        list(Arc::new(Int8Array::from(types)))?,
        list(Arc::new(Int8Array::from(mask)))?,
        list(Arc::new(Int32Array::from(labels)))?,
        Arc::new(Int8Array::from(next_sentence_labels)),
    ];
    RecordBatch::try_new(hf_schema(), columns)
}

/// Appends the rows of a record batch without their padding. An error has the number of its row in the batch.
pub(crate) fn append_hf(batch: &RecordBatch, rows: &mut ShardRows) -> Result<(), (usize, Error)> {
    check_nulls(batch, &HF_COLUMNS)?;
    let input_ids = ListColumn::of::<Int32Type>(batch, 0);
    let [types, mask] = [1, 2].map(|at| ListColumn::of::<Int8Type>(batch, at));
    let labels = ListColumn::of::<Int32Type>(batch, 3);
    let next_sentence_labels = batch.column(4).as_primitive::<Int8Type>();
    let mut positions = Vec::new();
    let mut ids = Vec::new();
    for index in 0..batch.num_rows() {
        let wrong = |problem| (index, problem);
        let expected = input_ids.row(index).len();
        let types = types.row(index);
        let mask = mask.row(index);
        let labels = labels.row(index);
        let others = HF_COLUMNS[1..].iter().zip([types.len(), mask.len(), labels.len()]);
        if let Some((&column, found)) = others.into_iter().find(|(_, found)| *found != expected) {
            return Err(wrong(Error::data(format!("{found} {column} for {expected} {}", HF_COLUMNS[0]))));
        }
        let tokens = padded_from(mask).map_err(wrong)?;
        masks_of(labels, tokens, &mut positions, &mut ids).map_err(wrong)?;
        let row = Row {
            input_ids: &input_ids.row(index)[..tokens],
            segment_ids: &types[..tokens],
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

/// Returns the start of the padding: the mask must be ones, then zeros.
fn padded_from(mask: &[i8]) -> Result<usize, Error> {
    let tokens = mask.iter().take_while(|&&value| value == 1).count();
    match mask[tokens..].iter().position(|&value| value != 0) {
        None => Ok(tokens),
        Some(behind) => {
            let position = tokens + behind;
            Err(Error::data(format!(
                "attention_mask has {} at position {position}, but must be ones followed by zeros",
                mask[position]
            )))
        }
    }
}

/// Writes the positions and ids of the masked tokens to the vectors.
///
/// # Errors
/// Fails when a padding position has a label.
fn masks_of(
    labels: &[i32],
    tokens: usize,
    positions: &mut Vec<u32>,
    ids: &mut Vec<TokenId>,
) -> Result<(), Error> {
    positions.clear();
    ids.clear();
    for (position, &label) in labels.iter().enumerate().filter(|(_, label)| **label != NO_LABEL) {
        if position >= tokens {
            return Err(Error::data(format!(
                "labels has {label} at position {position}, after the {tokens} tokens"
            )));
        }
        positions.push(position as u32);
        ids.push(label as TokenId);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::ArrayRef;

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

    fn values<T: arrow_array::types::ArrowPrimitiveType>(batch: &RecordBatch, at: usize) -> Vec<T::Native> {
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
            columns[column] = list_array(values, lengths).unwrap();
            let batch = RecordBatch::try_new(batch.schema(), columns).unwrap();
            let (row, error) = append_hf(&batch, &mut ShardRows::default()).unwrap_err();
            format!("{row}: {error}")
        };
        let mut mask = vec![1i8; 16];
        mask[3] = 0;
        let mask = Arc::new(Int8Array::from(mask));
        assert_eq!(
            changed(2, mask, [8, 8]),
            "0: attention_mask has 1 at position 4, but must be ones followed by zeros"
        );
        let mut all = [NO_LABEL; 17];
        all[6] = 5;
        let labels = |count: usize| Arc::new(Int32Array::from(all[..count].to_vec()));
        assert_eq!(changed(3, labels(16), [8, 8]), "0: labels has 5 at position 6, after the 6 tokens");
        for found in [7, 9] {
            assert_eq!(
                changed(3, labels(found + 8), [found, 8]),
                format!("0: {found} labels for 8 input_ids")
            );
        }
    }
}
