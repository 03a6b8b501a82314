//! Packs the operands of a bf16 product: rounds their elements, pairs them and lays them out for the registers.
//!
//! The lanes of an operand are the rows of a or the columns of b; the product sums along the lanes. A packed
//! word holds two bf16 numbers of one lane, at positions 2p and 2p + 1 along k. The code packs tiles of
//! sixteen lanes and sixteen pairs. It reads a tile in the order of memory and transposes it in registers if
//! the [`Layout`] has the other order. Elements outside the operand are zero.

use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Number of lanes of a panel of a.
pub(crate) const A_LANES: usize = 8;
/// Number of lanes of a panel of b.
pub(crate) const B_LANES: usize = 32;
/// Number of lanes of a register.
pub(crate) const LANES: usize = 16;
/// Number of pairs of a tile. A packed k-block is padded to a multiple of this number.
pub(crate) const PAIRS: usize = 16;

/// The memory order of packed words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Panels `[pairs, 8 lanes]`.
    Narrow,
    /// Panels `[pairs, 32 lanes]`.
    Wide,
    /// Tiles `[16 lanes, 16 pairs]`, one group of sixteen lanes after another: the left operand of an AMX product.
    Tiles,
}

/// A k-block of one operand: its element `(lane, i)` is at `lane * self.lane + (self.first + i) * self.step` of `data`.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) data: &'a [f32],
    /// Stride between lanes.
    pub(crate) lane: usize,
    /// Stride along k.
    pub(crate) step: usize,
    /// Number of lanes of the whole operand.
    pub(crate) lanes: usize,
    /// Position along k of the first element.
    pub(crate) first: usize,
    /// Length of the k-block.
    pub(crate) depth: usize,
}

impl Source<'_> {
    /// Returns the number of pairs in a packed lane.
    pub(crate) fn pairs(&self) -> usize {
        pairs(self.depth)
    }
}

/// Packs lanes starting at `first`, until `packed` is full. Lanes and positions outside the operand become zeros.
///
/// # Panics
/// Panics if neither stride of the source is 1.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(crate) fn pack(source: Source, layout: Layout, first: usize, packed: &mut [u32]) {
    assert!(source.lane == 1 || source.step == 1, "one stride of a factor is 1");
    let pairs = source.pairs();
    let groups = packed.len() / (source.pairs() * LANES);
    // The order of the tiles follows memory: if lanes are adjacent, all lanes of sixteen pairs come first, otherwise
    // all pairs of sixteen lanes.
    let adjacent = source.lane == 1;
    let tiles = pairs / PAIRS * groups;
    for index in 0..tiles {
        let (pair, group) = if adjacent {
            (index / groups * PAIRS, index % groups)
        } else {
            (index * PAIRS % pairs, index * PAIRS / pairs)
        };
        let rows = Rows::in_tile(source, first + group * LANES, 2 * pair);
        #[expect(unsafe_code, reason = "a full tile is read without bounds checks")]
        // SAFETY: `FULL` is true only where `is_full` is.
        let tile = unsafe {
            match (adjacent, rows.is_full(adjacent)) {
                (true, true) => pack_adjacent_lanes::<true>(&rows),
                (true, false) => pack_adjacent_lanes::<false>(&rows),
                (false, true) => pack_contiguous_lanes::<true>(&rows),
                (false, false) => pack_contiguous_lanes::<false>(&rows),
            }
        };
        // Adjacent lanes give one register per pair, the others one register per lane.
        let tile = if adjacent == (layout == Layout::Tiles) { transposed(tile) } else { tile };
        match layout {
            Layout::Tiles => {
                let at = (group * pairs + pair) * LANES;
                for (to, words) in packed[at..].as_chunks_mut().0.iter_mut().zip(tile) {
                    store(to, words);
                }
            }
            Layout::Wide => {
                let at = (group / 2 * pairs + pair) * B_LANES + group % 2 * LANES;
                for (to, words) in packed[at..].chunks_mut(B_LANES).zip(tile) {
                    store(to.first_chunk_mut().expect("half a row of the panel"), words);
                }
            }
            Layout::Narrow => {
                let at = (2 * group * pairs + pair) * A_LANES;
                let (low, high) = packed[at..].split_at_mut(pairs * A_LANES);
                let halves = low.as_chunks_mut().0.iter_mut().zip(high.as_chunks_mut().0);
                for ((low, high), words) in halves.zip(tile) {
                    store_half(low, _mm512_castsi512_si256(words));
                    store_half(high, _mm512_extracti64x4_epi64::<1>(words));
                }
            }
        }
    }
}

/// Loads and rounds a tile whose lanes are adjacent in memory; returns one register per pair.
///
/// # Safety
/// With `FULL`, `rows.is_full(true)` must hold.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[expect(unsafe_code, reason = "a full tile is read without bounds checks")]
unsafe fn pack_adjacent_lanes<const FULL: bool>(rows: &Rows) -> [__m512i; PAIRS] {
    // The order 0, 16, 1, 17, ... takes an element of the lower half, then its partner in the upper half.
    let order: [i16; 32] = std::array::from_fn(|i| (i / 2 + i % 2 * 16) as i16);
    let order = load(&bytemuck::cast(order));
    let mut tile = [_mm512_setzero_si512(); PAIRS];
    for (i, pair) in tile.iter_mut().enumerate() {
        rows.prefetch(2 * i, LANES);
        rows.prefetch(2 * i + 1, LANES);
        // SAFETY: the caller promises that a `FULL` tile is full; both positions are in the tile.
        let (even, odd) = unsafe { (rows.load::<FULL>(2 * i, 0), rows.load::<FULL>(2 * i + 1, 0)) };
        *pair = _mm512_permutexvar_epi16(order, words(_mm512_cvtne2ps_pbh(odd, even)));
    }
    tile
}

/// Loads and rounds a tile whose lanes are contiguous along k; returns one register per lane.
///
/// # Safety
/// With `FULL`, `rows.is_full(false)` must hold.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[expect(unsafe_code, reason = "a full tile is read without bounds checks")]
unsafe fn pack_contiguous_lanes<const FULL: bool>(rows: &Rows) -> [__m512i; LANES] {
    let mut tile = [_mm512_setzero_si512(); LANES];
    for (i, lane) in tile.iter_mut().enumerate() {
        rows.prefetch(i, 2 * PAIRS);
        rows.prefetch(i, 2 * PAIRS + LANES);
        // SAFETY: the caller promises that a `FULL` tile is full; both positions are in the tile.
        let (low, high) = unsafe { (rows.load::<FULL>(i, 0), rows.load::<FULL>(i, LANES)) };
        *lane = words(_mm512_cvtne2ps_pbh(high, low));
    }
    tile
}

/// The memory rows of a tile, all inside one slice. If the lanes are adjacent, there are up to 32 rows, one
/// per position along k, with up to 16 lanes each. Otherwise, there are up to 16 rows, one per lane, with up
/// to 32 positions each.
struct Rows<'a> {
    first: *const f32,
    /// Distance between rows, in elements.
    stride: usize,
    /// Number of rows inside the operand.
    rows: usize,
    /// Masks of the elements of a row that are inside the operand: for the first and the second sixteen elements.
    masks: [__mmask16; 2],
    /// The slice that `first` points into.
    data: PhantomData<&'a [f32]>,
}

impl<'a> Rows<'a> {
    #[inline]
    fn in_tile(source: Source<'a>, lane: usize, k: usize) -> Self {
        let lanes = source.lanes.saturating_sub(lane).min(LANES);
        let depth = source.depth.saturating_sub(k).min(2 * PAIRS);
        let (rows, stride, width) =
            if source.lane == 1 { (depth, source.step, lanes) } else { (lanes, source.lane, depth) };
        if rows == 0 || width == 0 {
            return Self { first: source.data.as_ptr(), stride, rows: 0, masks: [0; 2], data: PhantomData };
        }
        let at = lane * source.lane + (source.first + k) * source.step;
        let all = &source.data[at..at + (rows - 1) * stride + width];
        let masks = [mask(width), mask(width.saturating_sub(LANES))];
        Self { first: all.as_ptr(), stride, rows, masks, data: PhantomData }
    }

    /// Returns whether the whole tile is inside the operand.
    #[inline]
    fn is_full(&self, adjacent: bool) -> bool {
        if adjacent {
            self.rows == 2 * PAIRS && self.masks[0] == !0
        } else {
            self.rows == LANES && self.masks == [!0; 2]
        }
    }

    /// Returns sixteen elements of a row; zeros outside the operand. `column` is 0 or 16.
    ///
    /// # Safety
    /// With `FULL`, [`Self::is_full`] must hold, and the sixteen elements must be in the tile.
    #[inline]
    #[target_feature(enable = "avx512f")]
    #[expect(unsafe_code, reason = "a full tile is read without bounds checks")]
    unsafe fn load<const FULL: bool>(&self, row: usize, column: usize) -> __m512 {
        let mask = match (FULL, row < self.rows) {
            (true, _) => !0,
            (false, true) => self.masks[column / LANES],
            (false, false) => 0,
        };
        // SAFETY: `in_tile` checked that all rows are inside the slice. The mask selects elements of these rows only,
        // and masked-out elements are not read. The mask of a full tile selects all elements, and all of them are
        // inside.
        unsafe { _mm512_maskz_loadu_ps(mask, self.address(row, column)) }
    }

    /// Prefetches the cache line of an element into the L1 cache. The callers pass columns after the end of
    /// the tile, which usually belong to the tile that is packed next.
    #[inline]
    fn prefetch(&self, row: usize, column: usize) {
        #[expect(unsafe_code, reason = "prefetching goes through pointers")]
        // SAFETY: a prefetch has no effect that the program can observe, for any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(self.address(row, column).cast());
        }
    }

    #[inline]
    fn address(&self, row: usize, column: usize) -> *const f32 {
        self.first.wrapping_add(row.wrapping_mul(self.stride).wrapping_add(column))
    }
}

/// Transposes a matrix of 16 x 16 words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn transposed(rows: [__m512i; LANES]) -> [__m512i; LANES] {
    let mut pairs = rows;
    let mut fours = rows;
    let mut columns = rows;
    for i in 0..LANES / 2 {
        pairs[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
    }
    for i in (0..LANES).step_by(4) {
        for j in 0..2 {
            fours[i + 2 * j] = _mm512_unpacklo_epi64(pairs[i + j], pairs[i + j + 2]);
            fours[i + 2 * j + 1] = _mm512_unpackhi_epi64(pairs[i + j], pairs[i + j + 2]);
        }
    }
    // Quarter q of fours[4 i + j] holds rows 4 i .. 4 i + 4 of column 4 q + j.
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    for j in 0..4 {
        let top = _mm512_shuffle_i32x4::<EVEN>(fours[j], fours[4 + j]);
        let end = _mm512_shuffle_i32x4::<EVEN>(fours[8 + j], fours[12 + j]);
        columns[j] = _mm512_shuffle_i32x4::<EVEN>(top, end);
        columns[8 + j] = _mm512_shuffle_i32x4::<ODD>(top, end);
        let top = _mm512_shuffle_i32x4::<ODD>(fours[j], fours[4 + j]);
        let end = _mm512_shuffle_i32x4::<ODD>(fours[8 + j], fours[12 + j]);
        columns[4 + j] = _mm512_shuffle_i32x4::<EVEN>(top, end);
        columns[12 + j] = _mm512_shuffle_i32x4::<ODD>(top, end);
    }
    columns
}

/// Returns the mask of the lowest `len` of sixteen lanes; of all lanes if `len` is greater.
#[inline]
pub(crate) fn mask(len: usize) -> __mmask16 {
    if len >= LANES { !0 } else { (1 << len) - 1 }
}

/// Loads up to sixteen numbers; the other lanes are zero.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_some(x: &[f32]) -> __m512 {
    #[expect(unsafe_code, reason = "masked loads go through pointers")]
    // SAFETY: the mask selects elements of the slice only.
    unsafe {
        _mm512_maskz_loadu_ps(mask(x.len()), x.as_ptr())
    }
}

// The next functions use `transmute`, because the unmasked loads and stores of `std::arch` copy the value through the
// stack in builds with debug assertions.

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u32; LANES]) -> __m512i {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types have 512 bits, and every bit pattern is valid.
    unsafe {
        std::mem::transmute(*words)
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [u32; LANES], words: __m512i) {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types have 512 bits, and every bit pattern is valid.
    unsafe {
        *to = std::mem::transmute::<__m512i, [u32; LANES]>(words);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_half(to: &mut [u32; A_LANES], words: __m256i) {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types have 256 bits, and every bit pattern is valid.
    unsafe {
        *to = std::mem::transmute::<__m256i, [u32; A_LANES]>(words);
    }
}

/// Casts words of two bf16 each to the type that the dot-product instruction takes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn bf16(words: __m512i) -> __m512bh {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types have 512 bits, and every bit pattern is valid.
    unsafe {
        std::mem::transmute(words)
    }
}

/// Casts pairs of bf16 numbers back to words; the inverse of [`bf16`].
#[inline]
#[target_feature(enable = "avx512f")]
fn words(bf16: __m512bh) -> __m512i {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types have 512 bits, and every bit pattern is valid.
    unsafe {
        std::mem::transmute(bf16)
    }
}

/// One k-block of both packed operands.
#[derive(Clone, Copy)]
pub(crate) struct KBlock<'a> {
    pub(super) a: &'a [u32],
    pub(super) b: &'a [u32],
    pub(super) pairs: usize,
}

impl<'a> KBlock<'a> {
    /// Returns the operands of one micro-tile of c: `rows` lanes of a from `row` on, and [`B_LANES`] lanes of b from
    /// `column` on.
    #[inline]
    pub(super) fn micro_tile(&self, row: usize, rows: usize, column: usize) -> (&'a [u32], &'a [u32]) {
        let Self { a, b, pairs } = self;
        (&a[row * pairs..(row + rows) * pairs], &b[column * pairs..(column + B_LANES) * pairs])
    }

    /// Returns the first or second half (`half` 0 or 1) of the panel of b that begins at `column`.
    #[inline]
    pub(super) fn half_panel(&self, column: usize, half: usize) -> &'a [u32] {
        let words = self.pairs * B_LANES / 2;
        &self.b[column * self.pairs + half * words..][..words]
    }
}

/// Returns the number of pairs in a k-block of length k.
pub(super) fn pairs(k: usize) -> usize {
    k.div_ceil(2).next_multiple_of(PAIRS)
}
