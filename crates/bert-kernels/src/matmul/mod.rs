//! Matrix products on strided slices, `c = a b` and `c = c + a b`: in f32 by the `gemm` crate, in bf16 by
//! `crate::matmul::bf16`.
//!
//! The order in which the terms of one element are added depends on the precision, the sizes and the processor
//! ([`crate::matmul::processor`]), not on the threads.

#[cfg(target_arch = "x86_64")]
pub(crate) mod bf16;
pub(crate) mod matrix_view;
pub(crate) mod packed_weights;
pub mod processor;
pub(crate) mod support;

#[cfg(target_arch = "x86_64")]
use std::sync::Arc;

use burn::backend::flex::FlexTensor;

use crate::compute::Precision;
use crate::cpu::flex_slices::{slice, width};
#[cfg(target_arch = "x86_64")]
use crate::matmul::bf16::Packed;
use crate::matmul::matrix_view::{Matrix, Side, Threads};
use crate::matmul::packed_weights::PackedWeights;

/// Runs two independent functions that mostly compute products. On exactly two threads, both run in parallel with one
/// thread each, which avoids the overhead of splitting each product. Otherwise they run in sequence on all threads.
pub(crate) fn run_both(first: impl FnOnce(Threads) + Send, second: impl FnOnce(Threads) + Send) {
    if rayon::current_num_threads() == 2 {
        rayon::join(|| first(Threads::One), || second(Threads::One));
    } else {
        first(Threads::All);
        second(Threads::All);
    }
}

/// The precision of the factors of a product, and the threads that compute it.
#[derive(Clone, Copy)]
pub(crate) struct MatmulContext {
    pub(crate) precision: Precision,
    pub(crate) threads: Threads,
}

impl MatmulContext {
    pub(crate) fn new(precision: Precision, threads: Threads) -> Self {
        Self { precision, threads }
    }
}

/// A factor of a product: a matrix, and its packed form for bf16 if several products share it.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    matrix: Matrix<'a>,
    #[cfg(target_arch = "x86_64")]
    packed: Option<&'a Packed>,
}

impl<'a> From<Matrix<'a>> for Operand<'a> {
    fn from(matrix: Matrix<'a>) -> Self {
        Self {
            matrix,
            #[cfg(target_arch = "x86_64")]
            packed: None,
        }
    }
}

/// A matrix that is a factor of several products, on the same side and over all of k in each. In bf16 it is packed
/// once.
pub(crate) struct SharedOperand<'a> {
    matrix: Matrix<'a>,
    #[cfg(target_arch = "x86_64")]
    packed: Option<Arc<[Packed]>>,
}

impl<'a> SharedOperand<'a> {
    /// Creates a left factor `[lanes, k]` or a right factor `[k, lanes]`.
    pub(crate) fn new(ctx: MatmulContext, side: Side, matrix: Matrix<'a>, lanes: usize, k: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        let packed = (ctx.precision == Precision::Bf16)
            .then(|| [Packed::whole(ctx.threads, side, matrix, lanes, k)].into());
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (ctx, lanes, k, side);
        Self {
            matrix,
            #[cfg(target_arch = "x86_64")]
            packed,
        }
    }

    /// Creates the right factor of a contiguous weight `[k, n]`. In bf16 with a `cache` it uses the cached packed form,
    /// or packs and caches the weight. Otherwise the product packs it.
    pub(crate) fn weight(ctx: MatmulContext, cache: Option<&PackedWeights>, weight: &'a FlexTensor) -> Self {
        let (values, n) = (slice(weight), width(weight));
        let matrix = Matrix::rows(values, n);
        #[cfg(target_arch = "x86_64")]
        let packed = cache.filter(|_| ctx.precision == Precision::Bf16).map(|cache| {
            let whole = || vec![Packed::whole(ctx.threads, Side::Right, matrix, n, values.len() / n)];
            crate::matmul::packed_weights::packed(Some(cache), weight, whole)
        });
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (ctx, cache);
        Self {
            matrix,
            #[cfg(target_arch = "x86_64")]
            packed,
        }
    }

    /// Returns the columns from `first` on, unpacked.
    pub(crate) fn columns_from(&self, first: usize) -> Operand<'_> {
        Matrix { data: &self.matrix.data[first * self.matrix.column..], ..self.matrix }.into()
    }

    /// Returns the whole factor, packed if there is a packed form.
    pub(crate) fn operand(&self) -> Operand<'_> {
        Operand {
            matrix: self.matrix,
            #[cfg(target_arch = "x86_64")]
            packed: self.packed.as_ref().map(|parts| &parts[0]),
        }
    }
}

/// Computes `c = a b`, or `c = c + a b` with `add`.
///
/// # Shapes
///
/// - a: `[m, k]`; b: `[k, n]`
/// - c: `[m, n]`, with rows that are `c_row` elements apart
///
/// # Panics
///
/// If a matrix does not fit in its slice, or for bf16 on a processor without AVX-512 BF16.
pub(crate) fn multiply<'a>(
    MatmulContext { precision, threads }: MatmulContext,
    (m, n, k): (usize, usize, usize),
    (c, c_row): (&mut [f32], usize),
    add: bool,
    a: impl Into<Operand<'a>>,
    b: impl Into<Operand<'a>>,
) {
    let (a, b) = (a.into(), b.into());
    assert!(n <= c_row && Matrix::rows(c, c_row).holds(m, n), "the slice of the product is too small");
    assert!(a.matrix.holds(m, k) && b.matrix.holds(k, n), "the slice of a factor is too small");
    #[cfg(target_arch = "x86_64")]
    if precision == Precision::Bf16 {
        let factor = |factor: Operand<'a>| match factor.packed {
            Some(packed) => bf16::Factor::Packed(packed),
            None => bf16::Factor::Plain(factor.matrix),
        };
        return bf16::multiply(threads, (m, n, k), (c, c_row), add, factor(a), factor(b));
    }
    #[cfg(not(target_arch = "x86_64"))]
    assert_eq!(precision, Precision::F32, "bf16 products need an x86-64 processor with AVX-512 BF16");
    let parallelism = match threads {
        Threads::One => gemm::Parallelism::None,
        Threads::All => gemm::Parallelism::Rayon(0),
    };
    let (a, b) = (a.matrix, b.matrix);
    #[expect(unsafe_code, reason = "gemm takes pointers; the assertions above keep all accesses inside")]
    // SAFETY: every element that gemm reads or writes lies inside its slice, and `c` is borrowed mutably,
    // so it overlaps with neither factor.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            c_row as isize,
            add,
            a.data.as_ptr(),
            a.column as isize,
            a.row as isize,
            b.data.as_ptr(),
            b.column as isize,
            b.row as isize,
            if add { 1.0 } else { 0.0 },
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
