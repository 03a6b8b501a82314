//! Converts texts to model inputs: tokenizes examples, questions and sentences, and pads them to batches.

pub mod examples;
pub(crate) mod model_tokenizer;
pub(crate) mod questions;
pub(crate) mod sentences;
pub(crate) mod squad_args;
