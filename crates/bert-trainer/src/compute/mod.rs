//! The device, the precision of matrix products, memory estimates, and tensors on the host.

pub mod compute_args;
pub mod device;
pub mod environment;
pub(crate) mod host_tensors;
pub mod memory;
pub mod precision;
