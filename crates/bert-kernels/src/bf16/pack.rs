//! Packs the factors of a bf16 product: rounds their elements, pairs them and lays them out in panels.
//!
//! The lanes of a factor are the axis over which the product does not sum: the rows of a, the columns of b. A packed
//! word holds two bf16 numbers of one lane, those at places 2p and 2p + 1 along k. A panel is `[pairs, lanes]` and
//! zero outside the factor. Where neighbouring lanes are adjacent in memory, two rows are shuffled into one; where
//! neighbours along k are adjacent, sixteen rows are transposed in registers.

use std::arch::x86_64::*;

/// Lanes of a panel of a.
pub(super) const A_LANES: usize = 8;
/// Lanes of a panel of b.
pub(super) const B_LANES: usize = 32;
/// Lanes of a register.
const LANES: usize = 16;
/// Pairs that are taken along when lanes lie side by side.
const PAIRS: usize = 8;

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

/// Panels of `WIDE` lanes each (8 or 32), from lane `first` on, until `packed` is full.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) fn panels<const WIDE: usize>(source: Source, first: usize, packed: &mut [u32]) {
    let lanes = source.lanes.saturating_sub(first);
    if source.lane == 1 {
        side_by_side::<WIDE>(source, first, lanes, packed);
    } else {
        assert_eq!(source.step, 1, "one stride of a factor is 1");
        one_after_another::<WIDE>(source, first, lanes, packed);
    }
}

/// For lanes that lie side by side.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn side_by_side<const WIDE: usize>(source: Source, first: usize, lanes: usize, packed: &mut [u32]) {
    let pairs = source.depth.div_ceil(2);
    // 0, 16, 1, 17, ...: an element of the lower half, then its partner in the upper half.
    let order: [i16; 32] = std::array::from_fn(|i| (i / 2 + i % 2 * 16) as i16);
    let order = load(&bytemuck::cast(order));
    // A few rows at a time: their lines of cache are used up, and so are those of the panels.
    for top in (0..pairs).step_by(PAIRS) {
        for group in 0..packed.len() / (pairs * LANES) {
            let count = lanes.saturating_sub(group * LANES).min(LANES);
            let at = source.first * source.step + first + group * LANES;
            for pair in top..pairs.min(top + PAIRS) {
                let mut rows = [_mm512_setzero_ps(); 2];
                for (k, row) in (2 * pair..source.depth).zip(&mut rows) {
                    if count > 0 {
                        *row = load_some(&source.data[at + k * source.step..][..count]);
                    }
                }
                let words = _mm512_permutexvar_epi16(order, words(_mm512_cvtne2ps_pbh(rows[1], rows[0])));
                put::<WIDE>(packed, pairs, (group, pair), words);
            }
        }
    }
}

/// For lanes each of which lies in one piece.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn one_after_another<const WIDE: usize>(source: Source, first: usize, lanes: usize, packed: &mut [u32]) {
    let pairs = source.depth.div_ceil(2);
    for group in 0..packed.len() / (pairs * LANES) {
        let count = lanes.saturating_sub(group * LANES).min(LANES);
        for k in (0..source.depth).step_by(2 * LANES) {
            let depth = (source.depth - k).min(2 * LANES);
            let mut rows = [_mm512_setzero_si512(); LANES];
            for (i, row) in rows.iter_mut().enumerate().take(count) {
                let at = (first + group * LANES + i) * source.lane + source.first + k;
                let (low, high) = source.data[at..][..depth].split_at(depth.min(LANES));
                *row = words(_mm512_cvtne2ps_pbh(load_some(high), load_some(low)));
            }
            for (i, words) in transposed(rows).into_iter().enumerate().take(depth.div_ceil(2)) {
                put::<WIDE>(packed, pairs, (group, k / 2 + i), words);
            }
        }
    }
}

/// Writes the words of sixteen lanes and one pair to their place in the panels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn put<const WIDE: usize>(packed: &mut [u32], pairs: usize, (group, pair): (usize, usize), words: __m512i) {
    if WIDE == B_LANES {
        let at = (group / 2 * pairs + pair) * B_LANES + group % 2 * LANES;
        store(chunk(packed, at), words);
    } else {
        let at = (2 * group * pairs + pair) * A_LANES;
        store_half(chunk(packed, at), _mm512_castsi512_si256(words));
        store_half(chunk(packed, at + pairs * A_LANES), _mm512_extracti64x4_epi64::<1>(words));
    }
}

#[inline]
fn chunk<const N: usize>(packed: &mut [u32], at: usize) -> &mut [u32; N] {
    packed[at..].first_chunk_mut().expect("the panels hold every group and pair")
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
fn load_some(x: &[f32]) -> __m512 {
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
