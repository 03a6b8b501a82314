//! Building blocks of the CPU kernels.
//!
//! `math` has scalar functions and sums with a fixed order of lanes. `row_blocks` splits rows into tasks and adds
//! their partial sums in order. `dropout_mask` computes masks from a counter. `flex_slices` converts tensors of burn's
//! `Flex` backend to slices and back, and `buffer_pool` reuses their memory.

pub(crate) mod buffer_pool;
pub(crate) mod dropout_mask;
pub(crate) mod flex_slices;
pub(crate) mod math;
pub(crate) mod row_blocks;
