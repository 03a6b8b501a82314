//! The operations of BERT, one file or folder each.
//!
//! A file opens with its equation. It has three parts: the public function, which chooses between the fused kernel and
//! the composition; the composition of burn's operations (`plain`); and the fused forward and backward pass, an
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

/// Returns whether a layer saves the results of its first products for the backward pass instead of computing them
/// again. The results are queries, keys, values and intermediate features. In a layer of BERT, they take `28 tokens
/// hidden` bytes. During the backward pass, the gradients of the layer's weights replace them, which take `48 hidden^2`
/// bytes. Therefore, the peak memory grows only if other gradients are in memory, as from earlier micro-batches, or if
/// no gradients follow, as for frozen weights.
pub(crate) fn saves_projections(tokens: usize, hidden: usize) -> bool {
    2 * tokens <= 3 * hidden
}
