//! Opens the compute device: converts a name (`flex`, `ndarray`, `cuda`, `cuda:N`) to a burn `Device`, or returns an
//! error with instructions.
//!
//! No other module depends on the backend features (`flex`, `ndarray`, `cuda`). `Device::default()` depends on which of
//! them happen to be enabled, so it is never used. The CUDA backend compiles and its kernels are tested on another
//! runtime; it is untested on a GPU.

use std::fmt;
use std::str::FromStr;

use bert_kernels::Kernels;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::error::Error;

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

/// Choice of operations, as on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum KernelChoice {
    /// The fused kernels of `bert-kernels` wherever they apply.
    Fused,
    /// burn's own operations everywhere: slower, for debugging and teaching.
    Plain,
}

impl From<KernelChoice> for Kernels {
    fn from(choice: KernelChoice) -> Self {
        match choice {
            KernelChoice::Fused => Self::Fused,
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
        }
    }
}

impl FromStr for DeviceName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || Error::UnknownDevice { name: text.to_string(), known: DEVICE_HELP };
        match text.split_once(':') {
            None if text == "flex" => Ok(Self::Flex),
            None if text == "ndarray" => Ok(Self::Ndarray),
            None if text == "cuda" => Ok(Self::Cuda(0)),
            Some(("cuda", index)) => index.parse().map(Self::Cuda).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

impl Serialize for DeviceName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl DeviceName {
    /// Returns whether it computes in main memory.
    pub(crate) fn is_cpu(self) -> bool {
        matches!(self, Self::Flex | Self::Ndarray)
    }

    /// Returns the backend's name. Rounding depends on the backend, not on which of its devices is used.
    pub fn backend(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Ndarray => "ndarray",
            Self::Cuda(_) => "cuda",
        }
    }

    /// Opens the device (without autodiff).
    ///
    /// # Errors
    /// [`Error::DeviceNotBuilt`] when this build lacks the backend, [`Error::DeviceUnavailable`]
    /// when the machine lacks the hardware or its driver.
    pub fn open(self) -> Result<Device, Error> {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => Ok(Device::flex()),
            #[cfg(feature = "ndarray")]
            Self::Ndarray => {
                #[expect(deprecated, reason = "kept selectable for comparison with the flex backend")]
                let device = Device::ndarray();
                Ok(device)
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => open_cuda(index),
            #[cfg(not(all(feature = "flex", feature = "ndarray", feature = "cuda")))]
            device => Err(Error::DeviceNotBuilt { device: device.to_string(), feature: device.backend() }),
        }
    }
}

/// Opens a CUDA device and runs one small product on it.
///
/// The driver is loaded at the first use, and a missing driver causes a panic deep inside the runtime; it is caught
/// here and converted to an error.
#[cfg(feature = "cuda")]
fn open_cuda(index: usize) -> Result<Device, Error> {
    use burn::tensor::{Distribution, Tensor};

    let unavailable =
        |reason: String| Error::DeviceUnavailable { device: DeviceName::Cuda(index).to_string(), reason };
    let opened = bert_data::parquet::catch_panic::catch_panic(|| {
        let device = Device::cuda(index);
        let x = Tensor::<2>::random([8, 8], Distribution::Default, &device);
        let value = x.clone().matmul(x).sum().into_scalar::<f32>();
        (device, value)
    });
    match opened {
        Ok((device, value)) if value.is_finite() => Ok(device),
        Ok(_) => Err(unavailable("a small test product was not finite".to_string())),
        Err(panic) => Err(unavailable(panic.lines().next().unwrap_or_default().to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["flex", "ndarray", "cuda:0", "cuda:3"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse::<DeviceName>().unwrap(), DeviceName::Cuda(0));
        for name in ["", "gpu", "cuda:", "cuda:x", "flex:0"] {
            assert!(name.parse::<DeviceName>().is_err(), "{name:?} was accepted");
        }
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn missing_cuda_names_the_feature() {
        let error = DeviceName::Cuda(0).open().unwrap_err().to_string();
        assert!(error.contains("--features cuda"), "{error}");
    }
}
