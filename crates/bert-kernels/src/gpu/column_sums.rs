//! Sums of the rows of a matrix on a GPU, in an order that depends on the number of rows alone.
//!
//! One unit adds [`BLOCK`] rows of one column, and the sums of blocks are added in the same way. burn's own sum over the
//! first axis has one unit for a whole column: with 16,384 rows of 256 columns it takes two milliseconds on an H200.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{elementwise, empty_like, into_contiguous};

/// Rows that one unit adds.
const BLOCK: usize = 128;

/// Returns the sum of all rows of a tensor of `rows * width` elements, `[width]`.
pub(super) fn column_sums(x: CubeTensor, mut rows: usize, width: usize) -> CubeTensor {
    let mut x = into_contiguous(x);
    loop {
        rows = rows.div_ceil(BLOCK);
        let sums = empty_like(&x, rows * width);
        let (count, dim) = elementwise(rows * width);
        kernel::launch(&sums.client, count, dim, x.into_buffer_arg(), sums.clone().into_buffer_arg(), width);
        if rows <= 1 {
            return Cube::float_reshape(sums, Shape::new([width]));
        }
        x = sums;
    }
}

#[cube(launch)]
fn kernel(x: &[f32], sums: &mut [f32], width: usize) {
    if ABSOLUTE_POS < sums.len() {
        let first = ABSOLUTE_POS / width * BLOCK * width + ABSOLUTE_POS % width;
        let end = min(first + BLOCK * width, x.len());
        let mut sum = 0.0f32;
        let mut i = first;
        while i < end {
            sum += x[i];
            i += width;
        }
        sums[ABSOLUTE_POS] = sum;
    }
}
