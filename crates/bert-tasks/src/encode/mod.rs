//! Builds model inputs from token ids: one input for a text or a pair (`pair.rs`), and overlapping windows for a text
//! that is longer than the sequence (`windows.rs`). `Truncation` counts the texts that were cut.

pub(crate) mod pair;
pub mod windows;
