//! Text to model input: tokenizes examples, questions and sentences, and pads them to batches.

pub mod classifier;
pub(crate) mod examples;
pub(crate) mod model_tokenizer;
pub(crate) mod padded_batch;
pub(crate) mod questions;
pub(crate) mod sentences;
pub(crate) mod squad_args;
