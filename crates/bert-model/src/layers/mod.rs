//! The layers of a BERT encoder.
//!
//! A batch passes through the embeddings (`models/bert.rs`), then through the layers of [`encoder`]: self-attention
//! with its output projection ([`attention`]) and a feed-forward network. [`dropout`] makes the masks of a forward
//! pass. [`bottleneck_adapter`] (with LoRA) and `adapter_fusion` are layers inside these blocks that an adapter adds.
//! `linear` creates burn's layers with BERT's settings.

pub(crate) mod adapter_fusion;
pub mod attention;
pub mod bottleneck_adapter;
pub mod dropout;
pub mod encoder;
#[doc(hidden)]
pub mod linear;
