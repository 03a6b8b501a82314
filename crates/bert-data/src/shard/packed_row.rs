//! Packs an [`Instance`] into bytes for scratch files, before it is written to a shard. No permanent file has this
//! format.

use crate::documents::id_width::Width;
use crate::documents::tally::Tally;
use crate::instance::pairs::Instance;

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
