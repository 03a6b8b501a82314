//! The loop of a fine-tuning over configurations, seeds, epochs and steps, and its saved state.
//!
//! `grid_search.rs` loops over configurations and seeds, `training/` over epochs and steps, and `step.rs` takes one step
//! on a batch whose examples `SampleOrder` selects. With several tasks `TaskDraw` draws the task of each step.

pub(crate) mod fingerprint;
pub(crate) mod grid_search;
pub(crate) mod resume;
pub(crate) mod run_report;
pub(crate) mod step;
pub(crate) mod training;
