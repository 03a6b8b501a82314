//! Tests of translation: values of PyTorch, decoding, text and training.

mod common;
mod decoding;
mod layers;
mod text;
mod training;
mod transformer;
