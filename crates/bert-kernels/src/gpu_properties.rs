//! Queries the properties of a GPU from its driver.

use burn::tensor::Device;

/// Properties of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuProperties {
    /// The name that the driver reports.
    pub name: String,
    /// The driver's identifier of the target that kernels are compiled for.
    pub target: String,
    /// Memory in bytes, if the driver reports it.
    pub memory: Option<u64>,
    /// Maximum size of one buffer in bytes.
    pub largest_buffer: u64,
    /// Number of multiprocessors, if the driver reports it.
    pub multiprocessors: Option<u32>,
}

/// Returns the properties of a GPU; `None` for any other device, and in builds without a feature for GPUs.
pub fn gpu_properties(device: &Device) -> Option<GpuProperties> {
    #[cfg(feature = "cubecl")]
    {
        use burn::backend::Cube;
        use burn::tensor::Tensor;

        let tensor = Tensor::<1>::zeros([1], &device.clone().inner()).try_into_primitive::<Cube>().ok()?;
        let properties = tensor.client.properties();
        Some(GpuProperties {
            name: properties.identity.name.clone(),
            target: properties.identity.fingerprint.clone(),
            memory: properties.memory.max_memory(),
            largest_buffer: properties.memory.max_page_size,
            multiprocessors: properties.hardware.num_streaming_multiprocessors,
        })
    }
    #[cfg(not(feature = "cubecl"))]
    {
        let _ = device;
        None
    }
}
