//! The arguments of a matrix product: its sizes ([`Gemm`]), strided views of slices ([`Matrix`], [`MatrixMut`]), the
//! [`Side`] of an operand, and the [`Threads`] to use.

use crate::arguments::Precision;

/// The threads that compute one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The calling thread only.
    One,
    /// All threads of the current pool.
    All,
}

/// The side of an operand in a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The left operand a, which has the rows of c.
    Left,
    /// The right operand b, which has the columns of c.
    Right,
}

/// The sizes of a product `c = a b`: a is `[m, k]`, b `[k, n]` and c `[m, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gemm {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// A matrix inside a slice: element `(i, j)` is at `i * row + j * column`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl<'a> Matrix<'a> {
    /// Returns a row-major matrix whose rows are `row` elements apart.
    pub(crate) fn rows(data: &'a [f32], row: usize) -> Self {
        Self { data, row, column: 1 }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { row: self.column, column: self.row, ..self }
    }

    pub(crate) fn holds(self, rows: usize, columns: usize) -> bool {
        rows == 0 || columns == 0 || (rows - 1) * self.row + (columns - 1) * self.column < self.data.len()
    }
}

/// A mutable matrix inside a slice: element `(i, j)` is at `i * row_stride + j`.
pub(crate) struct MatrixMut<'a> {
    pub(crate) data: &'a mut [f32],
    pub(crate) row_stride: usize,
}

impl<'a> MatrixMut<'a> {
    pub(crate) fn new(data: &'a mut [f32], row_stride: usize) -> Self {
        Self { data, row_stride }
    }

    /// Returns the matrix that begins at element `first` of the slice.
    pub(crate) fn starting_at(&mut self, first: usize) -> MatrixMut<'_> {
        MatrixMut { data: &mut self.data[first..], row_stride: self.row_stride }
    }
}

/// The precision of the operands of a product, the threads that compute it, and whether it is added to the output.
#[derive(Clone, Copy)]
pub(crate) struct MatmulContext {
    pub(crate) precision: Precision,
    pub(crate) threads: Threads,
    pub(crate) adds: bool,
}

impl MatmulContext {
    pub(crate) fn new(precision: Precision, threads: Threads) -> Self {
        Self { precision, threads, adds: false }
    }

    /// Returns the context of products in bf16.
    pub(crate) fn bf16(threads: Threads) -> Self {
        Self::new(Precision::Bf16, threads)
    }

    /// Returns the context of a product that is added to the output if `adds` is true.
    pub(crate) fn adding(self, adds: bool) -> Self {
        Self { adds, ..self }
    }
}
