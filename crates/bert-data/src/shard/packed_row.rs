//! Packs a [`MaskedInstance`] into bytes for scratch files, on its way to a shard. No lasting file has this format.

use crate::documents::id_width::Width;
use crate::instance::masking::MaskedInstance;

/// Bytes before the variable part of a packed row: tokens, first segment, masks (two bytes each), label.
const HEAD: usize = 7;

/// Appends the packed form of a row. Sequences are at most 65,535 tokens long.
pub(crate) fn pack(row: &MaskedInstance, width: Width, out: &mut Vec<u8>) {
    let first = row.segment_ids.partition_point(|&segment| segment == 0);
    for number in [row.tokens.len(), first, row.masked_lm_positions.len()] {
        out.extend_from_slice(&(number as u16).to_le_bytes());
    }
    out.push(u8::from(row.is_random_next));
    width.put(&row.tokens, out);
    Width::Two.put(&row.masked_lm_positions, out);
    width.put(&row.masked_lm_ids, out);
}

/// A packed row, looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedRow<'a> {
    bytes: &'a [u8],
    width: Width,
}

impl<'a> PackedRow<'a> {
    /// The row that begins `bytes`.
    pub(crate) fn first_of(bytes: &'a [u8], width: Width) -> Self {
        let row = Self { bytes, width };
        let length = row.length();
        Self { bytes: &bytes[..length], width }
    }

    /// The packed form.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn number(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[2 * at], self.bytes[2 * at + 1]]))
    }

    /// Number of bytes of the packed form.
    pub(crate) fn length(&self) -> usize {
        HEAD + self.number(0) * self.width.bytes() + self.number(2) * (2 + self.width.bytes())
    }

    pub(crate) fn tokens(&self) -> usize {
        self.number(0)
    }

    pub(crate) fn first_segment_tokens(&self) -> usize {
        self.number(1)
    }

    pub(crate) fn next_sentence_label(&self) -> i8 {
        self.bytes[6] as i8
    }

    /// Appends tokens, positions and ids to three buffers.
    pub(crate) fn unpack(&self, tokens: &mut Vec<i32>, positions: &mut Vec<i32>, ids: &mut Vec<i32>) {
        let tokens_end = HEAD + self.number(0) * self.width.bytes();
        let positions_end = tokens_end + self.number(2) * 2;
        self.width.get(&self.bytes[HEAD..tokens_end], tokens);
        Width::Two.get(&self.bytes[tokens_end..positions_end], positions);
        self.width.get(&self.bytes[positions_end..], ids);
    }
}
