//! Additions on rows of equal width, and the division of rows into blocks, each of which is one task.
//!
//! The blocks depend on the shape only, not on the number of threads, and partial sums are added in the order of the
//! blocks. Therefore, every sum has the same bits on any number of threads.

use rayon::prelude::*;

use crate::cpu::math::vectorized;

vectorized! {
    /// Adds `bias`, `[width]`, to every row of x, `[rows, width]`.
    pub(crate) fn add_bias(x: &mut [f32], bias: &[f32]) {
        for x in x.chunks_exact_mut(bias.len()) {
            for (x, b) in x.iter_mut().zip(bias) {
                *x += b;
            }
        }
    }
}

vectorized! {
    /// Adds y to x, element by element.
    pub(crate) fn add(x: &mut [f32], y: &[f32]) {
        for (x, y) in x.iter_mut().zip(y) {
            *x += y;
        }
    }
}

vectorized! {
    /// Adds every row of x, `[rows, width]`, to `sum`, `[width]`.
    pub(crate) fn add_rows(x: &[f32], sum: &mut [f32]) {
        for x in x.chunks_exact(sum.len()) {
            for (sum, x) in sum.iter_mut().zip(x) {
                *sum += x;
            }
        }
    }
}

/// Minimum number of elements per task; below it, scheduling costs more than the work.
const MIN_ELEMENTS: usize = 1 << 13;
/// Maximum number of blocks of a reduction.
const MAX_BLOCKS: usize = 64;

/// Returns the number of rows per block; at least one.
pub(crate) fn rows_per_block(rows: usize, width: usize) -> usize {
    MIN_ELEMENTS.div_ceil(width.max(1)).max(rows.div_ceil(MAX_BLOCKS)).max(1)
}

/// Returns the sum of the partial sums `[blocks, width]`, added in the order of the blocks.
pub(crate) fn add_blocks(partial: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    add_rows(partial, &mut sum);
    sum
}

/// Returns the sum of all rows of x, `[rows, width]`.
pub(crate) fn column_sums(x: &[f32], width: usize) -> Vec<f32> {
    let block = rows_per_block(x.len() / width, width) * width;
    let mut sums = vec![0.0; x.len().div_ceil(block) * width];
    sums.par_chunks_mut(width).zip(x.par_chunks(block)).for_each(|(sums, x)| add_rows(x, sums));
    add_blocks(&sums, width)
}
