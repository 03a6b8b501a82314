//! [`ModelOptions`]: settings of a user, which replace settings of the model's description.

use std::path::Path;

use bert_kernels::Compute;

use crate::compute::device::{DeviceName, KernelChoice};
use crate::compute::precision::PrecisionChoice;
use crate::error::Error;
use crate::model_dir::description::ModelDescription;

/// Options for opening a model of any kind.
///
/// ```
/// use bert_inference::{DeviceName, ModelOptions};
///
/// let options = ModelOptions::default().with_device(DeviceName::Flex).with_max_length(128);
/// assert_eq!(options.max_length, Some(128));
/// ```
#[derive(Clone, Copy, Debug, Default, derive_setters::Setters)]
#[setters(prefix = "with_", into)]
#[non_exhaustive]
pub struct ModelOptions<'a> {
    /// The encoder of an adapter; replaces the encoder that the adapter's folder names.
    pub encoder: Option<&'a Path>,
    /// Maximum sequence length; `None` for the length that the model was trained with.
    pub max_length: Option<usize>,
    /// Precision of matrix products. `None` means, for a fine-tuned head, the precision of its training or else the
    /// device's default, and f32 for hidden states, attention and masked words.
    pub precision: Option<PrecisionChoice>,
    /// Compute device.
    pub device: DeviceName,
}

impl ModelOptions<'_> {
    /// Returns the kernels and precision of the training, unless a different precision is requested.
    ///
    /// # Errors
    /// Fails when the device does not support the precision.
    pub(crate) fn compute(self, description: &ModelDescription) -> Result<Compute, Error> {
        let kernels = description.kernels.unwrap_or(KernelChoice::Fused);
        // On a GPU without bf16, a model that was trained in bf16 runs in the GPU's default precision.
        let trained = description
            .precision
            .filter(|trained| self.device.is_cpu() || trained.check(self.device, kernels).is_ok());
        let precision = PrecisionChoice::or_default(self.precision.or(trained), self.device);
        precision.check(self.device, kernels)?;
        Ok(precision.with(kernels))
    }

    /// Returns fused kernels with the requested precision, f32 by default.
    ///
    /// # Errors
    /// Fails when the device does not support the precision.
    pub(crate) fn exact_compute(self) -> Result<Compute, Error> {
        let precision = self.precision.unwrap_or(PrecisionChoice::F32);
        precision.check(self.device, KernelChoice::Fused)?;
        Ok(precision.with(KernelChoice::Fused))
    }
}
