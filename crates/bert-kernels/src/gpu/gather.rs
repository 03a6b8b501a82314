//! Rows of a table by index, and the gradient of the table: `dtable[v]` is the sum of the gradients of the rows with
//! index v, added in their order.
//!
//! burn's own gradient has one unit for each column, which walks through all indices. Here the indices are sorted first:
//! a row's place is the number of rows with a smaller index, or with the same index and an earlier place. Rows of one
//! index are then neighbours. Their sum has a fixed order: the rows up to the end of a block of [`BLOCK`] places, then
//! whole blocks, whose sums another kernel has computed. The gradient needs no atomics and no copy to the host.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Int, Shape, Tensor};
use burn_cubecl::kernel::cast;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, zeros_client};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{apply_inputs, elementwise, empty_like, input, into_contiguous, len, one_cube_per_row};
use crate::arguments::Kernels;
use crate::fused_op::Fused;

/// Places that one unit compares with a place.
const SEGMENT: usize = 512;

/// Sorted places of a block.
const BLOCK: usize = 32;

/// Returns the rows of a table with these indices, if the table is on a GPU.
///
/// # Shapes
/// - table: `[rows, width]`; ids: `[n]`
/// - output: `[n, width]`
pub(crate) fn gather(kernels: Kernels, table: Tensor<2>, ids: Tensor<1, Int>) -> Option<Tensor<2>> {
    if kernels == Kernels::Plain {
        return None;
    }
    let gather = Gather { ids: indices(ids)? };
    apply_inputs(gather, [input(table)])
}

/// Returns indices on a GPU as flat i32.
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
        [Some(sums_by_index(&into_contiguous(gradient), self.ids, shape))]
    }
}

/// Returns a table `[rows, width]` with the sum of the rows of `gradient`, `[n * width]`, that have the index of the row.
pub(crate) fn sums_by_index(gradient: &CubeTensor, ids: CubeTensor, [rows, width]: [usize; 2]) -> CubeTensor {
    let n = len(&ids);
    let client = gradient.client.clone();
    let device = gradient.device.clone();
    // Of one axis, because burn may put unused cells between the rows of a matrix.
    let table = zeros_client(client.clone(), device.clone(), Shape::new([rows * width]), DType::F32);
    let table = into_contiguous(Cube::float_reshape(table, Shape::new([rows, width])));
    if n == 0 {
        return table;
    }
    let integers = |len: usize| {
        empty_device_contiguous_dtype(client.clone(), device.clone(), Shape::new([len]), DType::U32)
    };
    let order = integers(n);
    let ranks = integers(n.div_ceil(SEGMENT) * n);
    let (count, dim) = elementwise(len(&ranks));
    rank_kernel::launch(&client, count, dim, ids.clone().into_buffer_arg(), ranks.clone().into_buffer_arg());
    let (count, dim) = elementwise(n);
    order_kernel::launch(&client, count, dim, ranks.into_buffer_arg(), order.clone().into_buffer_arg());
    let blocks = n.div_ceil(BLOCK);
    let sums = empty_like(gradient, blocks * width);
    let (count, dim) = one_cube_per_row(blocks);
    block_kernel::launch(
        &client,
        count,
        dim,
        gradient.clone().into_buffer_arg(),
        ids.clone().into_buffer_arg(),
        order.clone().into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        width,
    );
    let (count, dim) = one_cube_per_row(n);
    table_kernel::launch(
        &client,
        count,
        dim,
        gradient.clone().into_buffer_arg(),
        ids.into_buffer_arg(),
        order.into_buffer_arg(),
        sums.into_buffer_arg(),
        table.clone().into_buffer_arg(),
        width,
    );
    table
}

/// Counts, for each place, the places of each segment that come before it in the order by index. Places of one index keep
/// their order.
#[cube(launch)]
fn rank_kernel(ids: &[i32], ranks: &mut [u32]) {
    if ABSOLUTE_POS < ranks.len() {
        let place = ABSOLUTE_POS % ids.len();
        let id = ids[place];
        let mut rank = 0u32.runtime();
        let mut other = ABSOLUTE_POS / ids.len() * SEGMENT;
        let end = min(other + SEGMENT, ids.len());
        while other < end {
            if ids[other] < id || (ids[other] == id && other < place) {
                rank += 1;
            }
            other += 1;
        }
        ranks[ABSOLUTE_POS] = rank;
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

/// Adds the rows at the start of each block that have the index of its first row.
#[cube(launch)]
fn block_kernel(gradient: &[f32], ids: &[i32], order: &[u32], sums: &mut [f32], width: usize) {
    let start = CUBE_POS * BLOCK;
    if start >= order.len() {
        terminate!();
    }
    let end = min(start + BLOCK, order.len());
    let id = ids[order[start] as usize];
    let mut column = UNIT_POS as usize;
    while column < width {
        let mut sum = 0.0f32;
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

/// Adds all rows of the index that begins at a place.
#[cube(launch)]
fn table_kernel(gradient: &[f32], ids: &[i32], order: &[u32], sums: &[f32], table: &mut [f32], width: usize) {
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
            let mut sum = 0.0f32;
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
            table[id as usize * width + column] = sum;
            column += CUBE_DIM as usize;
        }
    }
}
