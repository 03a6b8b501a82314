//! Splits rows into blocks for the threads, and sums columns block by block.
//!
//! The blocks follow from the shape alone and are the same for any number of threads; partial sums are added in the
//! order of the blocks.

use rayon::prelude::*;

use crate::rows::add_rows;

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
    for block in partial.chunks_exact(width.max(1)) {
        for (sum, value) in sum.iter_mut().zip(block) {
            *sum += value;
        }
    }
    sum
}

/// The sum of all rows, each `width` long.
pub(crate) fn column_sums(x: &[f32], width: usize) -> Vec<f32> {
    let block = rows_per_block(x.len() / width, width) * width;
    let mut sums = vec![0.0; x.len().div_ceil(block) * width];
    sums.par_chunks_mut(width).zip(x.par_chunks(block)).for_each(|(sums, x)| add_rows(x, sums));
    add_blocks(&sums, width)
}
