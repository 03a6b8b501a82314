//! Sums of whole tensors in an order that depends on the length alone.
//!
//! burn's own `sum` has no fixed order: from 4,194,304 elements on, burn-flex 0.22.1 adds parts in the order in which
//! threads finish them, and CubeCL adds blocks by atomics. Losses and norms affect the rest of a run, so they are added
//! up here.

use burn::tensor::Tensor;

/// Number of elements of one partial sum.
const CHUNK: usize = 1 << 14;

/// Returns the sum of all elements, with a gradient.
///
/// # Shapes
/// - x: `[n]`
/// - output: `[1]`
pub fn sum(x: Tensor<1>) -> Tensor<1> {
    let mut parts = parts(x);
    while parts.dims()[0] > 1 {
        parts = self::parts(parts);
    }
    parts
}

/// Returns the sums of consecutive chunks of equal length; the last one may be shorter.
///
/// # Shapes
/// - x: `[n]`
/// - output: `[ceil(n / 16384)]`, at least `[1]`
pub(crate) fn parts(x: Tensor<1>) -> Tensor<1> {
    let [n] = x.dims();
    let rows = |x: Tensor<1>, rows: usize, width: usize| {
        x.reshape([rows, width]).sum_dim(1).reshape([rows]) // [rows]
    };
    let whole = n / CHUNK;
    let rest = n % CHUNK;
    match (whole, rest) {
        (0, 0) => x.sum(),
        (0, _) => rows(x, 1, n),
        (_, 0) => rows(x, whole, CHUNK),
        _ => {
            let last = rows(x.clone().narrow(0, n - rest, rest), 1, rest);
            Tensor::cat(vec![rows(x.narrow(0, 0, n - rest), whole, CHUNK), last], 0)
        }
    }
}
