//! Dropout composed of burn operations: `y = x m / (1 - p)` with the mask `m` of [`Dropout`].

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};

pub use crate::cpu::dropout_mask::{Dropout, mix};
use crate::cpu::flex_slices::indices;

/// Multiplies x by the mask, which is a constant to autodiff.
///
/// # Shapes
/// - input and output: `[..]`, any shape
pub fn plain<const D: usize>(x: Tensor<D>, dropout: Option<Dropout>) -> Tensor<D> {
    let Some(dropout) = dropout else {
        return x;
    };
    let shape = x.shape();
    #[cfg(feature = "cubecl")]
    if let Some(y) = crate::gpu::dropout::dropout(x.clone().flatten(0, D - 1), dropout) {
        return y.reshape(shape);
    }
    let mask = TensorData::new(dropout.mask(shape.num_elements()), shape);
    let mask = Tensor::from_data(mask, (&x.device(), x.dtype()));
    x * mask
}

/// Rows that were selected from a table.
#[derive(Clone, Debug)]
pub struct SelectedRows {
    /// `[n]`: the index of each row in the table.
    pub indices: Tensor<1, Int>,
    /// Number of rows of the table.
    pub table_rows: usize,
}

/// Dropout of the rows of a tensor. A selected row has the mask that it has in the table.
#[derive(Clone, Debug)]
pub struct RowDropout {
    /// Mask of the tensor or of the table; `None` without dropout.
    pub dropout: Option<Dropout>,
    /// The rows, if they were selected from a table.
    pub rows: Option<SelectedRows>,
}

impl From<Option<Dropout>> for RowDropout {
    fn from(dropout: Option<Dropout>) -> Self {
        Self { dropout, rows: None }
    }
}

impl RowDropout {
    /// Multiplies x by the mask, which is a constant to autodiff.
    ///
    /// # Shapes
    /// - input and output: `[.., width]`; with selected rows, n rows in all
    pub fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let (Some(_), Some(rows)) = (self.dropout, &self.rows) else { return plain(x, self.dropout) };
        let shape = x.shape();
        let table = Tensor::<2>::ones([rows.table_rows, shape[D - 1]], (&x.device(), x.dtype()));
        let mask = plain(table, self.dropout).select(0, rows.indices.clone()); // [n, width]
        x * mask.reshape(shape)
    }

    /// Returns the masks for the fused kernels; `None` without dropout.
    pub(crate) fn on_host(self) -> Option<HostDropout> {
        let dropout = self.dropout?;
        Some(HostDropout { dropout, rows: self.rows.map(|rows| indices(rows.indices).into()) })
    }
}

/// [`RowDropout`] with its indices on the host.
#[derive(Clone, Debug)]
pub(crate) struct HostDropout {
    dropout: Dropout,
    rows: Option<Arc<[usize]>>,
}

impl HostDropout {
    /// Multiplies rows of this width by their masks; `first` is the index of the first row. `words` is
    /// scratch memory.
    pub(crate) fn apply(&self, elements: &mut [f32], first: usize, width: usize, words: &mut Vec<u64>) {
        let Some(rows) = &self.rows else { return self.dropout.apply(elements, first * width, words) };
        for (row, index) in elements.chunks_exact_mut(width).zip(&rows[first..]) {
            self.dropout.apply(row, index * width, words);
        }
    }
}
