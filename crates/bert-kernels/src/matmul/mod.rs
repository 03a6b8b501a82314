//! Matrix products on strided slices, `c = a b` and `c = c + a b`: in f32 by the `gemm` crate, in bf16 by [`bf16`].
//!
//! | module | content |
//! |---|---|
//! | [`matrix_view`] | sizes, strided matrices and threads: the arguments of a product |
//! | [`bf16`] | products in bf16, with AMX tiles or AVX-512 BF16; a placeholder on other targets |
//! | [`packed_weights`] | packed weights, cached across batches |
//! | [`processor`] | the processor's properties that affect bits and speed |
//!
//! The order in which the terms of one element are added depends on the precision, the sizes and the processor
//! ([`processor`]), not on the threads.

#[cfg_attr(not(target_arch = "x86_64"), path = "bf16_missing.rs")]
pub(crate) mod bf16;
pub(crate) mod matrix_view;
pub(crate) mod packed_weights;
pub mod processor;

use std::sync::Arc;

use burn::backend::flex::FlexTensor;

use crate::arguments::Precision;
use crate::cpu::flex_slices::{slice, width};
use crate::matmul::bf16::{Operand, Packed};
pub(crate) use crate::matmul::matrix_view::MatmulContext;
use crate::matmul::matrix_view::{Gemm, Matrix, MatrixMut, Side, Threads};
use crate::matmul::packed_weights::PackedWeights;

/// Returns whether this processor has the instructions that the fused kernels need for products in bf16: AVX-512 BF16.
/// AMX tiles are used as well if the processor has them. On other processors, [`Precision::Bf16`] runs burn's own
/// operations, which are slow on a CPU.
pub fn has_bf16_instructions() -> bool {
    bf16::supported()
}

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

impl<'a> From<Matrix<'a>> for Operand<'a> {
    fn from(matrix: Matrix<'a>) -> Self {
        Self::Plain(matrix)
    }
}

impl<'a> From<&'a Packed> for Operand<'a> {
    fn from(packed: &'a Packed) -> Self {
        Self::Packed(packed)
    }
}

/// A matrix that is an operand of several products. It is on the same side in each of them, and each product
/// sums over all of k. In bf16, it is packed once.
pub(crate) struct SharedOperand<'a> {
    matrix: Matrix<'a>,
    packed: Option<Arc<[Packed]>>,
}

impl<'a> SharedOperand<'a> {
    /// Creates a left operand `[lanes, k]` or a right operand `[k, lanes]`.
    pub(crate) fn new(ctx: MatmulContext, side: Side, matrix: Matrix<'a>, lanes: usize, k: usize) -> Self {
        let packed = (ctx.precision == Precision::Bf16)
            .then(|| [Packed::whole(ctx.threads, side, matrix, lanes, k)].into());
        Self { matrix, packed }
    }

    /// Creates the right operand of a contiguous weight `[k, n]`. In bf16 with a `cache` it uses the cached packed
    /// form, or packs and caches the weight. In bf16 without a cache, each product packs it.
    pub(crate) fn weight(ctx: MatmulContext, cache: Option<&PackedWeights>, weight: &'a FlexTensor) -> Self {
        let values = slice(weight);
        let n = width(weight);
        let matrix = Matrix::rows(values, n);
        let packed = cache.filter(|_| ctx.precision == Precision::Bf16).map(|cache| {
            let whole = || vec![Packed::whole(ctx.threads, Side::Right, matrix, n, values.len() / n)];
            packed_weights::packed(Some(cache), weight, whole)
        });
        Self { matrix, packed }
    }

    /// Returns the columns from `first` on as a plain matrix.
    pub(crate) fn columns_from(&self, first: usize) -> Matrix<'_> {
        Matrix { data: &self.matrix.data[first * self.matrix.column..], ..self.matrix }
    }

    /// Returns the whole operand, packed if there is a packed form.
    pub(crate) fn operand(&self) -> Operand<'_> {
        match &self.packed {
            Some(parts) => Operand::Packed(&parts[0]),
            None => Operand::Plain(self.matrix),
        }
    }
}

/// Computes `c = a b`, or `c = c + a b`.
///
/// # Panics
/// Panics if a matrix does not fit in its slice or if a packed operand was packed for different sizes. In bf16, panics
/// if a plain operand has no stride of 1 or if the processor lacks AVX-512 BF16; in f32, panics if an operand is
/// packed.
pub(crate) fn multiply<'a>(
    ctx: MatmulContext,
    sizes: Gemm,
    c: MatrixMut,
    a: impl Into<Operand<'a>>,
    b: impl Into<Operand<'a>>,
) {
    let a = a.into();
    let b = b.into();
    let Gemm { m, n, k } = sizes;
    let holds = n <= c.row_stride && Matrix::rows(c.data, c.row_stride).holds(m, n);
    assert!(holds, "the slice of the product is too small");
    for (factor, rows, columns) in [(a, m, k), (b, k, n)] {
        if let Operand::Plain(matrix) = factor {
            assert!(matrix.holds(rows, columns), "the slice of a factor is too small");
        }
    }
    match (ctx.precision, a, b) {
        (Precision::Bf16, ..) => bf16::multiply(ctx, sizes, c, a, b),
        (Precision::F32, Operand::Plain(a), Operand::Plain(b)) => multiply_f32(ctx, sizes, c, a, b),
        (Precision::F32, ..) => unreachable!("factors are packed for bf16 only"),
    }
}

/// Computes [`multiply`] in f32. The caller has checked that the matrices fit in their slices.
fn multiply_f32(ctx: MatmulContext, Gemm { m, n, k }: Gemm, c: MatrixMut, a: Matrix, b: Matrix) {
    let parallelism = match ctx.threads {
        Threads::One => gemm::Parallelism::None,
        Threads::All => gemm::Parallelism::Rayon(0),
    };
    #[expect(
        unsafe_code,
        reason = "gemm takes pointers; the assertions in `multiply` keep all accesses inside"
    )]
    // SAFETY: every element that gemm reads or writes lies inside its slice, and `c` is borrowed mutably,
    // so it overlaps with neither operand.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.data.as_mut_ptr(),
            1,
            c.row_stride as isize,
            ctx.adds,
            a.data.as_ptr(),
            a.column as isize,
            a.row as isize,
            b.data.as_ptr(),
            b.column as isize,
            b.row as isize,
            if ctx.adds { 1.0 } else { 0.0 },
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
