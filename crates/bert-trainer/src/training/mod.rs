//! One training step: the sum of the gradients, the optimizer, the process group that shares the step, the check of the device
//! before the first step, and the detection of divergence.

pub mod device_check;
pub mod device_selection;
pub(crate) mod divergence;
pub(crate) mod gradient_sum;
pub mod group;
pub(crate) mod lamb;
pub(crate) mod layout;
pub mod optimizer;
pub mod pretraining_loss;
pub(crate) mod snapshot_throttle;
pub mod step;
pub mod training_run;
pub(crate) mod tree_sum;
