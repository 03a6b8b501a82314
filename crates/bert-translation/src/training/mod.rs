//! Training of a translation model, and its files.

pub(crate) mod config;
pub(crate) mod run;
pub(crate) mod saved_model;
