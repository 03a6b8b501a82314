//! CPU building blocks of the kernels: scalar math, buffers, row blocks and CPU features.

pub(crate) mod buffer_pool;
pub(crate) mod dropout_mask;
pub(crate) mod flex_slices;
pub mod math;
pub(crate) mod row_blocks;
