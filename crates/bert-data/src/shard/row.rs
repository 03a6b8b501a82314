//! Rows of training data in memory, column by column.

use std::path::Path;

use bert_tokenization::{IdSpace, TokenId};

use crate::documents::id_width::{Tally, Width};
use crate::error::{Error, Result, unknown_token};
use crate::instance::pairs::Instance;

/// One row of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Token ids after masking, with `[CLS]` and a `[SEP]` after each segment, without padding.
    pub input_ids: &'a [TokenId],
    /// Segment of each token: 0 or 1.
    pub segment_ids: &'a [i8],
    /// Positions of the masked tokens, ascending; none in a stored row if the loader masks.
    pub masked_lm_positions: &'a [u32],
    /// The original ids at the masked positions.
    pub masked_lm_ids: &'a [TokenId],
    /// Label of the pair: 1 if B is random or, with sentence order prediction, if the segments are swapped; else 0.
    pub next_sentence_label: i8,
    /// Whether each token continues the word before it, according to the segmenter; empty if that is not stored.
    pub continues_word: &'a [bool],
}

impl<'a> Row<'a> {
    /// Returns an instance as a row; its ids must have no marks.
    pub(crate) fn from_instance(instance: &'a Instance) -> Self {
        Self {
            input_ids: &instance.tokens,
            segment_ids: &instance.segment_ids,
            masked_lm_positions: &instance.masked_lm_positions,
            masked_lm_ids: &instance.masked_lm_ids,
            next_sentence_label: i8::from(instance.is_random_next),
            continues_word: &[],
        }
    }

    /// Copies the row into an instance and marks the ids that continue a word.
    pub(crate) fn copy_to(&self, ids: IdSpace, instance: &mut Instance) {
        let Instance { tokens, segment_ids, masked_lm_positions, masked_lm_ids, is_random_next } = instance;
        self.input_ids.clone_into(tokens);
        ids.mark(tokens, self.continues_word);
        self.segment_ids.clone_into(segment_ids);
        self.masked_lm_positions.clone_into(masked_lm_positions);
        self.masked_lm_ids.clone_into(masked_lm_ids);
        *is_random_next = self.next_sentence_label == 1;
    }

    /// Fills a list with the ids before masking.
    pub(crate) fn original(&self, ids: &mut Vec<TokenId>) {
        self.input_ids.clone_into(ids);
        for (&position, &id) in self.masked_lm_positions.iter().zip(self.masked_lm_ids) {
            ids[position as usize] = id;
        }
    }
}

/// The rows of a shard in memory, column by column. Every row was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardRows {
    pub(super) input_ids: Vec<TokenId>,
    pub(super) segment_ids: Vec<i8>,
    pub(super) token_ends: Vec<u64>,
    pub(super) masked_lm_positions: Vec<u32>,
    pub(super) masked_lm_ids: Vec<TokenId>,
    pub(super) mask_ends: Vec<u64>,
    pub(super) next_sentence_labels: Vec<i8>,
    /// Whether each token continues a word: as long as `input_ids`, or empty.
    pub(super) continues_word: Vec<bool>,
}

impl ShardRows {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.next_sentence_labels.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.next_sentence_labels.is_empty()
    }

    /// Returns one row.
    ///
    /// # Panics
    /// Panics if the row does not exist.
    pub fn row(&self, index: usize) -> Row<'_> {
        let range = |ends: &[u64]| {
            let start = if index == 0 { 0 } else { ends[index - 1] as usize };
            start..ends[index] as usize
        };
        let tokens = range(&self.token_ends);
        let masks = range(&self.mask_ends);
        Row {
            continues_word: self.continues_word.get(tokens.clone()).unwrap_or_default(),
            input_ids: &self.input_ids[tokens.clone()],
            segment_ids: &self.segment_ids[tokens],
            masked_lm_positions: &self.masked_lm_positions[masks.clone()],
            masked_lm_ids: &self.masked_lm_ids[masks],
            next_sentence_label: self.next_sentence_labels[index],
        }
    }

    /// Iterates over all rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len()).map(|index| self.row(index))
    }

    /// Checks that every row fits a model: ids inside the vocabulary, lengths within the limits.
    ///
    /// # Errors
    /// Fails when a row does not fit; the error names `path` and the first such row.
    pub fn check(
        &self,
        path: &Path,
        vocabulary: usize,
        max_seq_length: usize,
        max_predictions_per_seq: usize,
    ) -> Result<()> {
        let checked = self.check_from(0, vocabulary, max_seq_length, max_predictions_per_seq);
        checked.map_err(|(row, problem)| Error::data(format!("row {row}: {problem}")).at(path))
    }

    /// Checks the rows from row `first` on as [`ShardRows::check`] does, but the error is the number of a row and its
    /// problem.
    pub(crate) fn check_from(
        &self,
        first: usize,
        vocabulary: usize,
        max_seq_length: usize,
        max_predictions_per_seq: usize,
    ) -> Result<(), (u64, Error)> {
        let outside = |ids: &[TokenId]| ids.iter().copied().find(|&id| id as usize >= vocabulary);
        for index in first..self.len() {
            let row = self.row(index);
            let tokens = row.input_ids.len();
            let masks = row.masked_lm_ids.len();
            let problem = if let Some(id) = outside(row.input_ids).or_else(|| outside(row.masked_lm_ids)) {
                unknown_token(id as i32, vocabulary)
            } else if tokens > max_seq_length {
                Error::data(format!("{tokens} tokens, more than max_seq_length {max_seq_length}"))
            } else if masks > max_predictions_per_seq {
                Error::data(format!(
                    "{masks} masked positions, more than {max_predictions_per_seq} (max_predictions_per_seq, or 0 \
                     with dynamic masking)"
                ))
            } else {
                continue;
            };
            return Err((index as u64, problem));
        }
        Ok(())
    }

    /// Returns whether the rows have word marks.
    pub fn has_marks(&self) -> bool {
        !self.continues_word.is_empty()
    }

    /// Removes all rows and keeps the memory.
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

    /// Appends an instance with ids of this space; word marks become a column.
    pub(crate) fn push_instance(&mut self, instance: &Instance, ids: IdSpace) {
        let first = self.input_ids.len();
        self.push(Row::from_instance(instance));
        ids.unmark(&mut self.input_ids[first..], &mut self.continues_word);
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

/// Checks the rules for any row, regardless of its source. Here, a negative number from a file is a number of more than
/// 31 bits.
pub(crate) fn check_row(row: Row<'_>) -> Result<(), Error> {
    let tokens = row.input_ids.len();
    if tokens == 0 {
        return Err(Error::data("the row has no tokens"));
    }
    for (column, found, of, expected) in [
        ("segment_ids", row.segment_ids.len(), "input_ids", tokens),
        ("masked_lm_ids", row.masked_lm_ids.len(), "masked_lm_positions", row.masked_lm_positions.len()),
    ] {
        if found != expected {
            return Err(Error::data(format!("{found} {column} for {expected} {of}")));
        }
    }
    for (column, values) in
        [("segment_ids", row.segment_ids), ("next_sentence_label", &[row.next_sentence_label])]
    {
        if let Some(&value) = values.iter().find(|&&value| !matches!(value, 0 | 1)) {
            return Err(Error::data(format!("{column} has the value {value}")));
        }
    }
    let mut least = 0;
    for &position in row.masked_lm_positions {
        if position < least || position as usize >= tokens {
            return Err(Error::data(format!(
                "masked_lm_positions has {}, which is outside the {tokens} tokens or not ascending",
                position as i32
            )));
        }
        least = position + 1;
    }
    match row.input_ids.iter().chain(row.masked_lm_ids).find(|&&id| (id as i32) < 0) {
        Some(&id) => Err(unknown_token(id as i32, i32::MAX as usize)),
        None => Ok(()),
    }
}

/// Bytes before the variable part of a packed row: tokens, first segment, masks (two bytes each), label.
const HEAD: usize = 7;

/// Appends the packed form of a row. Sequences are at most 65,535 tokens long.
pub(crate) fn pack(row: &Instance, width: Width, out: &mut Vec<u8>) {
    for number in [row.tokens.len(), row.first_segment_tokens(), row.masked_lm_positions.len()] {
        out.extend_from_slice(&(number as u16).to_le_bytes());
    }
    out.push(u8::from(row.is_random_next));
    width.put(&row.tokens, out);
    Width::Two.put(&row.masked_lm_positions, out);
    width.put(&row.masked_lm_ids, out);
}

/// Counts the packed rows that start at these offsets of `bytes`.
pub(crate) fn tally_of(bytes: &[u8], width: Width, starts: &[u32]) -> Tally {
    let mut tally = Tally::default();
    let rows = starts.iter().map(|&start| PackedRow::first_of(&bytes[start as usize..], width));
    rows.for_each(|row| tally.add_bytes(row.bytes()));
    tally
}

/// A view of a packed row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedRow<'a> {
    bytes: &'a [u8],
    width: Width,
}

impl<'a> PackedRow<'a> {
    /// Returns the row at the start of `bytes`.
    pub(crate) fn first_of(bytes: &'a [u8], width: Width) -> Self {
        let row = Self { bytes, width };
        let length = HEAD + row.number(0) * width.bytes() + row.number(2) * (2 + width.bytes());
        Self { bytes: &bytes[..length], width }
    }

    /// Returns the packed form.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn number(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[2 * at], self.bytes[2 * at + 1]]))
    }

    /// Fills an instance with the row.
    pub(crate) fn unpack(&self, instance: &mut Instance) {
        let tokens_end = HEAD + self.number(0) * self.width.bytes();
        let positions_end = tokens_end + self.number(2) * 2;
        let Instance { tokens, segment_ids, masked_lm_positions, masked_lm_ids, is_random_next } = instance;
        for list in [&mut *tokens, &mut *masked_lm_positions, &mut *masked_lm_ids] {
            list.clear();
        }
        self.width.get(&self.bytes[HEAD..tokens_end], tokens);
        Width::Two.get(&self.bytes[tokens_end..positions_end], masked_lm_positions);
        self.width.get(&self.bytes[positions_end..], masked_lm_ids);
        segment_ids.clear();
        segment_ids.resize(self.number(1), 0);
        segment_ids.resize(self.number(0), 1);
        *is_random_next = self.bytes[6] == 1;
    }
}
