//! Packs the factors of a bf16 product: rounds their elements, pairs them and lays them out for the registers.
//!
//! The lanes of a factor are the axis over which the product does not sum: the rows of a, the columns of b. A packed
//! word holds two bf16 numbers of one lane, those at places 2p and 2p + 1 along k. The work goes by squares of
//! sixteen lanes and sixteen pairs, which are read in the order of memory and transposed in registers where the
//! [`Layout`] wants the other order. What lies outside the factor is zero.

use std::arch::x86_64::*;

/// Lanes of a panel of a.
pub(super) const A_LANES: usize = 8;
/// Lanes of a panel of b.
pub(super) const B_LANES: usize = 32;
/// Lanes of a register.
pub(super) const LANES: usize = 16;
/// Pairs of a square, to a multiple of which a packed stretch of k is filled up.
pub(super) const PAIRS: usize = 16;

/// How packed words follow one another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Panels `[pairs, 8 lanes]`.
    Narrow,
    /// Panels `[pairs, 32 lanes]`.
    Wide,
    /// Squares `[16 lanes, 16 pairs]`, those of sixteen lanes one after the other: the left factor of a tile product.
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

/// Packs lanes from `first` on, until `packed` is full.
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
        let lane = first + group * LANES;
        let count = source.lanes.saturating_sub(lane).min(LANES);
        let square = match adjacent {
            true => side_by_side(source, lane, count, 2 * pair),
            false => one_after_another(source, lane, count, 2 * pair),
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

/// `count` lanes that lie side by side: a register for each pair.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn side_by_side(source: Source, lane: usize, count: usize, k: usize) -> [__m512i; PAIRS] {
    // 0, 16, 1, 17, ...: an element of the lower half, then its partner in the upper half.
    let order: [i16; 32] = std::array::from_fn(|i| (i / 2 + i % 2 * 16) as i16);
    let order = load(&bytemuck::cast(order));
    let mut square = [_mm512_setzero_si512(); PAIRS];
    let depth = source.depth.saturating_sub(k).min(2 * PAIRS);
    let rows = Rows::new(source, (source.first + k) * source.step + lane, source.step, depth, count);
    for (i, pair) in square.iter_mut().enumerate().take(depth.div_ceil(2)) {
        *pair = _mm512_permutexvar_epi16(
            order,
            words(_mm512_cvtne2ps_pbh(rows.at(2 * i + 1, 0), rows.at(2 * i, 0))),
        );
    }
    square
}

/// `count` lanes each of which lies in one piece: a register for each lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn one_after_another(source: Source, lane: usize, count: usize, k: usize) -> [__m512i; LANES] {
    let mut square = [_mm512_setzero_si512(); LANES];
    let depth = source.depth.saturating_sub(k).min(2 * PAIRS);
    let rows = Rows::new(source, lane * source.lane + source.first + k, source.lane, count, depth);
    for (i, lane) in square.iter_mut().enumerate().take(count) {
        *lane = words(_mm512_cvtne2ps_pbh(rows.at(i, LANES), rows.at(i, 0)));
    }
    square
}

/// Up to 32 rows of up to 32 numbers, all inside a slice.
struct Rows {
    first: *const f32,
    stride: usize,
    rows: usize,
    masks: [__mmask16; 2],
}

impl Rows {
    #[inline]
    fn new(source: Source, at: usize, stride: usize, rows: usize, width: usize) -> Self {
        if rows == 0 || width == 0 {
            return Self { first: source.data.as_ptr(), stride, rows: 0, masks: [0; 2] };
        }
        let all = &source.data[at..at + (rows - 1) * stride + width];
        Self { first: all.as_ptr(), stride, rows, masks: [mask(width), mask(width.saturating_sub(LANES))] }
    }

    /// Sixteen numbers of a row, zeros beyond its end and beyond the last row.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn at(&self, row: usize, column: usize) -> __m512 {
        let mask = if row < self.rows { self.masks[column / LANES] } else { 0 };
        #[expect(
            unsafe_code,
            reason = "masked loads go through pointers, and these would be checked one by one"
        )]
        // SAFETY: `new` found all rows inside the slice, whose elements the mask keeps to; what it leaves out is not read.
        unsafe {
            _mm512_maskz_loadu_ps(
                mask,
                self.first.wrapping_add(row.wrapping_mul(self.stride).wrapping_add(column)),
            )
        }
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
