//! The translation model, its initial weights, and decoding.

pub(crate) mod beam_search;
pub(crate) mod initialization;
pub(crate) mod transformer;
