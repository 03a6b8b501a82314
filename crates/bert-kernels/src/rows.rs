//! Additions on rows of equal width: a bias to every row, one slice to another, all rows to a sum.

use crate::math::vectorized;

vectorized! {
    /// Adds `bias` to every row.
    pub(crate) fn add_bias(x: &mut [f32], bias: &[f32]) {
        for x in x.chunks_exact_mut(bias.len()) {
            for (x, b) in x.iter_mut().zip(bias) {
                *x += b;
            }
        }
    }
}

vectorized! {
    /// Adds elementwise.
    pub(crate) fn add(x: &mut [f32], y: &[f32]) {
        for (x, y) in x.iter_mut().zip(y) {
            *x += y;
        }
    }
}

vectorized! {
    /// Adds every row to `sum`.
    pub(crate) fn add_rows(x: &[f32], sum: &mut [f32]) {
        for x in x.chunks_exact(sum.len()) {
            for (sum, x) in sum.iter_mut().zip(x) {
                *sum += x;
            }
        }
    }
}
