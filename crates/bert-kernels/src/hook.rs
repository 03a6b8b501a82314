//! A hook that changes results of the compositions of burn's operations, for tests of code that detects
//! devices with wrong results.

use std::cell::Cell;

use burn::tensor::Tensor;

/// The changes that a hook makes to results.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// Function that returns the replacement, `[rows, columns]`, for a product.
    pub product: fn(Tensor<2>) -> Tensor<2>,
    /// Whether the erf form of GELU has the derivative of the tanh form.
    pub tanh_derivative: bool,
}

thread_local! {
    static ACTIVE: Cell<Option<Hook>> = const { Cell::new(None) };
}

/// Runs `f` with a hook on this thread and returns its result.
pub fn with_hook<T>(hook: Hook, f: impl FnOnce() -> T) -> T {
    ACTIVE.set(Some(hook));
    let result = f();
    ACTIVE.set(None);
    result
}

/// Returns whether this thread's hook gives the erf form of GELU the derivative of the tanh form.
pub(crate) fn has_tanh_derivative() -> bool {
    ACTIVE.get().is_some_and(|hook| hook.tanh_derivative)
}

/// Returns a product, replaced by the hook if there is one.
///
/// # Shapes
/// - product and output: `[.., columns]`
pub(crate) fn product<const D: usize>(product: Tensor<D>) -> Tensor<D> {
    let Some(hook) = ACTIVE.get() else { return product };
    let shape = product.shape();
    let columns = shape[D - 1];
    let rows = shape.num_elements() / columns.max(1);
    (hook.product)(product.reshape([rows, columns])).reshape(shape)
}
