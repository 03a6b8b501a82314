//! Matrix products in bf16 with sums in f32, by the AVX-512 BF16 instructions.
//!
//! [`multiply`] computes `c = beta c + alpha a b` for f32 matrices in strided slices. It rounds every element of a
//! and b to bf16 (to nearest, ties to even, subnormals to zero); `vdpbf16ps` then adds two products at a time to a
//! sum in f32. The terms of one element are added in an order that depends on k alone, never on the threads.
//! [`supported`] says whether the processor has these instructions; without them [`multiply`] panics.
//!
//! The loops follow Goto and van de Geijn, "Anatomy of high-performance matrix multiplication": [`pack`] lays the
//! factors out in panels, and [`tile`] computes an `8 x 32` piece of c in registers. A panel of b stays in the
//! first-level cache, a block of a in the second.

mod pack;

use std::arch::x86_64::*;

use rayon::prelude::*;

use crate::matrix::{Matrix, Threads};
use crate::pool::scratch;
use pack::{A_LANES, B_LANES, Source};

/// Longest stretch of k that is multiplied at once: a panel of b is then 32 KiB of the 48 KiB of a first cache.
const DEPTH: usize = 512;
/// Most rows of a that are packed at once: 256 KiB of a second cache.
const ROWS: usize = 256;
/// Fewest rows of a task, as far as there are so many.
const FEWEST_ROWS: usize = 64;

/// Panels of b that a task packs.
const PANELS: usize = 4;

/// Whether the processor has the instructions.
pub(crate) fn supported() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512bf16")
}

/// `c = beta c + alpha a b`, where c has `m` rows that are `c_row` apart, and `n` columns.
///
/// One stride of each factor has to be 1.
pub(crate) fn multiply(
    threads: Threads,
    (m, n, k): (usize, usize, usize),
    (c, c_row): (&mut [f32], usize),
    beta: f32,
    alpha: f32,
    a: Matrix,
    b: Matrix,
) {
    assert!(supported(), "the processor has no AVX-512 BF16");
    if m == 0 || n == 0 {
        return;
    }
    let c = &mut c[..(m - 1) * c_row + n];
    if k == 0 {
        c.chunks_mut(c_row).for_each(|c| c[..n].iter_mut().for_each(|c| *c *= beta));
        return;
    }
    // Stretches of equal length.
    let depth = k.div_ceil(k.div_ceil(DEPTH)).next_multiple_of(32);
    let columns = n.next_multiple_of(B_LANES);
    let rows = rows_per_task(threads, m);
    let mut b_packed = scratch(depth / 2 * columns);
    for first in (0..k).step_by(depth) {
        let depth = depth.min(k - first);
        let pairs = depth.div_ceil(2);
        let b_packed: &mut [u32] = bytemuck::cast_slice_mut(&mut b_packed[..pairs * columns]);
        let source = Source { data: b.data, lane: b.column, step: b.row, lanes: n, first, depth };
        each(threads, b_packed, PANELS * pairs * B_LANES, |(index, packed)| {
            #[expect(unsafe_code, reason = "a function for AVX-512 BF16, called where it was detected")]
            // SAFETY: `supported` holds.
            unsafe {
                pack::panels::<B_LANES>(source, index * PANELS * B_LANES, packed);
            }
        });
        let b_packed = &*b_packed;
        let beta = if first == 0 { beta } else { 1.0 };
        each(threads, c, rows * c_row, |(index, c)| {
            let top = index * rows;
            let height = rows.min(m - top);
            let mut a_packed = scratch(pairs * height.next_multiple_of(2 * A_LANES));
            let a_packed: &mut [u32] = bytemuck::cast_slice_mut(&mut a_packed);
            let source = Source { data: a.data, lane: a.row, step: a.column, lanes: m, first, depth };
            #[expect(unsafe_code, reason = "functions for AVX-512 BF16, called where it was detected")]
            // SAFETY: `supported` holds.
            unsafe {
                pack::panels::<A_LANES>(source, top, a_packed);
                block((height, n, pairs), (c, c_row), beta, alpha, a_packed, b_packed);
            }
        });
    }
}

/// Rows of c, and of a, that one task takes.
fn rows_per_task(threads: Threads, m: usize) -> usize {
    let rows = match threads {
        Threads::One => ROWS,
        Threads::All => m.div_ceil(4 * rayon::current_num_threads()).clamp(FEWEST_ROWS, ROWS),
    };
    rows.next_multiple_of(2 * A_LANES)
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

/// One packed block of a times all of a packed stretch of b.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn block(
    (m, n, pairs): (usize, usize, usize),
    (c, c_row): (&mut [f32], usize),
    beta: f32,
    alpha: f32,
    a: &[u32],
    b: &[u32],
) {
    for (panel, b) in b.chunks_exact(pairs * B_LANES).enumerate() {
        let column = panel * B_LANES;
        let columns = (n - column).min(B_LANES);
        for (index, a) in a.chunks_exact(pairs * A_LANES).take(m.div_ceil(A_LANES)).enumerate() {
            let row = index * A_LANES;
            let sums = tile(a, b);
            let c = &mut c[row * c_row + column..];
            for (i, sums) in sums.into_iter().take(m - row).enumerate() {
                let c = &mut c[i * c_row..][..columns];
                store(c, beta, alpha, sums);
            }
        }
    }
}

/// Eight rows of a times 32 columns of b.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn tile(a: &[u32], b: &[u32]) -> [[__m512; 2]; A_LANES] {
    let mut sums = [[_mm512_setzero_ps(); 2]; A_LANES];
    let (a, _) = a.as_chunks::<A_LANES>();
    let (b, _) = b.as_chunks::<B_LANES>();
    for (a, b) in a.iter().zip(b) {
        let b = halves(b);
        for (sums, a) in sums.iter_mut().zip(a) {
            let a = pack::bf16(_mm512_set1_epi32(*a as i32));
            sums[0] = _mm512_dpbf16_ps(sums[0], a, b[0]);
            sums[1] = _mm512_dpbf16_ps(sums[1], a, b[1]);
        }
    }
    sums
}

/// 32 words as two registers. (The load of `std::arch` goes through memory where assertions are on.)
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(words: &[u32; B_LANES]) -> [__m512bh; 2] {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types are 1024 bits, of which any are valid.
    unsafe {
        std::mem::transmute(*words)
    }
}

/// `c = beta c + alpha sums` for a row of at most 32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn store(c: &mut [f32], beta: f32, alpha: f32, sums: [__m512; 2]) {
    for (half, sums) in sums.into_iter().enumerate() {
        let Some(c) = c.get_mut(16 * half..) else { return };
        let mask = pack::mask(c.len());
        let mut value = _mm512_mul_ps(_mm512_set1_ps(alpha), sums);
        #[expect(unsafe_code, reason = "masked loads and stores go through pointers")]
        // SAFETY: the mask keeps within the slice.
        unsafe {
            if beta != 0.0 {
                let old = _mm512_maskz_loadu_ps(mask, c.as_ptr());
                value = _mm512_add_ps(value, _mm512_mul_ps(_mm512_set1_ps(beta), old));
            }
            _mm512_mask_storeu_ps(c.as_mut_ptr(), mask, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u32, len: usize) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    /// The nearest bf16, ties to even.
    fn rounded(x: f32) -> f64 {
        let bits = x.to_bits();
        f64::from(f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000))
    }

    /// Sizes that fill tiles, panels, tasks and stretches, and sizes that do not.
    const SIZES: [(usize, usize, usize); 14] = [
        (1, 1, 1),
        (3, 5, 2),
        (8, 32, 32),
        (7, 31, 33),
        (9, 33, 31),
        (16, 64, 512),
        (17, 65, 513),
        (65, 40, 1025),
        (300, 100, 70),
        (530, 33, 129),
        (2, 3, 1500),
        (128, 128, 4096),
        (4, 4, 0),
        (0, 4, 4),
    ];

    #[test]
    #[ignore = "needs AVX-512 BF16"]
    fn products_of_rounded_factors_in_every_layout() {
        assert!(supported(), "this test needs a processor with AVX-512 BF16");
        for (m, n, k) in SIZES {
            for layout in 0..4 {
                let (a, b) = (numbers(1, (m * k).max(1)), numbers(2, (k * n).max(1)));
                let factor = |data, transposed: bool, rows: usize, columns: usize| match transposed {
                    false => Matrix::rows(data, columns),
                    true => Matrix::rows(data, rows).transposed(),
                };
                let (a, b) = (factor(&a, layout & 1 > 0, m, k), factor(&b, layout & 2 > 0, k, n));
                for (beta, alpha) in [(0.0, 1.0), (1.0, 0.5), (-0.5, 1.0)] {
                    check((m, n, k), beta, alpha, a, b);
                }
            }
        }
    }

    fn check((m, n, k): (usize, usize, usize), beta: f32, alpha: f32, a: Matrix, b: Matrix) {
        let c_row = n + 3;
        let before = numbers(3, m * c_row);
        let run = |threads: usize, mode| {
            let mut c = before.clone();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| multiply(mode, (m, n, k), (&mut c, c_row), beta, alpha, a, b));
            c
        };
        let c = run(1, Threads::One);
        for threads in [1, 2, 3] {
            assert!(c == run(threads, Threads::All), "{m} {n} {k}: other bytes on {threads} threads");
        }
        for (at, (c, before)) in c.iter().zip(&before).enumerate() {
            let (i, j) = (at / c_row, at % c_row);
            if j >= n {
                assert_eq!(c, before, "{m} {n} {k}: wrote outside, at {i}, {j}");
                continue;
            }
            let terms = (0..k).map(|l| {
                rounded(a.data[i * a.row + l * a.column]) * rounded(b.data[l * b.row + j * b.column])
            });
            let (mut sum, mut size) = (0.0, 0.0);
            for term in terms {
                sum += term;
                size += term.abs();
            }
            let want = f64::from(beta) * f64::from(*before) + f64::from(alpha) * sum;
            // The factors are exact now; each of k sums may err by half a unit in the last place of f32.
            let bound = (size + before.abs() as f64) * (k as f64).sqrt().max(4.0) * 2f64.powi(-23);
            assert!((f64::from(*c) - want).abs() <= bound, "{m} {n} {k} at {i}, {j}: {c} is not {want}");
        }
    }

    #[test]
    #[ignore = "needs AVX-512 BF16"]
    fn ties_go_to_even_and_what_is_not_finite_passes() {
        assert!(supported(), "this test needs a processor with AVX-512 BF16");
        let product = |a: f32, b: f32| {
            let mut c = [0.0];
            let (a, b) = ([a], [b]);
            let (a, b) = (Matrix::rows(&a, 1), Matrix::rows(&b, 1));
            multiply(Threads::One, (1, 1, 1), (&mut c, 1), 0.0, 1.0, a, b);
            c[0]
        };
        // Units of 2^-7 above 1: half of one goes down to 1, one and a half up to two units.
        assert_eq!(product(1.0 + 0.5 / 128.0, 1.0), 1.0);
        assert_eq!(product(1.0 + 1.5 / 128.0, 1.0), 1.0 + 2.0 / 128.0);
        assert_eq!(product(1e30, 1e30), f32::INFINITY);
        assert!(product(f32::NAN, 1.0).is_nan() && product(f32::INFINITY, 0.0).is_nan());
    }
}
