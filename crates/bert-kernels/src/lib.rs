//! Fused operations of BERT training on [burn] tensors, with hand-written backward passes.
//!
//! An operation is a function from burn tensors to burn tensors, and autodiff tracks its result like any other
//! operation. Each operation has two forms: a fused kernel for the CPU, and a composition of burn's own operations for
//! the same equation (`plain`), which is slower and short enough to be compared with the paper. The first argument, a
//! [`Compute`] value, selects the form.
//!
//! ```
//! use bert_kernels::gelu::{self, Gelu, bias_gelu};
//! use bert_kernels::{Compute, Kernels};
//! use burn::tensor::{Device, Tensor, Tolerance};
//!
//! let device = Device::flex();
//! let x = Tensor::<2>::from_floats([[-1.0, 0.0, 2.0], [3.0, -4.0, 0.5]], &device);
//! let bias = Tensor::<1>::from_floats([0.5, 0.0, -1.0], &device);
//!
//! let compute = Compute::default();
//! assert_eq!(compute.kernels, Kernels::Fused);
//! let fused = bias_gelu(compute, x.clone(), bias.clone(), Gelu::Erf);
//! let plain = gelu::plain(x, bias, Gelu::Erf);
//! fused.into_data().assert_approx_eq::<f32>(&plain.into_data(), Tolerance::absolute(1e-5));
//! ```
//!
//! # Tour
//!
//! - [`Compute`] has two fields: [`Kernels`] chooses between the fused kernel and the composition, and [`Precision`] is
//!   the precision to which matrix products round their operands. Each model has its own [`Compute`], so two models in
//!   one process may differ.
//! - [`Dropout`] identifies a mask by its key. Operations with dropout take an `Option<Dropout>`; `None` disables it.
//!
//! Each operation has a module, which opens with its equation. In the order of a forward pass:
//!
//! | module | operation |
//! |---|---|
//! | [`embeddings`] | three tables summed + LayerNorm + dropout |
//! | [`self_attention`] | three projections, attention |
//! | [`attention`] | scores, key mask, softmax, dropout, context, heads side by side |
//! | [`dense`] | the matrix product of a dense layer |
//! | [`layer_norm`] | LayerNorm; bias + dropout + residual + LayerNorm |
//! | [`feed_forward`] | two dense layers with GELU between them |
//! | [`gelu`] | bias + GELU, erf and tanh |
//! | [`dropout`] | masks from a counter, recomputed rather than stored |
//! | [`masked_lm_loss`] | projection onto the vocabulary + bias + cross-entropy |
//! | [`masked_lm_eval`] | the same projection, loss and accuracy, for evaluation |
//! | [`ordered_sum`] | the sum of a tensor, in an order that depends on its length only |
//! | [`adamw`] | the global norm and AdamW, in place |
//!
//! The table lists the folders and the larger modules of the source. Each uses only entries above it:
//!
//! | folder | contents |
//! |---|---|
//! | `cpu` | scalar functions (`math`), buffers, blocks of rows, dropout masks |
//! | `matmul` | matrix products in f32 and bf16, packed weights, properties of the [`processor`] |
//! | `fused_op` | conversion from burn tensors to the arguments of fused kernels and back, with autodiff |
//! | [`host_values`] | copies between the host and parts of a tensor |
//! | `gpu` | kernels in CubeCL |
//! | `ops` | the operations |
//!
//! `arguments` has the types of arguments.
//!
//! # When a fused kernel runs
//!
//! The fused kernel runs when [`Compute::kernels`] is not [`Kernels::Plain`] and every tensor is an f32
//! tensor of burn's `Flex` backend, with or without autodiff but without gradient checkpointing.
//! [`adamw::update`] and [`masked_lm_eval`] have no backward pass, so their fused kernels run only on tensors
//! without autodiff. [`Precision::Bf16`] needs the AVX-512 BF16 instructions ([`has_bf16_instructions`]). In
//! all other cases, the composition of burn's operations runs; its results agree with the kernel's.
//!
//! With the feature `cubecl`, most operations have GPU kernels as well; [`Kernels::FusedAttention`] computes
//! attention in one kernel per pass. Their tests run on a software implementation of Vulkan.
//!
//! # Promises
//!
//! - **Threads do not matter.** Kernels split their work by shape alone and add partial sums in the order of the parts,
//!   so the output bytes do not depend on the number of threads. The compositions of burn's operations have the same
//!   property: sums over whole tensors use [`ordered_sum`], and burn-flex splits no other reduction.
//! - **The vector width matters to matrix products only.** Elementwise arithmetic is written with explicit fused
//!   multiply-adds and explicit lanes in every sum, 32 in f32. The matrix products of the `gemm` crate do depend on the
//!   vector width, and on the size of the L1 cache ([`processor`]). Products in bf16 depend on whether the processor
//!   has AMX tiles, which add 32 terms to a sum at a time, while AVX-512 BF16 adds two.
//! - **Bits have a version.** A change that gives different bits for the same input raises [`VERSION`].

mod arguments;
mod cpu;
mod fused_op;
#[cfg(feature = "cubecl")]
mod gpu;
mod gpu_properties;
#[cfg(feature = "hook")]
#[doc(hidden)]
pub mod hook;
#[doc(hidden)]
pub mod host_values;
mod matmul;
mod ops;

pub use arguments::{Compute, Kernels, Precision};
pub use cpu::dropout_mask::Dropout;
pub use gpu_properties::{GpuProperties, gpu_properties};
pub use matmul::has_bf16_instructions;
pub use ops::{adamw, attention, embeddings, feed_forward, gelu, layer_norm, masked_lm_loss, self_attention};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use matmul::{
    packed_weights::{KernelContext, PackedWeights},
    processor,
};
#[doc(hidden)]
pub use ops::dropout;
#[doc(hidden)]
pub use ops::{dense, masked_lm_eval, ordered_sum};

/// The version of the arithmetic of these kernels and of the model. A change that gives different bits for
/// the same input must increase it. Runs record the version, and a run that is resumed with a different
/// version prints a warning that its bits may differ.
pub const VERSION: u32 = 7;
