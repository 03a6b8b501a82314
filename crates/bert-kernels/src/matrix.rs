//! The arguments of a matrix product: [`Matrix`], a strided view of a slice, its [`Side`] in the product, and [`Threads`],
//! the threads to use.

/// The threads of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The calling one.
    One,
    /// All of the current pool.
    All,
}

/// Which factor of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// a, whose rows are those of c.
    Left,
    /// b, whose columns are those of c.
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
    /// Rows that are `row` apart.
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
