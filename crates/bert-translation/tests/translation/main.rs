//! Tests of translation: values of PyTorch and sacreBLEU, and decoding.

mod common;
mod decoding;
mod layers;
mod metrics;
mod transformer;
