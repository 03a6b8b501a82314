//! Parallel text, its tokens, and batches of it.

pub mod batches;
pub mod parallel;
pub mod tokenizers;
