//! Layers of the encoder, from embeddings to adapters.

pub(crate) mod adapter_fusion;
pub mod attention;
pub mod bottleneck_adapter;
pub mod dropout;
pub mod embeddings;
pub mod encoder;
pub(crate) mod layer_norm;
pub(crate) mod linear;
pub mod lora;
