//! The flags for the device, the kernels and the precision.

use serde::{Deserialize, Serialize};

#[cfg(feature = "cli")]
use crate::compute::device::DEVICE_HELP;
use crate::compute::device::{DeviceName, KernelChoice};
use crate::compute::precision::PrecisionChoice;
use crate::error::Error;

/// Device, kernels and precision of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args), command(next_help_heading = "Compute"))]
#[setters(prefix = "with_", strip_option)]
#[serde(default)]
pub struct ComputeArgs {
    /// Compute device; see `DEVICE_HELP`.
    #[cfg_attr(
        feature = "cli",
        arg(long, value_name = "DEVICE", default_value_t = Self::default().device, help = DEVICE_HELP)
    )]
    pub device: DeviceName,

    /// Use the fused kernels, or plain burn operations (slower; for debugging and teaching).
    #[cfg_attr(
        feature = "cli",
        arg(long, hide_short_help = true, value_enum, default_value_t = Self::default().kernels)
    )]
    pub kernels: KernelChoice,

    /// Precision of products [default: by model and device]. The default also depends on the processor.
    #[cfg_attr(feature = "cli", arg(long, value_enum))]
    pub precision: Option<PrecisionChoice>,
}

impl Default for ComputeArgs {
    fn default() -> Self {
        Self { device: DeviceName::Flex, kernels: KernelChoice::Fused, precision: None }
    }
}

impl ComputeArgs {
    /// Returns the requested precision of matrix products, or the device's default.
    pub fn precision(&self) -> PrecisionChoice {
        PrecisionChoice::or_default(self.precision, self.device)
    }

    /// Returns the requested precision of matrix products, or else `default`.
    ///
    /// # Errors
    /// Fails when the device or the kernels do not support the precision.
    pub fn checked_precision(&self, default: PrecisionChoice) -> Result<PrecisionChoice, Error> {
        let precision = self.precision.unwrap_or(default);
        precision.check(self.device, self.kernels).map(|()| precision)
    }
}

/// A heading of the help with its flags, by their ids.
#[cfg(feature = "cli")]
pub struct HelpGroup {
    /// The heading.
    pub heading: &'static str,
    /// Flags of `-h` and `--help`.
    pub common: &'static [&'static str],
    /// Flags of `--help` only.
    pub rare: &'static [&'static str],
}

/// Returns a flag with its heading from `groups`; `-h` hides rare flags. A flag that is in no group is unchanged and
/// comes first in the help.
#[cfg(feature = "cli")]
pub fn with_heading(flag: clap::Arg, groups: &[HelpGroup]) -> clap::Arg {
    let id = flag.get_id().to_string();
    let id = id.as_str();
    match groups.iter().find(|group| group.common.contains(&id) || group.rare.contains(&id)) {
        Some(group) => flag.help_heading(group.heading).hide_short_help(group.rare.contains(&id)),
        None => flag,
    }
}
