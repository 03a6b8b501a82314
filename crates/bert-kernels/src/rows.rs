//! Rows of equal width: additions, and blocks of them for the threads.
//!
//! The blocks follow from the shape alone and are the same for any number of threads; partial sums are added in the
//! order of the blocks.

use rayon::prelude::*;

use crate::math::vectorized;

vectorized! {
    /// Adds `bias` to every row.
    pub(crate) fn add_bias(x: &mut [f32], bias: &[f32]) {
        for x in x.chunks_exact_mut(bias.len()) {
            for (x, b) in x.iter_mut().zip(bias) {
                *x += b;
            }
        }
    }
}

vectorized! {
    /// Adds elementwise.
    pub(crate) fn add(x: &mut [f32], y: &[f32]) {
        for (x, y) in x.iter_mut().zip(y) {
            *x += y;
        }
    }
}

vectorized! {
    /// Adds every row to `sum`.
    pub(crate) fn add_rows(x: &[f32], sum: &mut [f32]) {
        for x in x.chunks_exact(sum.len()) {
            for (sum, x) in sum.iter_mut().zip(x) {
                *sum += x;
            }
        }
    }
}

/// Elements that one task should have at least, so that handing it out is worth it.
const ELEMENTS: usize = 1 << 13;
/// Most blocks that a reduction is split into.
const BLOCKS: usize = 64;

/// Rows per block; at least one.
pub(crate) fn rows_per_block(rows: usize, width: usize) -> usize {
    ELEMENTS.div_ceil(width.max(1)).max(rows.div_ceil(BLOCKS)).max(1)
}

/// Adds up partial sums `[blocks, width]` in the order of the blocks.
pub(crate) fn add_blocks(partial: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    add_rows(partial, &mut sum);
    sum
}

/// The sum of all rows, each `width` long.
pub(crate) fn column_sums(x: &[f32], width: usize) -> Vec<f32> {
    let block = rows_per_block(x.len() / width, width) * width;
    let mut sums = vec![0.0; x.len().div_ceil(block) * width];
    sums.par_chunks_mut(width).zip(x.par_chunks(block)).for_each(|(sums, x)| add_rows(x, sums));
    add_blocks(&sums, width)
}
