//! The device, the precision of matrix products, memory estimates, tensors on the host, and stop requests.

pub mod compute_args;
pub mod device;
pub mod device_rates;
pub mod device_survey;
pub(crate) mod environment;
#[cfg(feature = "cli")]
pub(crate) mod help_groups;
pub(crate) mod host_tensors;
pub mod memory;
pub mod precision;
pub(crate) mod stop_flag;
