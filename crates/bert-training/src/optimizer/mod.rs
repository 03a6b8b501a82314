//! The interface of an optimizer with AdamW and LAMB, their options, the learning-rate schedule, and defaults by the size of
//! the model.

pub mod adamw;
pub mod config;
pub mod lamb;
pub mod lr_schedule;
pub mod optimizer_args;
mod sharded;
pub mod size_defaults;
pub(crate) mod snapshot_throttle;
#[cfg(test)]
mod tests;
pub mod update_rule;

pub use config::OptimizerConfig;
pub use sharded::Optimizer;
pub(crate) use sharded::{States, StepGradients};
