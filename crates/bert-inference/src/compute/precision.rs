//! Implements `--precision`: decides whether the inputs of matrix products are rounded to bf16, rejects bf16 where it
//! cannot be fast, and warns where it is slow.
//!
//! The choice becomes the [`Precision`] of a [`Compute`], which is part of the model's configuration and of the
//! optimizer. Parameters, moments, softmax, LayerNorm and losses are always in f32; the module `precision` of
//! `bert_kernels` documents which values are rounded.
//!
//! On a CPU the only reason for bf16 is speed, so it is rejected where it cannot be faster than f32: without AVX-512
//! BF16, with plain burn operations, and on `ndarray`. With AVX-512 BF16 the speed depends on the processor: bf16 is
//! faster on AMD's Zen 4 and 5, much faster on Intel's Xeons with AMX tiles, and slower on Xeons without them.
//! Therefore one product is timed in each precision at the start, and a warning is printed if bf16 is slower.
//!
//! On CUDA bf16 is the default, to use the tensor cores. With f32, products there use TF32 (inputs with 11 bits of
//! significand) on every GPU whose tensor cores support it. burn 0.22.1 tries that kernel first (cubek-matmul 0.3.1,
//! `strategy.rs` and `adjust_dtypes`), and no setting changes that. On wgpu, f32 is the default, because WGSL has no
//! bf16. A build with `vulkan` or `metal` accepts bf16 if the device has it.

use bert_kernels::processor::{ProductTimes, product_times};
use bert_kernels::{Compute, Precision, has_bf16_instructions};
use bert_model::BertConfig;
use burn::tensor::{DType, Device};
use serde::{Deserialize, Serialize};

use crate::compute::device::{DeviceName, KernelChoice};
use crate::error::Error;

/// The precision of matrix products, as on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum PrecisionChoice {
    /// f32; on CUDA, inputs are rounded to TF32 if the card supports it.
    #[default]
    F32,
    /// Inputs in bf16, sums and everything else in f32; on CUDA, products are rounded to bf16 as well.
    Bf16,
}

impl PrecisionChoice {
    /// Returns the name of the precision on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// Returns the requested precision, or the device's default: bf16 on CUDA, f32 on other devices.
    pub fn or_default(asked: Option<Self>, device: DeviceName) -> Self {
        asked.unwrap_or(match device {
            DeviceName::Cuda(_) => Self::Bf16,
            DeviceName::Flex | DeviceName::Ndarray | DeviceName::Wgpu(_) | DeviceName::Auto => Self::F32,
        })
    }

    /// Rejects bf16 where the device lacks it, or where it cannot be faster than f32.
    ///
    /// # Errors
    /// Fails when bf16 is rejected; the error names the flag. Also fails when the device cannot be opened.
    pub fn check(self, device: DeviceName, kernels: KernelChoice) -> Result<(), Error> {
        let available = match (self, device) {
            (Self::Bf16, DeviceName::Wgpu(_)) => has_bf16(&device.open()?),
            _ => has_bf16_instructions(),
        };
        refusal(self, device, kernels, available)
            .map_or(Ok(()), |reason| Err(Error::option("precision", reason.to_string())))
    }

    /// Returns a warning if this precision is slower than f32: times one product of the model's feed-forward network,
    /// with `tokens` rows, in both precisions for a tenth of a second. This does not affect any result.
    pub fn warning(self, device: DeviceName, model: &BertConfig, tokens: usize) -> Option<String> {
        match (self, device) {
            (Self::Bf16, DeviceName::Flex) => {
                let measure = || product_times(tokens, model.hidden_size, model.intermediate_size);
                // Another program may take the processor during one measurement, so two measurements must agree.
                slower(measure()?).and_then(|_| slower(measure()?))
            }
            _ => None,
        }
    }

    /// Returns the compute settings of a model with this precision.
    pub fn with(self, kernels: KernelChoice) -> Compute {
        let precision = match self {
            Self::F32 => Precision::F32,
            Self::Bf16 => Precision::Bf16,
        };
        Compute { kernels: kernels.into(), precision }
    }
}

/// Returns whether a GPU has products in bf16.
pub(crate) fn has_bf16(device: &Device) -> bool {
    device.supports_dtype(DType::BF16)
}

/// Returns a warning if products take at least 10 % longer in bf16 than in f32.
fn slower(times: ProductTimes) -> Option<String> {
    let ratio = times.bf16.as_secs_f64() / times.f32.as_secs_f64();
    (ratio >= 1.1).then(|| {
        format!(
            "bf16 products take {ratio:.1} times as long as f32 products on this processor; `.precision f32` is faster"
        )
    })
}

fn refusal(
    precision: PrecisionChoice,
    device: DeviceName,
    kernels: KernelChoice,
    available: bool,
) -> Option<&'static str> {
    match (precision, device, kernels) {
        (PrecisionChoice::F32, ..) | (_, DeviceName::Cuda(_), _) => None,
        (_, DeviceName::Ndarray, _) => Some("the ndarray backend has no bf16; use `.device flex`, or f32"),
        (_, DeviceName::Flex, KernelChoice::Plain) => {
            Some("burn's operations have no fast bf16 on a CPU; use `.kernels fused`, or f32")
        }
        (_, DeviceName::Wgpu(_) | DeviceName::Auto, _) => (!available).then_some(
            "this device has no bf16, or the kernels of this build have none: build with --features vulkan or metal, or \
             use f32",
        ),
        (_, DeviceName::Flex, _) => (!available)
            .then_some("this processor has no AVX-512 BF16 instructions, so bf16 would be slower; use f32"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_is_the_default_on_cuda_only() {
        for (device, default) in [
            (DeviceName::Flex, PrecisionChoice::F32),
            (DeviceName::Ndarray, PrecisionChoice::F32),
            (DeviceName::Cuda(1), PrecisionChoice::Bf16),
            (DeviceName::Wgpu(0), PrecisionChoice::F32),
        ] {
            assert_eq!(PrecisionChoice::or_default(None, device), default);
            for asked in [PrecisionChoice::F32, PrecisionChoice::Bf16] {
                assert_eq!(PrecisionChoice::or_default(Some(asked), device), asked);
            }
        }
    }

    #[test]
    fn slower_bf16_gives_a_warning() {
        let times = |f32, bf16| {
            let us = std::time::Duration::from_micros;
            slower(ProductTimes { f32: us(f32), bf16: us(bf16) })
        };
        for (f32, bf16) in [(1000, 400), (1000, 1000), (1000, 1090)] {
            assert_eq!(times(f32, bf16), None);
        }
        for (f32, bf16, message) in [(1000, 1100, "take 1.1 times"), (430, 840, "take 2.0 times")] {
            let text = times(f32, bf16).expect("a warning");
            assert!(text.contains(message) && text.contains("`.precision f32` is faster"), "{text}");
        }
        let model = BertConfig::preset(bert_model::Preset::Tiny, 100);
        // Nothing is timed unless bf16 was requested and our kernels are used.
        assert_eq!(PrecisionChoice::F32.warning(DeviceName::Flex, &model, 64), None);
        assert_eq!(PrecisionChoice::Bf16.warning(DeviceName::Cuda(0), &model, 64), None);
    }

    #[test]
    fn bf16_is_rejected_where_it_is_slow() {
        use {DeviceName::*, KernelChoice::*, PrecisionChoice::*};
        let refused = |device, kernels, instructions| refusal(Bf16, device, kernels, instructions);
        assert_eq!(refused(Flex, Fused, true), None);
        assert!(refused(Flex, Fused, false).unwrap().contains("AVX-512 BF16"));
        assert!(refused(Flex, Plain, true).unwrap().contains("`.kernels fused`"));
        assert!(refused(Ndarray, Fused, true).unwrap().contains("`.device flex`"));
        assert_eq!(refused(Wgpu(0), Fused, true), None);
        assert!(refused(Wgpu(0), Fused, false).unwrap().contains("--features vulkan"));
        for kernels in [Fused, Plain] {
            assert_eq!(refused(Cuda(0), kernels, false), None);
            assert_eq!(refusal(F32, Ndarray, kernels, false), None);
        }
        let error = Bf16.check(Ndarray, Fused).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().starts_with("`.precision`: "), "{error}");
    }
}
