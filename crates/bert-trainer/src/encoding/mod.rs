//! Text to model input: tokenizes examples, questions and sentences, and pads them to batches.

pub mod classifier;
pub mod examples;
pub mod model_tokenizer;
pub mod padded_batch;
pub(crate) mod questions;
pub(crate) mod sentences;
pub mod squad_args;
