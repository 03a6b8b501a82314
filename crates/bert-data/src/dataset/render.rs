//! Renders instances as lines of words for people.
//!
//! Masked tokens are marked: `[MASK:word]` is hidden, `[KEPT:word]` is shown as it is, and `[word->other]` is replaced
//! at random.

use crate::config::Nsp;
use crate::dataset::DataSet;
use crate::dataset::report::word;
use crate::dataset::stored_rows::StoredRows;
use crate::error::Result;
use crate::shard::row::Row;
use crate::tokenization::vocabulary::Vocabulary;

/// What a label means.
#[must_use]
pub fn label_name(nsp: Nsp, label: i8) -> &'static str {
    match (nsp, label) {
        (Nsp::On, 1) => "random next",
        (Nsp::On, _) => "actual next",
        (Nsp::Sop, 1) => "swapped",
        (Nsp::Sop, _) => "in order",
        (Nsp::Off, _) => "one segment",
    }
}

/// One instance as words: its label, then segment A and segment B, each on a line of its own.
#[must_use]
pub fn render(row: Row<'_>, vocabulary: &Vocabulary, nsp: Nsp) -> String {
    let label = label_name(nsp, row.next_sentence_label);
    let (tokens, masks) = (row.input_ids.len(), row.masked_lm_ids.len());
    let mut text = format!("{label}, {tokens} tokens, {masks} masked");
    let mut masks = row.masked_lm_positions.iter().zip(row.masked_lm_ids).peekable();
    let mut segment = -1;
    for (position, (&id, &segment_id)) in row.input_ids.iter().zip(row.segment_ids).enumerate() {
        if segment_id != segment {
            segment = segment_id;
            text.push_str(if segment == 0 { "\n  A:" } else { "\n  B:" });
        }
        text.push(' ');
        let shown = word(vocabulary, id);
        match masks.next_if(|(masked, _)| **masked == position as i32) {
            Some((_, &original)) if id == original => text.push_str(&format!("[KEPT:{shown}]")),
            Some((_, &original)) if id == vocabulary.mask_id() as i32 => {
                text.push_str(&format!("[MASK:{}]", word(vocabulary, original)));
            }
            Some((_, &original)) => text.push_str(&format!("[{}->{shown}]", word(vocabulary, original))),
            None => text.push_str(shown),
        }
    }
    text
}

/// The first `n` rows of a data set as words; what the loader makes is that of epoch 0.
pub(crate) fn render_first(data: &DataSet, n: u64) -> Result<Vec<String>> {
    let (mut rows, manifest) = (StoredRows::new(data), data.manifest());
    let render = |index| Ok(render(rows.row(index)?, data.vocabulary(), manifest.config.nsp));
    (0..n.min(manifest.instances)).map(render).collect()
}
