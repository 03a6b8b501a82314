//! Lists the devices of this machine with their properties and measured rates, for `bert devices`.

use burn::tensor::Device;
use serde::Serialize;

use crate::compute::device::DeviceName;
use crate::compute::device_rates::DeviceRates;
use crate::compute::memory::MemoryLimit;
use crate::compute::precision::{PrecisionChoice, has_bf16};
use crate::error::Error;

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceInfo {
    /// The name of the device on the command line.
    pub device: DeviceName,
    /// The name that the driver reports; for the CPU, its vector instructions.
    pub name: String,
    /// The backend, and the target that kernels are compiled for.
    pub backend: String,
    /// Memory in bytes, if the driver reports it.
    pub memory: Option<u64>,
    /// Maximum bytes of one buffer, on a GPU.
    pub largest_buffer: Option<u64>,
    /// Threads of the CPU or multiprocessors of a GPU, if the driver reports them.
    pub units: Option<u64>,
    /// Measured rates.
    pub rates: DeviceRates,
}

impl DeviceInfo {
    /// Opens and measures a device.
    ///
    /// # Errors
    /// Fails as [`DeviceName::open`] does.
    pub fn measure(device: DeviceName) -> Result<Self, Error> {
        let opened = device.open()?;
        let bf16 = if device.is_cpu() {
            PrecisionChoice::Bf16.check(device, crate::compute::device::KernelChoice::Fused).is_ok()
        } else {
            has_bf16(&opened)
        };
        Ok(Self { rates: DeviceRates::measure(&opened, bf16), ..Self::unmeasured(device, &opened) })
    }

    fn unmeasured(device: DeviceName, opened: &Device) -> Self {
        let rates = DeviceRates { f32_flops: 0.0, bf16_flops: None, memory_bytes: 0.0, launch_seconds: 0.0 };
        if let Some(gpu) = bert_kernels::gpu_properties(opened) {
            return Self {
                device,
                name: gpu.name,
                backend: format!("{} ({})", device.backend(), gpu.target),
                memory: gpu.memory,
                largest_buffer: Some(gpu.largest_buffer),
                units: gpu.multiprocessors.map(u64::from),
                rates,
            };
        }
        let firm_limits = MemoryLimit::for_rank(1).into_iter().filter(MemoryLimit::is_firm);
        Self {
            device,
            name: bert_kernels::processor::instruction_set().to_string(),
            backend: device.backend().to_string(),
            memory: firm_limits.map(|limit| limit.bytes).min(),
            largest_buffer: None,
            units: Some(rayon::current_num_threads() as u64),
            rates,
        }
    }
}
