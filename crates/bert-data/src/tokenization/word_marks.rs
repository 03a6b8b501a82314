//! Ids that say where words go on.
//!
//! With `--segmenter chinese` a token may go on with the word before it without being a `##` piece. On the way from
//! reading to masking its id then stands marked: as the id plus the size of the vocabulary. So a marked id passes
//! wherever an id does, in two bytes as long as twice the vocabulary fits into them. Masking and files give the plain
//! ids back; files with unmasked tokens have the marks in a column of their own.

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
