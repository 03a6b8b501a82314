//! The operations of BERT, one file or folder each.
//!
//! A file opens with its equation. It has the public function, which chooses between the fused kernel and the
//! composition, the composition of burn's operations (`plain`), and the fused forward and backward pass, an
//! implementation of `fused_op::Fused`.

pub mod adamw;
pub mod attention;
pub mod dense;
pub mod dropout;
pub mod embeddings;
pub mod feed_forward;
pub mod gelu;
pub mod layer_norm;
pub mod masked_lm_eval;
pub mod masked_lm_loss;
pub mod ordered_sum;
pub(crate) mod plain;
pub mod self_attention;
