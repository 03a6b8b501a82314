//! Text to model input: tokenized examples, questions and sentences as padded batches.

pub mod classifier;
pub mod examples;
pub mod model_tokenizer;
pub(crate) mod padded_batch;
pub(crate) mod questions;
pub(crate) mod sentences;
