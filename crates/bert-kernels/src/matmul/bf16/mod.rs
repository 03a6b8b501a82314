//! Matrix products in bf16 with sums in f32, by AMX tiles or by the AVX-512 BF16 instructions.
//!
//! [`multiply`] computes `c = a b` or `c = c + a b` for f32 matrices in strided slices. It rounds every
//! element of a and b to bf16 (to nearest, ties to even, subnormals to zero) and sums their products in f32
//! on the fastest [`Unit`] of the processor: AMX tiles ([`amx`]) if there are any, otherwise vector registers
//! ([`avx512`]). [`supported`] returns whether the processor has a unit; without one [`multiply`] panics.
//!
//! The loops follow Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): [`pack`] lays
//! the operands out in panels, and a unit computes a block of c in registers. A panel of b stays in the L1 cache, and a
//! block of a in the L2 cache. An operand of several products can be [`Packed`] once for all of them.
//!
//! The unit adds the terms of an element in the order of k, 2 or 32 at a time, for any number of threads.

pub(crate) mod amx;
pub(crate) mod avx512;
pub(crate) mod pack;
#[cfg(test)]
mod tests;
pub(crate) mod unit;

use std::ops::Range;

use pack::{B_LANES, KBlock, Layout, Source, pairs};
use rayon::prelude::*;
use unit::{Kind, Unit};

use crate::cpu::buffer_pool::{Scratch, scratch, shared_scratch};
use crate::matmul::bf16::amx::{SIDE, Term, TileRegisters};
use crate::matmul::matrix_view::{Gemm, MatmulContext, Matrix, MatrixMut, Side, Threads};

/// Number of bytes of a that fit in an L1 cache of 48 KiB next to two panels of b, the current and the next
/// one.
const L1_BYTES: usize = 16 << 10;
/// Maximum number of rows of a per task. Packed rows take 256 KiB of the L2 cache for each 512 elements along k.
const MAX_ROWS: usize = 256;
/// Number of columns of c that a task finishes before it starts the next ones. With [`MAX_ROWS`] rows of f32,
/// these columns take 512 KiB of the L2 cache.
const COLUMNS: usize = 512;
/// Minimum number of rows per task, if the matrix has that many.
const MIN_ROWS: usize = 64;

/// Number of panels of b that a task packs.
const PANELS: usize = 4;

/// Returns whether this processor has AVX-512 BF16, with or without AMX tiles.
pub(crate) fn supported() -> bool {
    Unit::best().is_some()
}

/// Returns whether products run on AMX tiles.
pub(crate) fn on_tiles() -> bool {
    Unit::new(Kind::Tiles).is_some()
}

/// Returns a k-block of an operand with `lanes` lanes. The block begins at `first` and has length `depth`.
fn source(side: Side, matrix: Matrix<'_>, lanes: usize, first: usize, depth: usize) -> Source<'_> {
    let (lane, step) = match side {
        Side::Left => (matrix.row, matrix.column),
        Side::Right => (matrix.column, matrix.row),
    };
    Source { data: matrix.data, lane, step, lanes, first, depth }
}

/// An operand in bf16, packed for products, one k-block after another.
pub(crate) struct Packed {
    words: Scratch,
    unit: Unit,
    shape: FactorShape,
    block_depth: usize,
}

/// The role and the sizes of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FactorShape {
    side: Side,
    /// Number of rows of the left operand, or of columns of the right one.
    lanes: usize,
    /// Length of a lane.
    k: usize,
}

impl Packed {
    /// Creates an operand whose k-blocks, `block_depth` long each, are filled later ([`Self::k_blocks_mut`]).
    pub(crate) fn new(side: Side, lanes: usize, k: usize, block_depth: usize) -> Self {
        let shape = FactorShape { side, lanes, k };
        Self::for_unit(Unit::best().expect(MISSING), Threads::All, shape, block_depth)
    }

    fn for_unit(unit: Unit, threads: Threads, shape: FactorShape, block_depth: usize) -> Self {
        let FactorShape { lanes, k, .. } = shape;
        let pairs = k / block_depth * pairs(block_depth) + pairs(k % block_depth);
        let words = pairs * lanes.next_multiple_of(SIDE);
        let words = match threads {
            Threads::One => scratch(words),
            Threads::All => shared_scratch(words),
        };
        Self { words, unit, shape, block_depth }
    }

    /// Packs a whole operand: `lanes` lanes of length `k`.
    pub(crate) fn whole(threads: Threads, side: Side, matrix: Matrix, lanes: usize, k: usize) -> Self {
        Self::whole_for(Unit::best().expect(MISSING), threads, FactorShape { side, lanes, k }, matrix)
    }

    fn whole_for(unit: Unit, threads: Threads, shape: FactorShape, matrix: Matrix) -> Self {
        let FactorShape { side, lanes, k } = shape;
        let block_depth = unit.block_depth(k);
        let mut packed = Self::for_unit(unit, threads, shape, block_depth);
        let words = packed.words_per_block();
        for (index, words) in packed.words.chunks_mut(words).enumerate() {
            let first = index * block_depth;
            let source = source(side, matrix, lanes, first, block_depth.min(k - first));
            pack_all(unit, threads, source, unit.layout(side), bytemuck::cast_slice_mut(words));
        }
        packed
    }

    /// Returns the k-blocks in order, to be filled.
    pub(crate) fn k_blocks_mut(&mut self) -> impl IndexedParallelIterator<Item = PackedBlock<'_>> {
        let unit = self.unit;
        let side = self.shape.side;
        let words = self.words_per_block();
        self.words.par_chunks_mut(words).map(move |words| PackedBlock { unit, side, words })
    }

    /// Returns the number of words of every k-block except the last; at least one.
    fn words_per_block(&self) -> usize {
        (pairs(self.block_depth) * self.shape.lanes.next_multiple_of(SIDE)).max(1)
    }

    /// Returns the words of one k-block.
    fn words(&self, index: usize) -> &[u32] {
        let lanes = self.shape.lanes.next_multiple_of(SIDE);
        let from = index * pairs(self.block_depth) * lanes;
        let depth = self.block_depth.min(self.shape.k - index * self.block_depth);
        bytemuck::cast_slice(&self.words[from..from + pairs(depth) * lanes])
    }
}

/// One k-block of a [`Packed`] operand, to be filled.
pub(crate) struct PackedBlock<'a> {
    unit: Unit,
    side: Side,
    words: &'a mut [f32],
}

impl PackedBlock<'_> {
    /// Writes some lanes of the block. `part` is the part of the operand with these lanes and this k-block, whose length
    /// is `k`.
    ///
    /// # Panics
    /// Panics if the first lane is not a multiple of [`SIDE`].
    pub(crate) fn fill(&mut self, part: Matrix, lanes: Range<usize>, k: usize) {
        assert_eq!(lanes.start % SIDE, 0, "lanes within a panel");
        let pairs = pairs(k);
        let words = &mut self.words[lanes.start * pairs..][..lanes.len().next_multiple_of(SIDE) * pairs];
        let source = source(self.side, part, lanes.len(), 0, k);
        let layout = self.unit.layout(self.side);
        pack(self.unit, source, layout, 0, bytemuck::cast_slice_mut(words));
    }
}

/// One operand of a product.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a> {
    /// A matrix that is packed for this product only.
    Plain(Matrix<'a>),
    /// An operand that is already packed.
    Packed(&'a Packed),
}

impl<'a> Operand<'a> {
    fn packed(self) -> Option<&'a Packed> {
        match self {
            Self::Plain(_) => None,
            Self::Packed(packed) => Some(packed),
        }
    }
}

const MISSING: &str = "the processor has no AVX-512 BF16";

/// Computes `c = a b`, or `c = c + a b`.
///
/// # Panics
/// Panics if a plain operand has no stride of 1, if a packed operand was packed for different sizes, or if
/// the processor lacks AVX-512 BF16.
pub(crate) fn multiply(ctx: MatmulContext, sizes: Gemm, c: MatrixMut, a: Operand, b: Operand) {
    Product::new(Unit::best().expect(MISSING), ctx.threads, sizes, a, b).run(c, ctx.adds);
}

/// A product of two operands on a unit.
struct Product<'a> {
    unit: Unit,
    threads: Threads,
    sizes: Gemm,
    a: Operand<'a>,
    b: Operand<'a>,
    /// Length of a k-block.
    block_depth: usize,
}

impl<'a> Product<'a> {
    fn new(unit: Unit, threads: Threads, sizes: Gemm, a: Operand<'a>, b: Operand<'a>) -> Self {
        for (side, factor, lanes) in [(Side::Left, a, sizes.m), (Side::Right, b, sizes.n)] {
            if let Some(packed) = factor.packed() {
                assert_eq!((packed.unit, packed.shape), (unit, FactorShape { side, lanes, k: sizes.k }));
            }
        }
        let depths = [a, b].map(|factor| factor.packed().map(|packed| packed.block_depth));
        let block_depth = match depths {
            [Some(a), Some(b)] => {
                assert_eq!(a, b, "factors packed for different products");
                a
            }
            [a, b] => a.or(b).unwrap_or_else(|| unit.block_depth(sizes.k)),
        };
        Self { unit, threads, sizes, a, b, block_depth }
    }

    fn run(&self, c: MatrixMut, add: bool) {
        let Gemm { m, n, k } = self.sizes;
        if m == 0 || n == 0 {
            return;
        }
        let c = MatrixMut::new(&mut c.data[..(m - 1) * c.row_stride + n], c.row_stride);
        if k == 0 && !add {
            c.data.chunks_mut(c.row_stride).for_each(|c| c[..n].fill(0.0));
        }
        let packed = self.a.packed().is_some() && self.b.packed().is_some();
        let rows = rows_per_task(self.threads, m, packed);
        // Unless both operands are packed already, a step covers the k-blocks of one pass, and only these are
        // packed at a time.
        let blocks_per_step = if packed { usize::MAX } else { self.blocks_per_pass() };
        let starts = (0..k).step_by(self.block_depth);
        let all: Vec<Range<usize>> = starts.map(|first| first..k.min(first + self.block_depth)).collect();
        let columns = n.next_multiple_of(B_LANES);
        for (step, ranges) in all.chunks(blocks_per_step).enumerate() {
            let mut room = self.room(self.b, ranges, columns);
            let b = self.k_blocks(Side::Right, ranges, 0..columns, room.as_mut(), |source, words| {
                pack_all(self.unit, self.threads, source, Layout::Wide, words);
            });
            let add = add || step > 0;
            each(self.threads, c.data, rows * c.row_stride, |(index, data)| {
                let c = MatrixMut::new(data, c.row_stride);
                let top = index * rows;
                self.multiply_rows(top..m.min(top + rows), c, add, ranges, &b);
            });
        }
    }

    /// Computes the given rows of c, with the k-blocks at `ranges`. The slice of c begins with the first of these rows.
    fn multiply_rows(
        &self,
        rows: Range<usize>,
        mut c: MatrixMut,
        add: bool,
        ranges: &[Range<usize>],
        b: &[&[u32]],
    ) {
        let top = rows.start;
        let lanes = rows.len().next_multiple_of(SIDE);
        let mut room = self.room(self.a, ranges, lanes);
        let a = self.k_blocks(Side::Left, ranges, top..top + lanes, room.as_mut(), |source, words| {
            pack(self.unit, source, self.unit.layout(Side::Left), top, words);
        });
        let blocks = ranges.iter().zip(a).zip(b);
        let factors: Vec<KBlock> =
            blocks.map(|((range, a), b)| KBlock { a, b, pairs: pairs(range.len()) }).collect();
        for left in (0..self.sizes.n).step_by(COLUMNS) {
            for (i, factors) in factors.chunks(self.blocks_per_pass()).enumerate() {
                let columns = left..self.sizes.n.min(left + COLUMNS);
                self.unit.block(rows.len(), columns, c.starting_at(0), add || i > 0, factors);
            }
        }
    }

    /// Returns the number of k-blocks that one pass over c multiplies. With several blocks per pass, c is
    /// read and written less often.
    fn blocks_per_pass(&self) -> usize {
        (self.unit.depth() / self.block_depth).max(1)
    }

    /// Returns a buffer for the k-blocks of a plain operand; `None` if the operand is already packed.
    fn room(&self, factor: Operand, ranges: &[Range<usize>], lanes: usize) -> Option<Scratch> {
        let words = ranges.iter().map(|range| pairs(range.len())).sum::<usize>() * lanes;
        factor.packed().is_none().then(|| scratch(words))
    }

    /// Returns the given lanes of the operand's k-blocks at `ranges`. `pack` packs each block of a plain
    /// operand into `room`.
    fn k_blocks<'b>(
        &self,
        side: Side,
        ranges: &[Range<usize>],
        lanes: Range<usize>,
        room: Option<&'b mut Scratch>,
        pack: impl Fn(Source, &mut [u32]),
    ) -> Vec<&'b [u32]>
    where
        'a: 'b,
    {
        let mut room: &mut [u32] = room.map_or(&mut [], |room| bytemuck::cast_slice_mut(room));
        let (factor, all_lanes) = match side {
            Side::Left => (self.a, self.sizes.m),
            Side::Right => (self.b, self.sizes.n),
        };
        let block = |range: &Range<usize>| {
            let pairs = pairs(range.len());
            match factor {
                Operand::Packed(packed) => {
                    &packed.words(range.start / self.block_depth)[lanes.start * pairs..lanes.end * pairs]
                }
                Operand::Plain(matrix) => {
                    let (words, rest) = std::mem::take(&mut room).split_at_mut(pairs * lanes.len());
                    room = rest;
                    pack(source(side, matrix, all_lanes, range.start, range.len()), words);
                    &*words
                }
            }
        };
        ranges.iter().map(block).collect()
    }
}

fn pack(_: Unit, source: Source, layout: Layout, first: usize, packed: &mut [u32]) {
    #[expect(unsafe_code, reason = "a function for AVX-512 BF16, called where it was detected")]
    // SAFETY: a `Unit` exists only if the processor has these instructions.
    unsafe {
        pack::pack(source, layout, first, packed);
    }
}

/// Packs all lanes with [`pack`], [`PANELS`] panels per task.
fn pack_all(unit: Unit, threads: Threads, source: Source, layout: Layout, packed: &mut [u32]) {
    each(threads, packed, PANELS * source.pairs() * B_LANES, |(index, packed)| {
        pack(unit, source, layout, index * PANELS * B_LANES, packed);
    });
}

impl Unit {
    /// Computes the given columns of the first `rows` rows of c. The slice of c begins with column 0.
    fn block(self, rows: usize, columns: Range<usize>, c: MatrixMut, add: bool, factors: &[KBlock]) {
        #[expect(unsafe_code, reason = "functions for AVX-512 BF16, called where it was detected")]
        // SAFETY: a `Unit` exists only if the processor has its instructions.
        unsafe {
            match self.kind() {
                Kind::Registers => avx512::block(rows, columns, c, add, factors),
                Kind::Tiles => tile_block(rows, columns, c, add, factors),
            }
        }
    }
}

/// Computes [`Unit::block`] on AMX tiles. The rows are split so that their part of a fits in the L1 cache while the
/// panels of b pass through it. The first two micro-tiles of a panel prefetch one half of the next panel each.
#[target_feature(enable = "avx512f")]
fn tile_block(m: usize, columns: Range<usize>, mut c: MatrixMut, add: bool, factors: &[KBlock]) {
    let tiles = TileRegisters::configure();
    let bytes_of_row = factors.iter().map(|factors| size_of::<u32>() * factors.pairs).sum::<usize>();
    let rows = (L1_BYTES / bytes_of_row / SIDE * SIDE).max(SIDE);
    let mut terms = Vec::with_capacity(factors.len());
    for top in (0..m).step_by(rows) {
        for column in columns.clone().step_by(SIDE) {
            let next = if column + SIDE < columns.end { column + SIDE } else { columns.start };
            for (half, row) in (top..m.min(top + rows)).step_by(SIDE).enumerate() {
                terms.clear();
                // Iterator adapters would not be inlined here. Their code would load sixteen bytes at once that were
                // stored eight bytes at a time, and such a load waits until all earlier stores, including the last
                // block of c, are in the cache.
                for factors in factors {
                    let (a, b) = factors.micro_tile(row, SIDE, column);
                    terms.push(Term::new(a, b, factors.half_panel(next, half.min(1))));
                }
                let c = c.starting_at(row * c.row_stride + column);
                let rows = (m - row).min(SIDE);
                let columns = (columns.end - column).min(SIDE);
                if (rows, columns) == (SIDE, SIDE) {
                    tiles.products(&terms, c, add);
                    continue;
                }
                let mut edge = [0.0; SIDE * SIDE];
                if add {
                    for (edge, c) in edge.chunks_mut(SIDE).zip(c.data.chunks(c.row_stride)).take(rows) {
                        edge[..columns].copy_from_slice(&c[..columns]);
                    }
                }
                tiles.products(&terms, MatrixMut::new(&mut edge, SIDE), add);
                for (edge, c) in edge.chunks(SIDE).zip(c.data.chunks_mut(c.row_stride)).take(rows) {
                    c[..columns].copy_from_slice(&edge[..columns]);
                }
            }
        }
    }
}

/// Returns the number of rows of c, and of a, per task: equal shares for all threads if both operands are packed,
/// otherwise a quarter of a thread's share. The number lies between [`MIN_ROWS`] and [`MAX_ROWS`], and is a multiple of
/// [`SIDE`].
fn rows_per_task(threads: Threads, m: usize, packed: bool) -> usize {
    let rows = match threads {
        Threads::One => MAX_ROWS,
        Threads::All => {
            let threads = rayon::current_num_threads();
            let tasks = if packed { threads * m.div_ceil(threads * MAX_ROWS) } else { 4 * threads };
            m.div_ceil(tasks).clamp(MIN_ROWS, MAX_ROWS)
        }
    };
    rows.next_multiple_of(SIDE)
}

/// Calls `work` with every chunk and its index, on one thread or on all.
fn each<T: Send>(
    threads: Threads,
    items: &mut [T],
    chunk: usize,
    work: impl Fn((usize, &mut [T])) + Sync + Send,
) {
    match threads {
        Threads::One => items.chunks_mut(chunk).enumerate().for_each(work),
        Threads::All => items.par_chunks_mut(chunk).enumerate().for_each(work),
    }
}
