//! Failures of GPU drivers and kernel compilers that have been reported, for tests of whatever should notice them.
//!
//! The compositions of burn's operations fail in this way while [`with_fault`] runs, on its thread.

use std::cell::Cell;

use burn::tensor::Tensor;

/// A reported failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverFault {
    /// Products are nearly zero from row 500 on (burn#4966).
    RowsNearZero,
    /// The last row of a product contains values from behind the end of a factor (burn#5626).
    ReadPastEnd,
    /// Products are right, and their gradients are 1e14 times too large (burn#5351).
    HugeGradients,
    /// GELU by the error function has the derivative of the tanh form (burn's own `gelu` on GPUs).
    TanhDerivative,
}

thread_local! {
    static ACTIVE: Cell<Option<DriverFault>> = const { Cell::new(None) };
}

/// Runs `f` with a fault on this thread.
pub fn with_fault<T>(fault: DriverFault, f: impl FnOnce() -> T) -> T {
    ACTIVE.set(Some(fault));
    let result = f();
    ACTIVE.set(None);
    result
}

/// Returns whether this fault is active on this thread.
pub(crate) fn is_active(fault: DriverFault) -> bool {
    ACTIVE.get() == Some(fault)
}

/// Returns a product as the active fault changes it.
///
/// # Shapes
/// - product and output: `[.., columns]`
pub(crate) fn product<const D: usize>(product: Tensor<D>) -> Tensor<D> {
    let shape = product.shape();
    let columns = shape[D - 1];
    let rows = shape.num_elements() / columns.max(1);
    let flat = || product.clone().reshape([rows, columns]);
    match ACTIVE.get() {
        Some(DriverFault::RowsNearZero) if rows > 500 => {
            let near_zero = flat().slice([500..rows, 0..columns]).mul_scalar(1e-6);
            flat().slice_assign([500..rows, 0..columns], near_zero).reshape(shape)
        }
        Some(DriverFault::ReadPastEnd) if rows > 1 => {
            let last = flat().slice([rows - 1..rows, 0..columns]) + flat().slice([0..1, 0..columns]);
            flat().slice_assign([rows - 1..rows, 0..columns], last).reshape(shape)
        }
        Some(DriverFault::HugeGradients) => {
            product.clone() + (product.clone() - product.detach()).mul_scalar(1e14)
        }
        _ => product,
    }
}
