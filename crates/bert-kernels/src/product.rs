//! Matrix products on parts of buffers, `c = a b` and `c = c + a b`: in f32 by the `gemm` crate, in bf16 by
//! `crate::bf16`.
//!
//! The order in which the terms of one element are added depends on the precision, the sizes and the processor
//! ([`crate::processor`]), not on the threads.

#[cfg(target_arch = "x86_64")]
use std::sync::Arc;

use burn::backend::flex::FlexTensor;

#[cfg(target_arch = "x86_64")]
use crate::bf16::{self, Packed};
use crate::compute::Precision;
use crate::matrix::{Matrix, Side, Threads};
use crate::packed_weights::PackedWeights;
use crate::storage::{slice, width};

/// Two independent pieces of work that are mostly products: side by side on two threads, where that
/// wastes nothing, and otherwise one after the other with all threads.
pub(crate) fn both(first: impl FnOnce(Threads) + Send, second: impl FnOnce(Threads) + Send) {
    if rayon::current_num_threads() == 2 {
        rayon::join(|| first(Threads::One), || second(Threads::One));
    } else {
        first(Threads::All);
        second(Threads::All);
    }
}

/// One factor of a product: a matrix, and perhaps its packed form for bf16, made for several products.
#[derive(Clone, Copy)]
pub(crate) struct Factor<'a> {
    matrix: Matrix<'a>,
    #[cfg(target_arch = "x86_64")]
    packed: Option<&'a Packed>,
}

impl<'a> From<Matrix<'a>> for Factor<'a> {
    fn from(matrix: Matrix<'a>) -> Self {
        Self {
            matrix,
            #[cfg(target_arch = "x86_64")]
            packed: None,
        }
    }
}

/// A matrix that is a factor of several products, on the same side of each, over all of k.
pub(crate) struct Shared<'a> {
    matrix: Matrix<'a>,
    #[cfg(target_arch = "x86_64")]
    packed: Option<Arc<[Packed]>>,
}

impl<'a> Shared<'a> {
    /// A left factor of `lanes` rows or a right one of `lanes` columns; the product sums over `k`.
    pub(crate) fn new(
        on: (Precision, Threads),
        side: Side,
        matrix: Matrix<'a>,
        lanes: usize,
        k: usize,
    ) -> Self {
        #[cfg(target_arch = "x86_64")]
        let packed = (on.0 == Precision::Bf16).then(|| [Packed::whole(on.1, side, matrix, lanes, k)].into());
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (on, lanes, k, side);
        Self {
            matrix,
            #[cfg(target_arch = "x86_64")]
            packed,
        }
    }

    /// A contiguous weight as the right factor: packed before, packed now to be `kept`, or left to the product.
    pub(crate) fn weight(
        on: (Precision, Threads),
        kept: Option<&PackedWeights>,
        weight: &'a FlexTensor,
    ) -> Self {
        let (values, n) = (slice(weight), width(weight));
        let matrix = Matrix::rows(values, n);
        #[cfg(target_arch = "x86_64")]
        let packed = kept.filter(|_| on.0 == Precision::Bf16).map(|kept| {
            let whole = || vec![Packed::whole(on.1, Side::Right, matrix, n, values.len() / n)];
            crate::packed_weights::packed(Some(kept), weight, whole)
        });
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (on, kept);
        Self {
            matrix,
            #[cfg(target_arch = "x86_64")]
            packed,
        }
    }

    /// The columns from `first` on, to be read where they are.
    pub(crate) fn columns_from(&self, first: usize) -> Factor<'_> {
        Matrix { data: &self.matrix.data[first * self.matrix.column..], ..self.matrix }.into()
    }

    /// All of it.
    pub(crate) fn factor(&self) -> Factor<'_> {
        Factor {
            matrix: self.matrix,
            #[cfg(target_arch = "x86_64")]
            packed: self.packed.as_ref().map(|parts| &parts[0]),
        }
    }
}

/// `c = a b`, or `c = c + a b` with `add`, on the given threads, where c has `m` rows that are `c_row` apart, and `n`
/// columns.
pub(crate) fn multiply<'a>(
    (precision, threads): (Precision, Threads),
    (m, n, k): (usize, usize, usize),
    (c, c_row): (&mut [f32], usize),
    add: bool,
    a: impl Into<Factor<'a>>,
    b: impl Into<Factor<'a>>,
) {
    let (a, b) = (a.into(), b.into());
    assert!(n <= c_row && Matrix::rows(c, c_row).holds(m, n), "the product does not fit");
    assert!(a.matrix.holds(m, k) && b.matrix.holds(k, n), "a factor is too small");
    #[cfg(target_arch = "x86_64")]
    if precision == Precision::Bf16 {
        let factor = |factor: Factor<'a>| match factor.packed {
            Some(packed) => bf16::Factor::Packed(packed),
            None => bf16::Factor::Plain(factor.matrix),
        };
        return bf16::multiply(threads, (m, n, k), (c, c_row), add, factor(a), factor(b));
    }
    #[cfg(not(target_arch = "x86_64"))]
    assert_eq!(precision, Precision::F32, "there are no bf16 products for this processor");
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
