//! AdamW, the options of the optimizers, the learning-rate schedule, and defaults by the size of the model.

pub mod adamw;
pub mod lr_schedule;
pub mod optimizer_args;
pub mod size_defaults;
pub(crate) mod snapshot_throttle;
