//! Defines the device names of `--device`; `device.rs` parses them and opens the devices.

use std::fmt;

/// The help of `--device`.
pub const DEVICE_HELP: &str = "flex, ndarray, cuda or cuda:N (CUDA is untested)";

/// A device by name, as on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeviceName {
    /// burn's pure-Rust CPU backend.
    #[default]
    Flex,
    /// burn's older CPU backend, which is deprecated upstream.
    Ndarray,
    /// The CUDA device with this index. Untested on a GPU.
    Cuda(usize),
}

impl DeviceName {
    /// Returns whether it computes in main memory.
    pub(crate) fn is_cpu(self) -> bool {
        matches!(self, Self::Flex | Self::Ndarray)
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flex => f.write_str("flex"),
            Self::Ndarray => f.write_str("ndarray"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}
