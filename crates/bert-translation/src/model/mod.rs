//! The translation model, its initial weights, and decoding.

pub mod beam_search;
pub mod initialization;
pub mod step_scores;
pub mod transformer;
