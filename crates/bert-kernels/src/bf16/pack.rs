//! Packs the factors of a bf16 product: rounds their elements, pairs them and lays them out for the registers.
//!
//! The lanes of a factor are the axis over which the product does not sum: the rows of a, the columns of b. A packed
//! word holds two bf16 numbers of one lane, at positions 2p and 2p + 1 along k. The code works on tiles of sixteen
//! lanes and sixteen pairs, which are read in the order of memory and transposed in registers if the [`Layout`] has the
//! other order. Elements outside the factor are zero.

use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Lanes of a panel of a.
pub(super) const A_LANES: usize = 8;
/// Lanes of a panel of b.
pub(super) const B_LANES: usize = 32;
/// Lanes of a register.
pub(super) const LANES: usize = 16;
/// Pairs of a tile; a packed block of k is padded to a multiple of it.
pub(super) const PAIRS: usize = 16;

/// How packed words follow one another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Panels `[pairs, 8 lanes]`.
    Narrow,
    /// Panels `[pairs, 32 lanes]`.
    Wide,
    /// Tiles `[16 lanes, 16 pairs]`, one group of sixteen lanes after another: the left factor of a tile product.
    Squares,
}

/// A stretch along k of one factor: element `(lane, k)` is at `lane * self.lane + k * self.step`.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) data: &'a [f32],
    pub(super) lane: usize,
    pub(super) step: usize,
    /// Number of lanes of the whole factor.
    pub(super) lanes: usize,
    pub(super) first: usize,
    pub(super) depth: usize,
}

impl Source<'_> {
    /// Pairs of a packed lane.
    pub(super) fn pairs(&self) -> usize {
        super::pairs(self.depth)
    }
}

/// Packs lanes starting at `first`, until `packed` is full.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) fn pack(source: Source, layout: Layout, first: usize, packed: &mut [u32]) {
    assert!(source.lane == 1 || source.step == 1, "one stride of a factor is 1");
    let (pairs, groups) = (source.pairs(), packed.len() / (source.pairs() * LANES));
    // Memory is read from end to end: all lanes of some pairs where lanes are adjacent, else all pairs of some lanes.
    let adjacent = source.lane == 1;
    let squares = pairs / PAIRS * groups;
    for index in 0..squares {
        let (pair, group) = match adjacent {
            true => (index / groups * PAIRS, index % groups),
            false => (index * PAIRS % pairs, index * PAIRS / pairs),
        };
        let rows = Rows::of_square(source, first + group * LANES, 2 * pair);
        #[expect(unsafe_code, reason = "a full square is read without looking at its borders")]
        // SAFETY: `FULL` is true only where `is_full` is.
        let square = unsafe {
            match (adjacent, rows.is_full(adjacent)) {
                (true, true) => side_by_side::<true>(&rows),
                (true, false) => side_by_side::<false>(&rows),
                (false, true) => one_after_another::<true>(&rows),
                (false, false) => one_after_another::<false>(&rows),
            }
        };
        // One holds a pair in each register, the other one a lane.
        let square = if adjacent == (layout == Layout::Squares) { transposed(square) } else { square };
        match layout {
            Layout::Squares => {
                let at = (group * pairs + pair) * LANES;
                for (to, words) in packed[at..].as_chunks_mut().0.iter_mut().zip(square) {
                    store(to, words);
                }
            }
            Layout::Wide => {
                let at = (group / 2 * pairs + pair) * B_LANES + group % 2 * LANES;
                for (to, words) in packed[at..].chunks_mut(B_LANES).zip(square) {
                    store(to.first_chunk_mut().expect("half a row of the panel"), words);
                }
            }
            Layout::Narrow => {
                let at = (2 * group * pairs + pair) * A_LANES;
                let (low, high) = packed[at..].split_at_mut(pairs * A_LANES);
                let halves = low.as_chunks_mut().0.iter_mut().zip(high.as_chunks_mut().0);
                for ((low, high), words) in halves.zip(square) {
                    store_half(low, _mm512_castsi512_si256(words));
                    store_half(high, _mm512_extracti64x4_epi64::<1>(words));
                }
            }
        }
    }
}

/// Lanes that lie side by side: a register for each pair.
///
/// # Safety
/// With `FULL` nothing of the square is outside the factor: [`Rows::is_full`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[expect(unsafe_code, reason = "a full square is read without looking at its borders")]
unsafe fn side_by_side<const FULL: bool>(rows: &Rows) -> [__m512i; PAIRS] {
    // 0, 16, 1, 17, ...: an element of the lower half, then its partner in the upper half.
    let order: [i16; 32] = std::array::from_fn(|i| (i / 2 + i % 2 * 16) as i16);
    let order = load(&bytemuck::cast(order));
    let mut square = [_mm512_setzero_si512(); PAIRS];
    for (i, pair) in square.iter_mut().enumerate() {
        rows.ask(2 * i, LANES);
        rows.ask(2 * i + 1, LANES);
        // SAFETY: the caller's promise, and places of the square.
        let (even, odd) = unsafe { (rows.at::<FULL>(2 * i, 0), rows.at::<FULL>(2 * i + 1, 0)) };
        *pair = _mm512_permutexvar_epi16(order, words(_mm512_cvtne2ps_pbh(odd, even)));
    }
    square
}

/// Lanes each of which lies in one piece: a register for each lane.
///
/// # Safety
/// As [`side_by_side`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[expect(unsafe_code, reason = "a full square is read without looking at its borders")]
unsafe fn one_after_another<const FULL: bool>(rows: &Rows) -> [__m512i; LANES] {
    let mut square = [_mm512_setzero_si512(); LANES];
    for (i, lane) in square.iter_mut().enumerate() {
        rows.ask(i, 2 * PAIRS);
        rows.ask(i, 2 * PAIRS + LANES);
        // SAFETY: the caller's promise, and places of the square.
        let (low, high) = unsafe { (rows.at::<FULL>(i, 0), rows.at::<FULL>(i, LANES)) };
        *lane = words(_mm512_cvtne2ps_pbh(high, low));
    }
    square
}

/// The square as it lies in memory, rows that are all inside of a slice: 32 places along k of up to 16 lanes side by
/// side, or 16 lanes of up to 32 places.
struct Rows<'a> {
    first: *const f32,
    stride: usize,
    rows: usize,
    masks: [__mmask16; 2],
    /// The slice that `first` points into.
    data: PhantomData<&'a [f32]>,
}

impl<'a> Rows<'a> {
    #[inline]
    fn of_square(source: Source<'a>, lane: usize, k: usize) -> Self {
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

    /// Whether nothing of the square is outside the factor.
    #[inline]
    fn is_full(&self, adjacent: bool) -> bool {
        match adjacent {
            true => self.rows == 2 * PAIRS && self.masks[0] == !0,
            false => self.rows == LANES && self.masks == [!0; 2],
        }
    }

    /// Sixteen numbers of a row, zeros beyond its end and beyond the last row.
    ///
    /// # Safety
    /// With `FULL`, [`Self::is_full`] holds and the place is one of the square.
    #[inline]
    #[target_feature(enable = "avx512f")]
    #[expect(unsafe_code, reason = "a full square is read without looking at its borders")]
    unsafe fn at<const FULL: bool>(&self, row: usize, column: usize) -> __m512 {
        let mask = match (FULL, row < self.rows) {
            (true, _) => !0,
            (false, true) => self.masks[column / LANES],
            (false, false) => 0,
        };
        // SAFETY: `of_square` found all rows inside the slice, whose elements the mask keeps to; what it leaves out is not
        // read. Nothing is left out of a full square.
        unsafe { _mm512_maskz_loadu_ps(mask, self.place(row, column)) }
    }

    /// Prefetches the element of the next tile at this position into the L1 cache.
    #[inline]
    fn ask(&self, row: usize, column: usize) {
        #[expect(unsafe_code, reason = "prefetching goes through pointers")]
        // SAFETY: to prefetch reads nothing, wherever it points.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(self.place(row, column).cast());
        }
    }

    #[inline]
    fn place(&self, row: usize, column: usize) -> *const f32 {
        self.first.wrapping_add(row.wrapping_mul(self.stride).wrapping_add(column))
    }
}

/// Sixteen rows of sixteen words as sixteen columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn transposed(rows: [__m512i; LANES]) -> [__m512i; LANES] {
    let (mut pairs, mut fours, mut columns) = (rows, rows, rows);
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

/// The lowest `len` of sixteen lanes.
#[inline]
pub(super) fn mask(len: usize) -> __mmask16 {
    if len >= LANES { !0 } else { (1 << len) - 1 }
}

/// At most sixteen numbers, then zeros.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_some(x: &[f32]) -> __m512 {
    #[expect(unsafe_code, reason = "masked loads go through pointers")]
    // SAFETY: the mask keeps within the slice.
    unsafe {
        _mm512_maskz_loadu_ps(mask(x.len()), x.as_ptr())
    }
}

// The unmasked loads and stores of `std::arch` go through memory where assertions are on; copies do not.

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u32; LANES]) -> __m512i {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types are 512 bits, of which any are valid.
    unsafe {
        std::mem::transmute(*words)
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [u32; LANES], words: __m512i) {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types are 512 bits, of which any are valid.
    unsafe {
        *to = std::mem::transmute::<__m512i, [u32; LANES]>(words);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_half(to: &mut [u32; A_LANES], words: __m256i) {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types are 256 bits, of which any are valid.
    unsafe {
        *to = std::mem::transmute::<__m256i, [u32; A_LANES]>(words);
    }
}

/// Words of two bf16 each as the type that the products take.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn bf16(words: __m512i) -> __m512bh {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types are 512 bits, of which any are valid.
    unsafe {
        std::mem::transmute(words)
    }
}

/// The inverse of [`bf16`].
#[inline]
#[target_feature(enable = "avx512f")]
fn words(bf16: __m512bh) -> __m512i {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types are 512 bits, of which any are valid.
    unsafe {
        std::mem::transmute(bf16)
    }
}
