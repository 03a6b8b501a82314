//! Text to model input: tokenizes examples, questions and sentences, and pads them to batches.

pub mod classifier;
pub mod examples;
pub mod model_tokenizer;
pub mod padded_batch;
pub mod questions;
pub mod sentences;
pub mod squad_args;
