//! Opens a device by name, or returns an error with instructions, and lists the devices of this machine.
//!
//! No other module depends on the backend features (`flex`, `ndarray`, `cuda`, `wgpu`). `Device::default()` depends on
//! the enabled features, so it is never used.

use burn::tensor::Device;

use crate::compute::device::DeviceName;
use crate::error::Error;

impl DeviceName {
    /// Opens the device (without autodiff). On a GPU, computes one small product as a check.
    ///
    /// # Errors
    /// Fails when this build lacks the backend, when the machine lacks the hardware or its driver, when the product is
    /// not finite, or when the name is [`DeviceName::Auto`].
    pub fn open(self) -> Result<Device, Error> {
        match self {
            Self::Auto => Err(Error::option("device", "auto must be replaced by the device that it selects")),
            #[cfg(feature = "flex")]
            Self::Flex => Ok(Device::flex()),
            #[cfg(feature = "ndarray")]
            Self::Ndarray => {
                #[expect(deprecated, reason = "kept selectable for comparison with the flex backend")]
                let device = Device::ndarray();
                Ok(device)
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => gpu::open(self, move || Some(Device::cuda(index))),
            #[cfg(feature = "wgpu")]
            Self::Wgpu(index) => gpu::open(self, move || gpu::wgpu_devices().into_iter().nth(index)),
            #[cfg(not(all(feature = "flex", feature = "ndarray", feature = "cuda", feature = "wgpu")))]
            device => Err(Error::failed(format!(
                "this build has no {device} backend: build it with `cargo build --release --features {}`",
                device.backend()
            ))),
        }
    }

    /// Returns the devices of this machine that the backends of this build find: the CPU, then GPUs. `ndarray` is not
    /// listed, because it is the same CPU.
    pub fn available() -> Vec<Self> {
        let found = cfg!(feature = "flex").then_some(Self::Flex).into_iter();
        #[cfg(feature = "cuda")]
        let found = found.chain((0..gpu::cuda_devices()).map(Self::Cuda));
        #[cfg(feature = "wgpu")]
        let found = found.chain((0..gpu::wgpu_devices().len()).map(Self::Wgpu));
        found.collect()
    }
}

#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod gpu {
    use burn::tensor::{Device, Distribution, Tensor};

    use super::DeviceName;
    use crate::error::Error;

    /// Opens a GPU and runs one small product on it.
    ///
    /// The driver is loaded at the first use, and a missing driver causes a panic inside the runtime. This function
    /// catches the panic and converts it to an error.
    pub(super) fn open(name: DeviceName, device: impl FnOnce() -> Option<Device>) -> Result<Device, Error> {
        let opened = bert_storage::catch_panic(|| {
            let device = device()?;
            let x = Tensor::<2>::random([8, 8], Distribution::Default, &device);
            let value = x.clone().matmul(x).sum().into_scalar::<f32>();
            Some((device, value))
        });
        let reason = match opened {
            Ok(Some((device, value))) if value.is_finite() => return Ok(device),
            Ok(Some(_)) => "a small test product was not finite".to_string(),
            Ok(None) => "there is no device with this number; `bert devices` lists all of them".to_string(),
            Err(panic) => panic.lines().next().unwrap_or_default().to_string(),
        };
        Err(Error::failed(format!(
            "{name} cannot be used here: {reason} ({} `.device flex` runs on the CPU)",
            hint(name)
        )))
    }

    /// Returns a question about the driver, with the command that answers it.
    fn hint(name: DeviceName) -> &'static str {
        match name {
            DeviceName::Cuda(_) => "is the NVIDIA driver installed, and does `nvidia-smi` list the card?",
            _ => "is a driver for Vulkan installed, and does `vulkaninfo --summary` list the device?",
        }
    }

    /// Returns the devices of wgpu, GPUs before software devices.
    #[cfg(feature = "wgpu")]
    pub(super) fn wgpu_devices() -> Vec<Device> {
        let found = bert_storage::catch_panic(|| {
            let mut devices = Device::enumerate(burn::tensor::DeviceType::Wgpu).into_vec();
            if devices.len() > 1 {
                devices.sort_by_key(|device| device.identity().is_none_or(|found| found.physical.is_none()));
            }
            devices
        });
        found.unwrap_or_default()
    }

    /// Returns the number of CUDA devices.
    #[cfg(feature = "cuda")]
    pub(super) fn cuda_devices() -> usize {
        let found =
            bert_storage::catch_panic(|| Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec().len());
        found.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(all(feature = "cuda", feature = "wgpu")))]
    use super::*;

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn missing_cuda_names_the_feature() {
        let error = DeviceName::Cuda(0).open().unwrap_err().to_string();
        assert!(error.contains("--features cuda"), "{error}");
    }

    #[cfg(not(feature = "wgpu"))]
    #[test]
    fn missing_wgpu_names_the_feature() {
        let error = DeviceName::Wgpu(1).open().unwrap_err().to_string();
        assert!(error.contains("wgpu:1") && error.contains("--features wgpu"), "{error}");
    }
}
