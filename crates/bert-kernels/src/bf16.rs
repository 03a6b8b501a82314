//! Matrix products in bf16 with sums in f32, by AMX tiles or by the AVX-512 BF16 instructions.
//!
//! [`multiply`] computes `c = a b` or `c = c + a b` for f32 matrices in strided slices. It rounds every element of a
//! and b to bf16 (to nearest, ties to even, subnormals to zero) and sums their products in f32 on the fastest [`Unit`]
//! of the processor: [`tiles`] if there are any, else [`registers`]. [`supported`] returns whether the processor has a
//! unit; without one [`multiply`] panics.
//!
//! The loops follow Goto and van de Geijn, "Anatomy of high-performance matrix multiplication": [`pack`] lays the
//! factors out in panels, and a unit computes a block of c in registers. A panel of b stays in the L1 cache, a block of
//! a in the L2 cache. A factor of several products can be [`Packed`] once for all of them.
//!
//! The unit adds the terms of an element in the order of k, 2 or 32 at a time, for any number of threads.

mod pack;
mod registers;
#[cfg(test)]
mod tests;
mod tiles;
mod unit;

use std::ops::Range;

use rayon::prelude::*;

use crate::matrix::{Matrix, Side, Threads};
use crate::pool::{Scratch, scratch, shared_scratch};
use pack::{B_LANES, Layout, Source};
use tiles::{SIDE, Term, Tiles};
use unit::{Kind, Unit};

/// Bytes of a that fit in an L1 cache of 48 KiB together with two panels of b, the current and the next one.
const FIRST_CACHE: usize = 16 << 10;
/// Maximum number of rows of a that are packed at once: 256 KiB of the L2 cache for each 512 of k.
const ROWS: usize = 256;
/// Columns of c that are finished before the next ones: with as many rows, 512 KiB of the L2 cache.
const COLUMNS: usize = 512;
/// Minimum number of rows per task, if the matrix has that many.
const FEWEST_ROWS: usize = 64;

/// Number of panels of b that a task packs.
const PANELS: usize = 4;

/// Returns whether the processor has the instructions.
pub(crate) fn supported() -> bool {
    Unit::best().is_some()
}

/// Returns whether products run on AMX tiles.
pub(crate) fn on_tiles() -> bool {
    Unit::of(Kind::Tiles).is_some()
}

/// Returns a block along k of a factor with `lanes` lanes.
fn source(side: Side, matrix: Matrix<'_>, lanes: usize, first: usize, depth: usize) -> Source<'_> {
    let (lane, step) = match side {
        Side::Left => (matrix.row, matrix.column),
        Side::Right => (matrix.column, matrix.row),
    };
    Source { data: matrix.data, lane, step, lanes, first, depth }
}

/// A factor in bf16, packed for products, one block along k after another.
pub(crate) struct Packed {
    words: Scratch,
    unit: Unit,
    side: Side,
    lanes: usize,
    k: usize,
    stretch: usize,
}

impl Packed {
    /// Creates a factor whose blocks of length `stretch` along k are written later ([`Self::stretches_mut`]).
    pub(crate) fn new(side: Side, lanes: usize, k: usize, stretch: usize) -> Self {
        Self::for_unit(Unit::best().expect(MISSING), Threads::All, side, lanes, k, stretch)
    }

    fn for_unit(unit: Unit, threads: Threads, side: Side, lanes: usize, k: usize, stretch: usize) -> Self {
        let pairs = k / stretch * pairs(stretch) + pairs(k % stretch);
        let words = pairs * lanes.next_multiple_of(SIDE);
        let words = match threads {
            Threads::One => scratch(words),
            Threads::All => shared_scratch(words),
        };
        Self { words, unit, side, lanes, k, stretch }
    }

    /// Packs a whole factor.
    pub(crate) fn whole(threads: Threads, side: Side, matrix: Matrix, lanes: usize, k: usize) -> Self {
        Self::whole_for(Unit::best().expect(MISSING), threads, side, matrix, lanes, k)
    }

    fn whole_for(unit: Unit, threads: Threads, side: Side, matrix: Matrix, lanes: usize, k: usize) -> Self {
        let stretch = unit.stretch(k);
        let mut packed = Self::for_unit(unit, threads, side, lanes, k, stretch);
        let words = packed.words_of_stretch();
        for (index, words) in packed.words.chunks_mut(words).enumerate() {
            let first = index * stretch;
            let source = source(side, matrix, lanes, first, stretch.min(k - first));
            pack_all((unit, threads), source, unit.layout(side), bytemuck::cast_slice_mut(words));
        }
        packed
    }

    /// Returns the blocks in order, each to be written by [`Filler::fill`].
    pub(crate) fn stretches_mut(&mut self) -> (Filler, impl IndexedParallelIterator<Item = &mut [f32]>) {
        let filler = Filler { unit: self.unit, side: self.side };
        let words = self.words_of_stretch();
        (filler, self.words.par_chunks_mut(words))
    }

    /// Returns the number of words of each block but the last; at least one.
    fn words_of_stretch(&self) -> usize {
        (pairs(self.stretch) * self.lanes.next_multiple_of(SIDE)).max(1)
    }

    /// Returns the words of one block.
    fn words(&self, index: usize) -> &[u32] {
        let lanes = self.lanes.next_multiple_of(SIDE);
        let from = index * pairs(self.stretch) * lanes;
        let depth = self.stretch.min(self.k - index * self.stretch);
        bytemuck::cast_slice(&self.words[from..from + pairs(depth) * lanes])
    }
}

/// Writes blocks of a [`Packed`] factor.
#[derive(Clone, Copy)]
pub(crate) struct Filler {
    unit: Unit,
    side: Side,
}

impl Filler {
    /// Writes some lanes of one block. `part` is the part of the factor with these lanes and this block; it is `k`
    /// long, and the lanes begin at a multiple of [`SIDE`].
    pub(crate) fn fill(self, stretch: &mut [f32], part: Matrix, lanes: Range<usize>, k: usize) {
        assert_eq!(lanes.start % SIDE, 0, "lanes within a panel");
        let pairs = pairs(k);
        let words = &mut stretch[lanes.start * pairs..][..lanes.len().next_multiple_of(SIDE) * pairs];
        let source = source(self.side, part, lanes.len(), 0, k);
        let layout = self.unit.layout(self.side);
        pack(self.unit, source, layout, 0, bytemuck::cast_slice_mut(words));
    }
}

/// Returns the number of pairs in a block of length k.
fn pairs(k: usize) -> usize {
    k.div_ceil(2).next_multiple_of(pack::PAIRS)
}

/// One factor of a product.
#[derive(Clone, Copy)]
pub(crate) enum Factor<'a> {
    /// A matrix that is packed for this product only.
    Plain(Matrix<'a>),
    /// A factor that was packed before.
    Packed(&'a Packed),
}

const MISSING: &str = "the processor has no AVX-512 BF16";

/// Computes `c = a b`, or `c = c + a b` with `add`, where c has `m` rows that are `c_row` apart, and `n` columns.
///
/// One stride of each plain factor has to be 1.
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
    let stretch = match (a, b) {
        (Factor::Plain(_), Factor::Plain(_)) => unit.stretch(k),
        (Factor::Packed(packed), Factor::Plain(_)) | (Factor::Plain(_), Factor::Packed(packed)) => {
            packed.stretch
        }
        (Factor::Packed(a), Factor::Packed(b)) => {
            assert_eq!(a.stretch, b.stretch, "factors packed for different products");
            a.stretch
        }
    };
    for (side, factor, lanes) in [(Side::Left, a, m), (Side::Right, b, n)] {
        if let Factor::Packed(packed) = factor {
            assert_eq!((packed.unit, packed.side, packed.lanes, packed.k), (unit, side, lanes, k));
        }
    }
    let packed = matches!((a, b), (Factor::Packed(_), Factor::Packed(_)));
    let rows = rows_per_task(threads, m, packed);
    // The number of blocks that are multiplied together, so that c is read and written less often.
    let together = (unit.depth() / stretch).max(1);
    // The number of blocks that a task handles at once. A plain factor is packed for these.
    let at_once = if packed { k.div_ceil(stretch).max(1) } else { together };
    let columns = n.next_multiple_of(B_LANES);
    let mut b_scratch = match b {
        Factor::Plain(_) => Some(scratch(pairs(stretch.min(k)) * at_once.min(k.div_ceil(stretch)) * columns)),
        Factor::Packed(_) => None,
    };
    for first in (0..k).step_by(at_once * stretch) {
        let parts: Vec<(usize, usize)> = (first..k.min(first + at_once * stretch))
            .step_by(stretch)
            .map(|first| (first, stretch.min(k - first)))
            .collect();
        let mut b_scratch: Option<&mut [u32]> =
            b_scratch.as_mut().map(|words| bytemuck::cast_slice_mut(words));
        let b_words: Vec<&[u32]> = parts
            .iter()
            .map(|&(first, depth)| match b {
                Factor::Packed(packed) => packed.words(first / stretch),
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
            let factors: Vec<Stretch> = parts
                .iter()
                .zip(&b_words)
                .map(|(&(first, depth), &b)| {
                    let pairs = pairs(depth);
                    let a = match a {
                        Factor::Packed(packed) => {
                            &packed.words(first / stretch)[top * pairs..][..lanes * pairs]
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
                    Stretch { a, b, pairs }
                })
                .collect();
            for left in (0..n).step_by(COLUMNS) {
                for (i, factors) in factors.chunks(together).enumerate() {
                    let columns = left..n.min(left + COLUMNS);
                    block(unit, height, columns, (&mut *c, c_row), add || i > 0, factors);
                }
            }
        });
    }
}

/// Packed parts of both factors.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    a: &'a [u32],
    b: &'a [u32],
    pairs: usize,
}

impl<'a> Stretch<'a> {
    /// Returns the lanes from `row` of a and from `column` of b on that form one block of c.
    #[inline]
    fn piece(&self, row: usize, rows: usize, column: usize) -> (&'a [u32], &'a [u32]) {
        let Self { a, b, pairs } = self;
        (&a[row * pairs..(row + rows) * pairs], &b[column * pairs..(column + B_LANES) * pairs])
    }

    /// Returns a half of the panel of b that begins at a column.
    #[inline]
    fn half_panel(&self, column: usize, half: usize) -> &'a [u32] {
        let words = self.pairs * B_LANES / 2;
        &self.b[column * self.pairs + half * words..][..words]
    }
}

fn pack(_: Unit, source: Source, layout: Layout, first: usize, packed: &mut [u32]) {
    #[expect(unsafe_code, reason = "a function for AVX-512 BF16, called where it was detected")]
    // SAFETY: a `Unit` exists only if the processor has these instructions.
    unsafe {
        pack::pack(source, layout, first, packed);
    }
}

/// Packs all lanes with [`pack`].
fn pack_all((unit, threads): (Unit, Threads), source: Source, layout: Layout, packed: &mut [u32]) {
    each(threads, packed, PANELS * source.pairs() * B_LANES, |(index, packed)| {
        pack(unit, source, layout, index * PANELS * B_LANES, packed);
    });
}

/// Computes some rows and columns of c, whose slice begins with the first column of all.
fn block(
    unit: Unit,
    rows: usize,
    columns: Range<usize>,
    c: (&mut [f32], usize),
    add: bool,
    factors: &[Stretch],
) {
    #[expect(unsafe_code, reason = "functions for AVX-512 BF16, called where it was detected")]
    // SAFETY: a `Unit` exists only if the processor has its instructions.
    unsafe {
        match unit.kind() {
            Kind::Registers => registers::block(rows, columns, c, add, factors),
            Kind::Tiles => tile_block(rows, columns, c, add, factors),
        }
    }
}

/// Computes [`block`] on tiles, for as many rows at a time as fit in the L1 cache while the panels of b pass through
/// it. The first two products of a panel prefetch one half of the next panel each.
#[target_feature(enable = "avx512f")]
fn tile_block(
    m: usize,
    columns: Range<usize>,
    (c, c_row): (&mut [f32], usize),
    add: bool,
    factors: &[Stretch],
) {
    let tiles = Tiles::configure();
    let bytes_of_row = factors.iter().map(|factors| size_of::<u32>() * factors.pairs).sum::<usize>();
    let rows = (FIRST_CACHE / bytes_of_row / SIDE * SIDE).max(SIDE);
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
                    let (a, b) = factors.piece(row, SIDE, column);
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

/// Rows of c, and of a, that one task takes: with factors that are there all threads as much, else a few tasks for each.
fn rows_per_task(threads: Threads, m: usize, packed: bool) -> usize {
    let rows = match threads {
        Threads::One => ROWS,
        Threads::All => {
            let threads = rayon::current_num_threads();
            let tasks = if packed { threads * m.div_ceil(threads * ROWS) } else { 4 * threads };
            m.div_ceil(tasks).clamp(FEWEST_ROWS, ROWS)
        }
    };
    rows.next_multiple_of(SIDE)
}

/// Does the work on every chunk, numbered, on one thread or all.
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
