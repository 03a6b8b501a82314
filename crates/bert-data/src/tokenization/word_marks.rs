//! Marks token ids that continue a word, for `--segmenter chinese`.
//!
//! With a segmenter, a token can continue the word before it without being a `##` piece. Between reading and masking,
//! its id is marked: it is the plain id plus the size of the vocabulary. So a marked id fits wherever an id does, in
//! two bytes as long as twice the vocabulary fits into them. Masking and files have the plain ids again. Files with
//! unmasked tokens store the marks in a column of their own.

/// The id of a token that goes on with the word before it.
#[must_use]
pub fn marked(id: u32, vocabulary: usize) -> u32 {
    id + vocabulary as u32
}

/// The plain id, and whether it was marked.
#[must_use]
pub fn unmarked(id: u32, vocabulary: usize) -> (u32, bool) {
    match (id as usize) < vocabulary {
        true => (id, false),
        false => (id - vocabulary as u32, true),
    }
}
