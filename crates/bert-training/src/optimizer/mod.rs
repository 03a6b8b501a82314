//! The interface of an optimizer, its implementations AdamW and LAMB, their options, the learning-rate schedule, and
//! defaults that depend on the size of the model.

pub(crate) mod adamw;
pub(crate) mod lamb;
pub(crate) mod optimizer_args;
mod sharded;
pub(crate) mod size_defaults;
pub(crate) mod snapshot_throttle;
#[cfg(test)]
mod tests;
pub(crate) mod update_rule;

pub(crate) use optimizer_args::OptimizerConfig;
pub use sharded::Optimizer;
pub(crate) use sharded::{States, StepGradients, Update};
