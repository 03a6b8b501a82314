//! The plan of an attention kernel: the sizes of its blocks and of its shared memory, and the layouts of its
//! products.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::sums::{Layout, Product, Workers};
use crate::gpu::element;
use crate::gpu::lanes::Lanes;
use crate::gpu::strategy::{ATTENTION, Blocks};

/// Number of columns of a head.
pub(super) const HEAD: usize = 64;
/// Maximum number of vectors of scores that a unit keeps in registers.
pub(super) const VECTORS: usize = 8;
/// The sizes and layouts that a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    pub(super) blocks: Blocks,
    pub(super) workers: Workers,
    /// Number of adjacent elements that are read at once.
    pub(super) vector: usize,
    /// The units that share a row of scores.
    pub(super) lanes: Lanes,
}

impl Plan {
    /// Returns a plan with the first sizes in [`ATTENTION`] that the device can run, or `None` if it can run
    /// none; `pass` is 0 for the forward and 1 for the backward pass.
    pub(super) fn new(x: &CubeTensor, pass: usize) -> Option<Self> {
        let hardware = &x.client.properties().hardware;
        let workers = Workers::new(&x.client, element(x));
        let vector = if workers.has_matrix_units() { 16 / x.dtype.size() } else { 1 };
        ATTENTION.iter().map(|blocks| blocks[pass]).find_map(|blocks| {
            let Blocks { queries, keys, units } = blocks;
            let lanes = Lanes::for_cube(&x.client, keys / vector, [units / queries, units].map(|n| n as u32));
            let plan = Self { blocks, workers, vector, lanes };
            let shapes = [[queries, keys], [queries, HEAD], [keys, HEAD]];
            let fits = shapes.iter().all(|&shape| workers.tiles(shape, units).is_some())
                && (keys / vector).is_multiple_of(lanes.count as usize)
                && lanes.vectors <= VECTORS
                && units <= hardware.max_units_per_cube as usize
                && plan.bytes(pass + 1, x.dtype.size()) <= hardware.max_shared_memory_size;
            fits.then_some(plan)
        })
    }

    /// Returns the bytes of shared memory that a cube needs with `blocks` blocks of queries and equally many
    /// of probabilities. `factor` is the size of an operand's element in bytes.
    pub(super) fn bytes(self, blocks: usize, factor: usize) -> usize {
        let Blocks { queries, keys, units } = self.blocks;
        let rows = 2 * keys + blocks * queries;
        let factors = rows * self.stride(HEAD) + blocks * queries * self.stride(keys);
        factors * factor + 4 * (queries * self.row() + keys + 2 * units)
    }

    pub(super) fn dim(self) -> CubeDim {
        CubeDim::new_2d(self.lanes.count, self.blocks.queries as u32)
    }

    /// Returns the distance between rows of an operand in shared memory. It is not a power of two: with such
    /// a distance, all rows would start in the same memory bank.
    pub(super) fn stride(self, columns: usize) -> usize {
        columns + self.vector
    }

    /// Returns the distance between rows of scores in shared memory.
    pub(super) fn row(self) -> usize {
        self.stride(self.blocks.keys.max(HEAD))
    }

    pub(super) fn layout(self, columns: usize, transposed: bool) -> Layout {
        Layout { stride: self.stride(columns), transposed }
    }

    /// Returns the layouts for the product of queries and keys, and of the context's gradient and the values.
    pub(super) fn for_scores(self) -> Product {
        Product { left: self.layout(HEAD, false), right: self.layout(HEAD, true), depth: HEAD }
    }

    /// Returns the layouts for the product of probabilities and values, and of the gradient of the scores and
    /// the keys.
    pub(super) fn for_queries(self) -> Product {
        let Blocks { keys, .. } = self.blocks;
        Product { left: self.layout(keys, false), right: self.layout(HEAD, false), depth: keys }
    }

    /// Returns the layouts for the product of the transposed gradient of the scores and the queries, and of
    /// the transposed probabilities and the context's gradient.
    pub(super) fn for_keys(self) -> Product {
        let Blocks { queries, keys, .. } = self.blocks;
        Product { left: self.layout(keys, true), right: self.layout(HEAD, false), depth: queries }
    }
}
