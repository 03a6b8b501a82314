//! The names of compute devices on the command line; [`open`] converts a name to a burn `Device`.
//!
//! burn has one backend type for CUDA, Vulkan, Metal and WebGPU, so all GPUs run the same code.

pub(crate) mod open;

use std::fmt;
use std::str::FromStr;

use bert_kernels::Kernels;
use bert_storage::did_you_mean;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The help of `--device`.
pub const DEVICE_HELP: &str = "flex, ndarray, wgpu[:N], cuda[:N] or auto (the fastest)";

/// A device by name, as on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeviceName {
    /// burn's pure-Rust CPU backend.
    #[default]
    Flex,
    /// burn's older CPU backend, which is deprecated upstream.
    Ndarray,
    /// The CUDA device with this index.
    Cuda(usize),
    /// The device with this index in the list of wgpu: a GPU of any vendor with Vulkan, Metal or DirectX.
    Wgpu(usize),
    /// The fastest device that passes the check; the caller selects it.
    Auto,
}

/// Choice of operations, as on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum KernelChoice {
    /// The fused kernels of `bert-kernels` wherever they apply.
    Fused,
    /// Like `fused`, but with attention in one kernel on a GPU.
    FusedAttention,
    /// burn's own operations everywhere: slower, for debugging and teaching.
    Plain,
}

impl From<KernelChoice> for Kernels {
    fn from(choice: KernelChoice) -> Self {
        match choice {
            KernelChoice::Fused => Self::Fused,
            KernelChoice::FusedAttention => Self::FusedAttention,
            KernelChoice::Plain => Self::Plain,
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flex => f.write_str("flex"),
            Self::Ndarray => f.write_str("ndarray"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Wgpu(index) => write!(f, "wgpu:{index}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for DeviceName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || {
            Error::usage(format!(
                "unknown device {text:?}: use {DEVICE_HELP}{}",
                did_you_mean(text, ["flex", "ndarray", "cuda", "wgpu", "auto"])
            ))
        };
        let (backend, index) = match text.split_once(':') {
            Some((backend, index)) => (backend, Some(index.parse().map_err(|_| unknown())?)),
            None => (text, None),
        };
        match (backend, index) {
            ("flex", None) => Ok(Self::Flex),
            ("ndarray", None) => Ok(Self::Ndarray),
            ("auto", None) => Ok(Self::Auto),
            ("cuda", index) => Ok(Self::Cuda(index.unwrap_or(0))),
            ("wgpu", index) => Ok(Self::Wgpu(index.unwrap_or(0))),
            _ => Err(unknown()),
        }
    }
}

bert_storage::json_as_text!(DeviceName);

impl DeviceName {
    /// Returns whether the device computes in main memory.
    pub fn is_cpu(self) -> bool {
        matches!(self, Self::Flex | Self::Ndarray)
    }

    /// Returns the backend's name. Rounding depends on the backend, not on which of its devices is used.
    pub fn backend(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Ndarray => "ndarray",
            Self::Cuda(_) => "cuda",
            Self::Wgpu(_) => "wgpu",
            Self::Auto => "auto",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["flex", "ndarray", "cuda:0", "cuda:3", "wgpu:0", "wgpu:1", "auto"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse::<DeviceName>().unwrap(), DeviceName::Cuda(0));
        assert_eq!("wgpu".parse::<DeviceName>().unwrap(), DeviceName::Wgpu(0));
        for name in ["", "gpu", "cuda:", "cuda:x", "flex:0", "wgpu:", "wgpu:cpu", "auto:1"] {
            assert!(name.parse::<DeviceName>().is_err(), "{name:?} was accepted");
        }
    }
}
