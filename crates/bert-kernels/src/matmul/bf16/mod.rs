//! Matrix products in bf16 with sums in f32, by AMX tiles or by the AVX-512 BF16 instructions.
//!
//! [`multiply`] computes `c = a b` or `c = c + a b` for f32 matrices in strided slices. It rounds every element of a
//! and b to bf16 (to nearest, ties to even, subnormals to zero) and sums their products in f32 on the fastest [`Unit`]
//! of the processor: [`tiles`] if there are any, else [`registers`]. [`supported`] returns whether the processor has a
//! unit; without one [`multiply`] panics.
//!
//! The loops follow Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): [`pack`] lays
//! the factors out in panels, and a unit computes a block of c in registers. A panel of b stays in the L1 cache, a
//! block of a in the L2 cache. A factor of several products can be [`Packed`] once for all of them.
//!
//! The unit adds the terms of an element in the order of k, 2 or 32 at a time, for any number of threads.

pub(crate) mod amx;
pub(crate) mod avx512;
mod pack;
#[cfg(test)]
mod tests;
mod unit;

use std::ops::Range;

use rayon::prelude::*;

use crate::cpu::buffer_pool::{Scratch, scratch, shared_scratch};
use crate::matmul::bf16::amx::{SIDE, Term, TileRegisters};
use crate::matmul::matrix_view::{Matrix, Side, Threads};
use pack::{B_LANES, KBlock, Layout, Source};
use unit::{Kind, Unit};

/// Bytes of a that fit in an L1 cache of 48 KiB next to two panels of b, the current and the next one.
const L1_BYTES: usize = 16 << 10;
/// Maximum number of rows of a per task. Packed, they take 256 KiB of the L2 cache for each 512 of k.
const MAX_ROWS: usize = 256;
/// Columns of c that a task finishes before it starts the next ones. With [`MAX_ROWS`] rows of f32 they take 512 KiB of
/// the L2 cache.
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

/// Returns the k-block of a factor with `lanes` lanes that begins at `first` and is `depth` long.
fn source(side: Side, matrix: Matrix<'_>, lanes: usize, first: usize, depth: usize) -> Source<'_> {
    let (lane, step) = match side {
        Side::Left => (matrix.row, matrix.column),
        Side::Right => (matrix.column, matrix.row),
    };
    Source { data: matrix.data, lane, step, lanes, first, depth }
}

/// A factor in bf16, packed for products, one k-block after another.
pub(crate) struct Packed {
    words: Scratch,
    unit: Unit,
    side: Side,
    lanes: usize,
    k: usize,
    block_depth: usize,
}

impl Packed {
    /// Creates a factor whose k-blocks, `block_depth` long each, are written later ([`Self::k_blocks_mut`]).
    pub(crate) fn new(side: Side, lanes: usize, k: usize, block_depth: usize) -> Self {
        Self::for_unit(Unit::best().expect(MISSING), Threads::All, side, lanes, k, block_depth)
    }

    fn for_unit(
        unit: Unit,
        threads: Threads,
        side: Side,
        lanes: usize,
        k: usize,
        block_depth: usize,
    ) -> Self {
        let pairs = k / block_depth * pairs(block_depth) + pairs(k % block_depth);
        let words = pairs * lanes.next_multiple_of(SIDE);
        let words = match threads {
            Threads::One => scratch(words),
            Threads::All => shared_scratch(words),
        };
        Self { words, unit, side, lanes, k, block_depth }
    }

    /// Packs a whole factor: `lanes` lanes of length `k`.
    pub(crate) fn whole(threads: Threads, side: Side, matrix: Matrix, lanes: usize, k: usize) -> Self {
        Self::whole_for(Unit::best().expect(MISSING), threads, side, matrix, lanes, k)
    }

    fn whole_for(unit: Unit, threads: Threads, side: Side, matrix: Matrix, lanes: usize, k: usize) -> Self {
        let block_depth = unit.block_depth(k);
        let mut packed = Self::for_unit(unit, threads, side, lanes, k, block_depth);
        let words = packed.words_per_block();
        for (index, words) in packed.words.chunks_mut(words).enumerate() {
            let first = index * block_depth;
            let source = source(side, matrix, lanes, first, block_depth.min(k - first));
            pack_all((unit, threads), source, unit.layout(side), bytemuck::cast_slice_mut(words));
        }
        packed
    }

    /// Returns the k-blocks in order, each to be written by [`Filler::fill`].
    pub(crate) fn k_blocks_mut(&mut self) -> (Filler, impl IndexedParallelIterator<Item = &mut [f32]>) {
        let filler = Filler { unit: self.unit, side: self.side };
        let words = self.words_per_block();
        (filler, self.words.par_chunks_mut(words))
    }

    /// Returns the number of words of every k-block except the last; at least one.
    fn words_per_block(&self) -> usize {
        (pairs(self.block_depth) * self.lanes.next_multiple_of(SIDE)).max(1)
    }

    /// Returns the words of one k-block.
    fn words(&self, index: usize) -> &[u32] {
        let lanes = self.lanes.next_multiple_of(SIDE);
        let from = index * pairs(self.block_depth) * lanes;
        let depth = self.block_depth.min(self.k - index * self.block_depth);
        bytemuck::cast_slice(&self.words[from..from + pairs(depth) * lanes])
    }
}

/// Writes k-blocks of a [`Packed`] factor.
#[derive(Clone, Copy)]
pub(crate) struct Filler {
    unit: Unit,
    side: Side,
}

impl Filler {
    /// Writes some lanes of one k-block. `part` is the part of the factor with these lanes and this k-block; it is `k`
    /// long.
    ///
    /// # Panics
    ///
    /// If the first lane is not a multiple of [`SIDE`].
    pub(crate) fn fill(self, block: &mut [f32], part: Matrix, lanes: Range<usize>, k: usize) {
        assert_eq!(lanes.start % SIDE, 0, "lanes within a panel");
        let pairs = pairs(k);
        let words = &mut block[lanes.start * pairs..][..lanes.len().next_multiple_of(SIDE) * pairs];
        let source = source(self.side, part, lanes.len(), 0, k);
        let layout = self.unit.layout(self.side);
        pack(self.unit, source, layout, 0, bytemuck::cast_slice_mut(words));
    }
}

/// Returns the number of pairs in a k-block of length k.
fn pairs(k: usize) -> usize {
    k.div_ceil(2).next_multiple_of(pack::PAIRS)
}

/// One factor of a product.
#[derive(Clone, Copy)]
pub(crate) enum Factor<'a> {
    /// A matrix that is packed for this product only.
    Plain(Matrix<'a>),
    /// A factor that is already packed.
    Packed(&'a Packed),
}

const MISSING: &str = "the processor has no AVX-512 BF16";

/// Computes `c = a b`, or `c = c + a b` with `add`, where c has `m` rows that are `c_row` apart, and `n` columns.
///
/// # Panics
///
/// If no stride of a plain factor is 1, if a packed factor was packed for other sizes, or without AVX-512 BF16.
pub(crate) fn multiply(
    threads: Threads,
    sizes: (usize, usize, usize),
    c: (&mut [f32], usize),
    add: bool,
    a: Factor,
    b: Factor,
) {
    multiply_by(Unit::best().expect(MISSING), threads, sizes, c, add, a, b);
}

fn multiply_by(
    unit: Unit,
    threads: Threads,
    (m, n, k): (usize, usize, usize),
    (c, c_row): (&mut [f32], usize),
    add: bool,
    a: Factor,
    b: Factor,
) {
    if m == 0 || n == 0 {
        return;
    }
    let c = &mut c[..(m - 1) * c_row + n];
    if k == 0 && !add {
        c.chunks_mut(c_row).for_each(|c| c[..n].fill(0.0));
    }
    let block_depth = match (a, b) {
        (Factor::Plain(_), Factor::Plain(_)) => unit.block_depth(k),
        (Factor::Packed(packed), Factor::Plain(_)) | (Factor::Plain(_), Factor::Packed(packed)) => {
            packed.block_depth
        }
        (Factor::Packed(a), Factor::Packed(b)) => {
            assert_eq!(a.block_depth, b.block_depth, "factors packed for different products");
            a.block_depth
        }
    };
    for (side, factor, lanes) in [(Side::Left, a, m), (Side::Right, b, n)] {
        if let Factor::Packed(packed) = factor {
            assert_eq!((packed.unit, packed.side, packed.lanes, packed.k), (unit, side, lanes, k));
        }
    }
    let packed = matches!((a, b), (Factor::Packed(_), Factor::Packed(_)));
    let rows = rows_per_task(threads, m, packed);
    // The number of k-blocks that are multiplied per pass over c, so that c is read and written less often.
    let blocks_per_pass = (unit.depth() / block_depth).max(1);
    // The number of k-blocks per step of the loop below. A plain factor is packed for these k-blocks only.
    let blocks_per_step = if packed { k.div_ceil(block_depth).max(1) } else { blocks_per_pass };
    let columns = n.next_multiple_of(B_LANES);
    let mut b_scratch = match b {
        Factor::Plain(_) => {
            Some(scratch(pairs(block_depth.min(k)) * blocks_per_step.min(k.div_ceil(block_depth)) * columns))
        }
        Factor::Packed(_) => None,
    };
    for first in (0..k).step_by(blocks_per_step * block_depth) {
        let parts: Vec<(usize, usize)> = (first..k.min(first + blocks_per_step * block_depth))
            .step_by(block_depth)
            .map(|first| (first, block_depth.min(k - first)))
            .collect();
        let mut b_scratch: Option<&mut [u32]> =
            b_scratch.as_mut().map(|words| bytemuck::cast_slice_mut(words));
        let b_words: Vec<&[u32]> = parts
            .iter()
            .map(|&(first, depth)| match b {
                Factor::Packed(packed) => packed.words(first / block_depth),
                Factor::Plain(matrix) => {
                    let all = b_scratch.take().expect("room for a plain factor");
                    let (words, rest) = all.split_at_mut(pairs(depth) * columns);
                    b_scratch = Some(rest);
                    let source = source(Side::Right, matrix, n, first, depth);
                    pack_all((unit, threads), source, Layout::Wide, words);
                    &*words
                }
            })
            .collect();
        let add = add || first > 0;
        each(threads, c, rows * c_row, |(index, c)| {
            let top = index * rows;
            let height = rows.min(m - top);
            let lanes = height.next_multiple_of(SIDE);
            let all_pairs = parts.iter().map(|(_, depth)| pairs(*depth)).sum::<usize>();
            let mut a_scratch = match a {
                Factor::Plain(_) => Some(scratch(all_pairs * lanes)),
                Factor::Packed(_) => None,
            };
            let mut room: Option<&mut [u32]> =
                a_scratch.as_mut().map(|words| bytemuck::cast_slice_mut(words));
            let factors: Vec<KBlock> = parts
                .iter()
                .zip(&b_words)
                .map(|(&(first, depth), &b)| {
                    let pairs = pairs(depth);
                    let a = match a {
                        Factor::Packed(packed) => {
                            &packed.words(first / block_depth)[top * pairs..][..lanes * pairs]
                        }
                        Factor::Plain(matrix) => {
                            let all = room.take().expect("room for a plain factor");
                            let (words, rest) = all.split_at_mut(pairs * lanes);
                            room = Some(rest);
                            pack(
                                unit,
                                source(Side::Left, matrix, m, first, depth),
                                unit.layout(Side::Left),
                                top,
                                words,
                            );
                            &*words
                        }
                    };
                    KBlock { a, b, pairs }
                })
                .collect();
            for left in (0..n).step_by(COLUMNS) {
                for (i, factors) in factors.chunks(blocks_per_pass).enumerate() {
                    let columns = left..n.min(left + COLUMNS);
                    block(unit, height, columns, (&mut *c, c_row), add || i > 0, factors);
                }
            }
        });
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
fn pack_all((unit, threads): (Unit, Threads), source: Source, layout: Layout, packed: &mut [u32]) {
    each(threads, packed, PANELS * source.pairs() * B_LANES, |(index, packed)| {
        pack(unit, source, layout, index * PANELS * B_LANES, packed);
    });
}

/// Computes the given columns of the first `rows` rows of c. The slice begins with column 0 of c.
fn block(
    unit: Unit,
    rows: usize,
    columns: Range<usize>,
    c: (&mut [f32], usize),
    add: bool,
    factors: &[KBlock],
) {
    #[expect(unsafe_code, reason = "functions for AVX-512 BF16, called where it was detected")]
    // SAFETY: a `Unit` exists only if the processor has its instructions.
    unsafe {
        match unit.kind() {
            Kind::Registers => avx512::block(rows, columns, c, add, factors),
            Kind::Tiles => tile_block(rows, columns, c, add, factors),
        }
    }
}

/// Computes [`block`] on AMX tiles. The rows are split so that their part of a fits in the L1 cache while the panels of
/// b pass through it. The first two micro-tiles of a panel prefetch one half of the next panel each.
#[target_feature(enable = "avx512f")]
fn tile_block(
    m: usize,
    columns: Range<usize>,
    (c, c_row): (&mut [f32], usize),
    add: bool,
    factors: &[KBlock],
) {
    let tiles = TileRegisters::configure();
    let bytes_of_row = factors.iter().map(|factors| size_of::<u32>() * factors.pairs).sum::<usize>();
    let rows = (L1_BYTES / bytes_of_row / SIDE * SIDE).max(SIDE);
    let mut terms = Vec::with_capacity(factors.len());
    for top in (0..m).step_by(rows) {
        for column in columns.clone().step_by(SIDE) {
            let next = if column + SIDE < columns.end { column + SIDE } else { columns.start };
            for (half, row) in (top..m.min(top + rows)).step_by(SIDE).enumerate() {
                terms.clear();
                // Iterator adapters would not be inlined here. They would load sixteen bytes that were stored eight at
                // a time, and such a load waits until all earlier stores, including the last block of c, are in the
                // cache.
                for factors in factors {
                    let (a, b) = factors.micro_tile(row, SIDE, column);
                    terms.push(Term::new(a, b, factors.half_panel(next, half.min(1))));
                }
                let c = &mut c[row * c_row + column..];
                let (rows, columns) = ((m - row).min(SIDE), (columns.end - column).min(SIDE));
                if (rows, columns) == (SIDE, SIDE) {
                    tiles.products(&terms, (c, c_row), add);
                    continue;
                }
                let mut edge = [0.0; SIDE * SIDE];
                if add {
                    for (edge, c) in edge.chunks_mut(SIDE).zip(c.chunks(c_row)).take(rows) {
                        edge[..columns].copy_from_slice(&c[..columns]);
                    }
                }
                tiles.products(&terms, (&mut edge, SIDE), add);
                for (edge, c) in edge.chunks(SIDE).zip(c.chunks_mut(c_row)).take(rows) {
                    c[..columns].copy_from_slice(&edge[..columns]);
                }
            }
        }
    }
}

/// Returns the number of rows of c, and of a, per task: equal shares for all threads if both factors are packed, else a
/// quarter of a thread's share. It is a multiple of [`SIDE`].
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
