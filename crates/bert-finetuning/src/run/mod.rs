//! The loop of a fine-tuning over configurations, seeds, epochs and steps, and its saved state.
//!
//! `grid_search.rs` loops over configurations and seeds, `train_seed.rs` over epochs and steps, and `step.rs` takes one
//! step on a batch whose examples `sample_order.rs` selects.

pub mod fingerprint;
pub(crate) mod grid_search;
pub mod live_log;
pub(crate) mod lossless_json;
pub mod resume;
pub(crate) mod run_report;
pub(crate) mod sample_order;
pub(crate) mod step;
pub(crate) mod train_seed;
