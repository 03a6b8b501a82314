//! Matrix products on parts of buffers, `c = beta c + alpha a b`: in f32 by the `gemm` crate, in bf16 by
//! `crate::bf16`.
//!
//! The order in which the terms of one element are added depends on the precision, the sizes and the processor
//! ([`crate::processor`]), not on the threads.

use crate::compute::Precision;
use crate::matrix::{Matrix, Threads};

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

/// `c = beta c + alpha a b` on the calling thread, where c has `m` rows that are `c_row` apart, and `n`
/// columns.
pub(crate) fn multiply(
    precision: Precision,
    sizes: (usize, usize, usize),
    c: (&mut [f32], usize),
    beta: f32,
    alpha: f32,
    a: Matrix,
    b: Matrix,
) {
    multiply_on(precision, Threads::One, sizes, c, beta, alpha, a, b);
}

/// [`multiply`] on the given threads.
#[expect(clippy::too_many_arguments, reason = "those of a product, and how it is computed")]
pub(crate) fn multiply_on(
    precision: Precision,
    threads: Threads,
    (m, n, k): (usize, usize, usize),
    (c, c_row): (&mut [f32], usize),
    beta: f32,
    alpha: f32,
    a: Matrix,
    b: Matrix,
) {
    assert!(n <= c_row && Matrix::rows(c, c_row).holds(m, n), "the product does not fit");
    assert!(a.holds(m, k) && b.holds(k, n), "a factor is too small");
    #[cfg(target_arch = "x86_64")]
    if precision == Precision::Bf16 {
        return crate::bf16::multiply(threads, (m, n, k), (c, c_row), beta, alpha, a, b);
    }
    #[cfg(not(target_arch = "x86_64"))]
    assert_eq!(precision, Precision::F32, "there are no bf16 products for this processor");
    let parallelism = match threads {
        Threads::One => gemm::Parallelism::None,
        Threads::All => gemm::Parallelism::Rayon(0),
    };
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
            beta != 0.0,
            a.data.as_ptr(),
            a.column as isize,
            a.row as isize,
            b.data.as_ptr(),
            b.column as isize,
            b.row as isize,
            beta,
            alpha,
            false,
            false,
            false,
            parallelism,
        );
    }
}
