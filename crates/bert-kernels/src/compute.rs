//! [`Compute`]: which implementation runs an operation, and what its matrix products round their factors to.
//!
//! Models and optimizers carry this value and pass it to the operations; there is no process-wide switch.

/// Which implementation runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernels {
    /// Hand-written kernels wherever they apply.
    #[default]
    Fused,
    /// burn's own operations everywhere: slower, and short enough to be read beside the paper.
    Plain,
}

/// What the factors of matrix products are rounded to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 24 bits of significand.
    #[default]
    F32,
    /// 8 bits of significand, the exponents of f32.
    Bf16,
}

/// How operations compute. Two models in one process may differ in it; a backward pass follows its forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compute {
    /// Which implementation runs.
    pub kernels: Kernels,
    /// What the factors of matrix products are rounded to.
    pub precision: Precision,
}
