//! Documents to instances: sentence pairs, then masks. Every draw is addressed, so that instances can be made anywhere.

pub(crate) mod coverage;
pub mod keyed;
pub mod masking;
pub(crate) mod ngram_spans;
pub mod pairs;
