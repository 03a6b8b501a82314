//! Fused operations of BERT training, with hand-written backward passes.
//!
//! In: burn tensors. Out: burn tensors, tracked by autodiff like those of any other operation. Each module
//! holds one operation: its name and equation at the head, the fused kernel, and the same operation
//! composed of burn's own (`plain`). The fused kernel runs when every tensor is an f32 tensor of burn's
//! `Flex` backend, with or without autodiff, and [`Kernels::Fused`] is selected; everywhere else the
//! composition runs, so that results agree. Matrix products are in f32 or, on request, in bf16
//! ([`mod@precision`]). With the feature `cubecl` GELU, dropout, LayerNorm, the softmax of attention and
//! AdamW have kernels for GPUs as well (`cube.rs`): tested on Vulkan in software, not yet on CUDA; no figure
//! from a card exists yet. Not for other models' operations or other precisions.
//!
//! | room | operation |
//! |---|---|
//! | [`dense`] | the product of a dense layer, as one |
//! | [`gelu`] | bias + GELU, erf and tanh |
//! | [`self_attention`] | three projections, attention |
//! | [`attention`] | scores, key mask, softmax, dropout, context, heads side by side |
//! | [`layer_norm`] | LayerNorm; bias + dropout + residual + LayerNorm |
//! | [`embeddings`] | three tables summed + LayerNorm + dropout |
//! | [`masked_lm`] | projection onto the vocabulary + bias + cross-entropy |
//! | [`masked_lm_scores`] | the same projection, loss and right answers, for evaluation |
//! | [`adamw`] | the global norm and AdamW, in place |
//! | [`dropout`] | masks from a counter, recomputed rather than stored |
//! | [`mod@sum`] | the sum of a tensor, in an order of its own |
//! | [`mod@precision`] | what matrix products round their factors to |
//! | [`processor`] | what of the processor decides bits and speed |
//! | [`math`] | exp, GELU and their derivatives on slices |
//!
//! # Promises
//!
//! Kernels split their work by shape alone and add partial sums in the order of the parts, so the bytes
//! that come out do not depend on the number of threads. Elementwise arithmetic is written without fused
//! multiply-add and with sixteen explicit lanes in every sum, so that it does not depend on the vector
//! width of the processor either; the matrix products of the `gemm` crate do depend on it, and on the size
//! of the first cache ([`processor`]). The compositions of burn's operations keep the first promise too: sums
//! over whole tensors are [`mod@sum`]'s, and burn-flex splits nothing else that it adds up.

pub mod adamw;
pub mod attention;
#[cfg(target_arch = "x86_64")]
mod bf16;
mod compute;
#[cfg(feature = "cubecl")]
mod cube;
pub mod dense;
pub mod dropout;
pub mod embeddings;
mod extension;
pub mod gelu;
pub mod layer_norm;
pub mod masked_lm;
pub mod masked_lm_scores;
pub mod math;
mod matrix;
mod parallel;
mod pool;
pub mod precision;
pub mod processor;
mod product;
mod rows;
pub mod self_attention;
mod storage;
pub mod sum;

pub use compute::{Compute, Kernels, Precision};
pub use dropout::Dropout;
pub use precision::has_bf16_instructions;

/// The version of the arithmetic. A change that gives other bits for the same input has to raise it: runs record
/// it, and a run that goes on with another version says that its bits may differ.
pub const VERSION: u32 = 1;
