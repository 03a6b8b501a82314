//! The device, the precision of matrix products, memory estimates, tensors on the host, and stop requests.

pub(crate) mod compute_args;
pub(crate) mod device;
pub mod device_rates;
pub(crate) mod device_survey;
pub mod environment;
pub mod host_tensors;
pub mod memory;
pub(crate) mod precision;
pub(crate) mod stop_flag;
