//! Training of a translation model, and its files.

pub mod config;
pub mod run;
pub mod saved_model;
