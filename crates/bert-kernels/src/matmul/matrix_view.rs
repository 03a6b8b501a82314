//! The arguments of a matrix product: [`Matrix`], a strided view of a slice, its [`Side`] in the product, and
//! [`Threads`], the threads to use.

/// The threads that compute one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The calling thread only.
    One,
    /// All threads of the current pool.
    All,
}

/// The side of a factor in a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// a, which has the rows of c.
    Left,
    /// b, which has the columns of c.
    Right,
}

/// A matrix inside a slice: element `(i, j)` is at `i * row + j * column`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl<'a> Matrix<'a> {
    /// Returns a matrix whose rows are `row` apart.
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
