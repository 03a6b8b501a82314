//! One training step: gradients, AdamW, the learning-rate schedule, and the checks of a run in progress.

pub mod adamw;
pub mod divergence;
pub mod gradient_sum;
pub mod lr_schedule;
pub mod optimizer_args;
pub mod snapshot_throttle;
pub mod step;
pub mod stop_flag;
