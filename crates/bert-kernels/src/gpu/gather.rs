//! Rows of a table by index, and the gradient of the table: `dtable[v]` is the sum of the gradients of the
//! output rows with index v, added in their order.
//!
//! burn's own gradient has one unit for each column, which walks through all indices. Here the indices are
//! sorted first: a row's place is the number of rows with a smaller index, or with the same index and an
//! earlier place. After sorting, the rows of one index are adjacent. They are added in a fixed order: first
//! the rows up to the end of a block of [`BLOCK`] places, then the sums of the following blocks, which
//! another kernel has computed. The gradient needs no atomic additions and no copy to the host.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Int, Shape, Tensor};
use burn_cubecl::kernel::cast;
use burn_cubecl::ops::numeric::zeros_client;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::column_sums::column_sums;
use super::{
    UNITS, apply_inputs, elementwise, empty_like, empty_with, input, into_contiguous, len, one_cube_per_row,
    vector_size, writable,
};
use crate::arguments::Kernels;
use crate::fused_op::Fused;

/// Number of places that a unit compares with its own.
const SEGMENT: usize = 512;

/// Number of sorted places in a block.
const BLOCK: usize = 32;

/// Maximum number of rows of a table whose gradient is computed without sorting, such as the table of token
/// types.
const FEW_ROWS: usize = 4;

/// Returns the rows of a table with these indices; `None` if the table is not on a GPU.
///
/// # Shapes
/// - table: `[rows, width]`; ids: `[n]`
/// - output: `[n, width]`
pub(crate) fn gather(kernels: Kernels, table: Tensor<2>, ids: Tensor<1, Int>) -> Option<Tensor<2>> {
    if kernels == Kernels::Plain || table.dtype() != DType::F32 {
        return None;
    }
    let gather = Gather { ids: indices(ids)? };
    apply_inputs(kernels, gather, [input(table)])
}

/// Returns indices as a flat i32 tensor; `None` if they are not on a GPU.
pub(crate) fn indices<const D: usize>(ids: Tensor<D, Int>) -> Option<CubeTensor> {
    let ids = ids.inner().flatten::<1>(0, D - 1).try_into_primitive::<Cube>().ok()?;
    Some(into_contiguous(if ids.dtype == DType::I32 { ids } else { cast(ids, DType::I32) }))
}

#[derive(Clone, Debug)]
struct Gather {
    ids: CubeTensor,
}

impl Fused<1, Cube> for Gather {
    /// The shape of the table.
    type Saved = [usize; 2];

    fn forward(&self, [table]: [CubeTensor; 1]) -> (CubeTensor, [usize; 2]) {
        let shape = [table.meta.shape()[0], table.meta.shape()[1]];
        (Cube::float_select(table, 0, self.ids.clone()), shape)
    }

    fn backward(self, shape: [usize; 2], gradient: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        [Some(sums_by_index(&into_contiguous(gradient), self.ids, shape, None))]
    }
}

/// Returns a table `[rows, width]` whose row v is the sum of the rows of `gradient` (`n * width` elements)
/// with index v, added to the `existing` table if it is given.
pub(super) fn sums_by_index(
    gradient: &CubeTensor,
    ids: CubeTensor,
    [rows, width]: [usize; 2],
    existing: Option<CubeTensor>,
) -> CubeTensor {
    let n = len(&ids);
    if rows <= FEW_ROWS && n > 0 && existing.is_none() {
        return sums_of_few(gradient, ids, [rows, width]);
    }
    let client = gradient.client.clone();
    let device = gradient.device.clone();
    // The zeros have one axis, because burn may pad the rows of a matrix.
    let zeros = || zeros_client(client.clone(), device.clone(), Shape::new([rows * width]), DType::F32);
    let table = existing.map_or_else(zeros, |table| writable(into_contiguous(table)));
    let table = into_contiguous(Cube::float_reshape(table, Shape::new([rows, width])));
    if n == 0 {
        return table;
    }
    let integers = |len: usize| empty_with(gradient, len, DType::U32);
    let order = integers(n);
    let ranks = integers(n.div_ceil(SEGMENT) * n);
    launch!(rank_kernel, &client, one_cube_per_row(n.div_ceil(SEGMENT) * n.div_ceil(UNITS as usize));
        ids.clone(), ranks.clone());
    launch!(order_kernel, &client, elementwise(n); ranks, order.clone());
    let blocks = n.div_ceil(BLOCK);
    let sums = empty_like(gradient, blocks * width);
    let vector = vector_size(width, gradient);
    launch!(block_kernel, &client, one_cube_per_row(blocks), vector;
        gradient.clone(), ids.clone(), order.clone(), sums.clone(); width / vector);
    launch!(table_kernel, &client, one_cube_per_row(n), vector;
        gradient.clone(), ids, order, sums, table.clone(); width / vector);
    table
}

/// Computes [`sums_by_index`] for a table with at most [`FEW_ROWS`] rows, with column sums for each row.
fn sums_of_few(gradient: &CubeTensor, ids: CubeTensor, [rows, width]: [usize; 2]) -> CubeTensor {
    let blocks = len(&ids).div_ceil(BLOCK);
    let sums = empty_like(gradient, blocks * rows * width);
    let vector = vector_size(width, gradient);
    launch!(few_kernel, &sums.client, elementwise(blocks * width / vector), vector;
        gradient.clone(), ids, sums.clone(); width / vector, rows);
    Cube::float_reshape(column_sums(sums, blocks, rows * width), Shape::new([rows, width]))
}

/// Adds up the rows of a block separately for each index.
#[cube(launch)]
fn few_kernel<N: Size>(
    gradient: &[Vector<f32, N>],
    ids: &[i32],
    sums: &mut [Vector<f32, N>],
    width: usize,
    #[comptime] rows: usize,
) {
    let column = ABSOLUTE_POS % width;
    let start = ABSOLUTE_POS / width * BLOCK;
    if start >= ids.len() {
        terminate!();
    }
    let mut totals = Array::<Vector<f32, N>>::new(rows);
    #[unroll]
    for row in 0..rows {
        totals[row] = Vector::new(0.0);
    }
    let mut place = start;
    let end = min(start + BLOCK, ids.len());
    while place < end {
        let value = gradient[place * width + column];
        #[unroll]
        for row in 0..rows {
            if ids[place] == row as i32 {
                totals[row] += value;
            }
        }
        place += 1;
    }
    #[unroll]
    for row in 0..rows {
        sums[(start / BLOCK * rows + row) * width + column] = totals[row];
    }
}

/// Counts, for each place, how many places of a segment come before it when sorted by index. The sort is
/// stable.
#[cube(launch)]
fn rank_kernel(ids: &[i32], ranks: &mut [u32]) {
    let n = ids.len();
    // All units of a cube work on the same segment, which they load together.
    let cubes = n.div_ceil(UNITS as usize);
    let start = CUBE_POS / cubes * SEGMENT;
    if start >= n {
        terminate!();
    }
    let end = min(start + SEGMENT, n);
    let mut segment = Shared::<[i32]>::new_slice(SEGMENT);
    let mut i = UNIT_POS as usize;
    while start + i < end {
        segment[i] = ids[start + i];
        i += UNITS as usize;
    }
    sync_cube();
    let place = CUBE_POS % cubes * UNITS as usize + UNIT_POS as usize;
    if place < n {
        let id = ids[place];
        let mut rank = 0u32.runtime();
        // The sort is stable: an equal index counts only if it is before the place.
        let split = clamp(place, start, end) - start;
        for other in 0..split {
            rank += u32::cast_from(segment[other] <= id);
        }
        for other in split..end - start {
            rank += u32::cast_from(segment[other] < id);
        }
        ranks[start / SEGMENT * n + place] = rank;
    }
}

/// Sorts the places by index.
#[cube(launch)]
fn order_kernel(ranks: &[u32], order: &mut [u32]) {
    let n = order.len();
    if ABSOLUTE_POS < n {
        let mut rank = 0u32.runtime();
        let mut i = ABSOLUTE_POS;
        while i < ranks.len() {
            rank += ranks[i];
            i += n;
        }
        order[rank as usize] = ABSOLUTE_POS as u32;
    }
}

/// Adds the leading rows of each sorted block that have the same index as its first row.
#[cube(launch)]
fn block_kernel<N: Size>(
    gradient: &[Vector<f32, N>],
    ids: &[i32],
    order: &[u32],
    sums: &mut [Vector<f32, N>],
    width: usize,
) {
    let start = CUBE_POS * BLOCK;
    if start >= order.len() {
        terminate!();
    }
    let end = min(start + BLOCK, order.len());
    let id = ids[order[start] as usize];
    let mut column = UNIT_POS as usize;
    while column < width {
        let mut sum = Vector::<f32, N>::new(0.0);
        let mut place = start;
        while place < end {
            let row = order[place] as usize;
            if ids[row] != id {
                break;
            }
            sum += gradient[row * width + column];
            place += 1;
        }
        sums[CUBE_POS * width + column] = sum;
        column += CUBE_DIM as usize;
    }
}

/// Adds all rows of an index to the table. The cube of the index's first sorted place does this; other cubes
/// do nothing.
#[cube(launch)]
fn table_kernel<N: Size>(
    gradient: &[Vector<f32, N>],
    ids: &[i32],
    order: &[u32],
    sums: &[Vector<f32, N>],
    table: &mut [Vector<f32, N>],
    width: usize,
) {
    let start = CUBE_POS;
    let n = order.len();
    if start >= n {
        terminate!();
    }
    let id = ids[order[start] as usize];
    let mut is_first = true.runtime();
    if start > 0 {
        is_first = ids[order[start - 1] as usize] != id;
    }
    if is_first {
        let end = min((start / BLOCK + 1) * BLOCK, n);
        let mut column = UNIT_POS as usize;
        while column < width {
            let mut sum = Vector::<f32, N>::new(0.0);
            let mut place = start;
            while place < end {
                let row = order[place] as usize;
                if ids[row] != id {
                    break;
                }
                sum += gradient[row * width + column];
                place += 1;
            }
            if place == end {
                let mut block = start / BLOCK + 1;
                while block * BLOCK < n {
                    if ids[order[block * BLOCK] as usize] != id {
                        break;
                    }
                    sum += sums[block * width + column];
                    block += 1;
                }
            }
            table[id as usize * width + column] += sum;
            column += CUBE_DIM as usize;
        }
    }
}
