//! Parallel text, its tokens, and batches of it.

pub(crate) mod batches;
pub(crate) mod parallel;
pub(crate) mod tokenizers;
