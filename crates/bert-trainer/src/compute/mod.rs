//! The device, the precision of matrix products, memory estimates, tensors on the host, and stop requests.

pub mod compute_args;
pub(crate) mod config_parts;
pub mod device;
pub(crate) mod environment;
pub(crate) mod host_tensors;
pub mod memory;
pub mod precision;
pub(crate) mod stop_flag;
