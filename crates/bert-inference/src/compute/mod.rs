//! The device, the precision of matrix products, memory estimates, tensors on the host, and stop requests.

pub mod compute_args;
pub mod device;
pub mod device_rates;
pub mod device_survey;
pub mod environment;
#[cfg(feature = "cli")]
pub mod help_groups;
pub mod host_tensors;
pub mod memory;
pub mod precision;
pub mod stop_flag;
