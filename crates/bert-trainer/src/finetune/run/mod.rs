//! The loop over cells and seeds of a fine-tuning, and its saved state.

pub(crate) mod fingerprint;
pub(crate) mod grid_search;
pub(crate) mod lossless_json;
pub(crate) mod resume;
pub(crate) mod sample_order;
pub mod train_seed;
