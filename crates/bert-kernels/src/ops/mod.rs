//! Operations of BERT: one file for each, with its fused forward and backward pass and its composition of burn operations.

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
