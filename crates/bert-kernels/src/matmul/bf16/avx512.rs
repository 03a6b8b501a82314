//! Computes products of packed operands with `vdpbf16ps`: a micro-tile of 8 x 32 numbers of c in sixteen vector
//! registers.
//!
//! The instruction adds two products of bf16 numbers at a time to a sum in f32.

use std::arch::x86_64::*;
use std::ops::Range;

use super::pack::{self, A_LANES, B_LANES, KBlock};
use crate::matmul::matrix_view::MatrixMut;

/// Computes the given columns of the first `m` rows of c from narrow panels of a and wide panels of b.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(crate) fn block(m: usize, columns: Range<usize>, c: MatrixMut, add: bool, factors: &[KBlock]) {
    let MatrixMut { data: c, row_stride: c_row } = c;
    for column in columns.clone().step_by(B_LANES) {
        let columns = (columns.end - column).min(B_LANES);
        for row in (0..m).step_by(A_LANES) {
            let c = &mut c[row * c_row + column..];
            let mut sums = [[_mm512_setzero_ps(); 2]; A_LANES];
            if add {
                for (i, sums) in sums.iter_mut().enumerate().take(m - row) {
                    *sums = load(&c[i * c_row..][..columns]);
                }
            }
            for factors in factors {
                let (a, b) = factors.micro_tile(row, A_LANES, column);
                sums = micro_tile(sums, a, b);
            }
            for (i, sums) in sums.into_iter().enumerate().take(m - row) {
                store(&mut c[i * c_row..][..columns], sums);
            }
        }
    }
}

/// Adds the product of eight rows of a and 32 columns of b to a micro-tile of c, and returns the micro-tile.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn micro_tile(mut sums: [[__m512; 2]; A_LANES], a: &[u32], b: &[u32]) -> [[__m512; 2]; A_LANES] {
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

/// Loads 32 words into two registers. It uses `transmute`, because the load of `std::arch` copies the value
/// through the stack in builds with debug assertions.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(words: &[u32; B_LANES]) -> [__m512bh; 2] {
    #[expect(unsafe_code, reason = "std::arch has no conversion between these types")]
    // SAFETY: both types have 1024 bits, and every bit pattern is valid.
    unsafe {
        std::mem::transmute(*words)
    }
}

/// Loads up to 32 numbers of a row; the other lanes are zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(c: &[f32]) -> [__m512; 2] {
    let (low, high) = c.split_at(c.len().min(16));
    [pack::load_some(low), pack::load_some(high)]
}

/// Stores the first numbers of a row, as many as fit in `c`.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(c: &mut [f32], sums: [__m512; 2]) {
    for (c, sums) in c.chunks_mut(16).zip(sums) {
        #[expect(unsafe_code, reason = "masked stores go through pointers")]
        // SAFETY: the mask selects elements of the slice only.
        unsafe {
            _mm512_mask_storeu_ps(c.as_mut_ptr(), pack::mask(c.len()), sums);
        }
    }
}
