//! One training step: the sum of the gradients, AdamW and LAMB, the learning-rate schedule, the process group that shares the
//! step, and the detection of divergence.

pub mod adamw;
pub(crate) mod divergence;
pub(crate) mod gradient_sum;
pub mod group;
pub(crate) mod lamb;
pub(crate) mod layout;
pub mod lr_schedule;
pub mod optimizer_args;
pub mod pretraining_loss;
pub mod size_defaults;
pub(crate) mod snapshot_throttle;
pub mod step;
pub(crate) mod tree_sum;
