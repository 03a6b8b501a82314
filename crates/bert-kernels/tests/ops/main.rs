//! Compares every fused operation with the plain composition in f64: values, gradients, finite differences, odd shapes,
//! masks, large inputs, repetition and thread counts.
//!
//! An f64 tensor takes the plain path through the same public function, so one closure is both the operation under test
//! and its reference.

mod adamw;
mod attention;
mod common;
mod embeddings;
mod gelu;
mod inputs;
mod layer_norm;
mod masked_lm;
mod sum;
mod version;
