//! Default hyper-parameters that follow from the size of the model.
//!
//! Small models need higher learning rates than BERT-base. A hyper-parameter is given for a few released sizes, where
//! it was measured or published, and is interpolated between them: its logarithm is linear in the logarithm of the
//! number of encoder parameters. It is constant below the smallest and above the largest of these sizes.
//! `docs/guide/finetuning.md` and `docs/guide/pretraining.md` name the measurements.

use std::fmt;

use bert_inference::{ComputeArgs, DeviceName, KernelChoice, PrecisionChoice};
use bert_kernels::processor::fast_bf16;
use bert_model::{BertConfig, Preset};
use serde::{Deserialize, Serialize};

/// A hyper-parameter that the program chose because no option gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenDefault {
    /// Name of the option in the configuration, such as `learning_rate`.
    pub option: String,
    /// The value, as on the command line.
    pub value: String,
    /// The reason, such as `tiny, bigram initialization`.
    pub reason: String,
}

impl ChosenDefault {
    /// Creates a choice.
    pub fn new(option: &str, value: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self { option: option.to_owned(), value: value.to_string(), reason: reason.into() }
    }
}

impl fmt::Display for ChosenDefault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.option.replace('_', " "), self.value, self.reason)
    }
}

/// The size of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSize {
    encoder_parameters: f64,
    hidden_size: usize,
    /// Name of the released size, or a description such as `2 layers of 16`.
    pub name: String,
}

impl ModelSize {
    /// Returns the size of a model with this configuration.
    pub fn new(config: &BertConfig) -> Self {
        let layers = config.num_hidden_layers;
        let hidden = config.hidden_size;
        let same = |preset: &Preset| {
            let released = BertConfig::preset(*preset, config.vocab_size);
            (released.num_hidden_layers, released.hidden_size) == (layers, hidden)
        };
        let name = match Preset::ALL.iter().find(|preset| same(preset)) {
            Some(preset) => preset.name().to_owned(),
            None => format!("{layers} layers of {hidden}"),
        };
        Self { encoder_parameters: encoder_parameters(config), hidden_size: hidden, name }
    }

    /// Returns the value for this size, interpolated between the values of the given sizes, which are in
    /// ascending order. Interpolated values have two digits.
    pub fn interpolate(&self, points: &[(Preset, f64)]) -> f64 {
        let at = |preset: Preset| encoder_parameters(&BertConfig::preset(preset, 1)).ln();
        let here = self.encoder_parameters.ln();
        let above = points.iter().position(|&(preset, _)| here <= at(preset));
        match above {
            Some(0) => points[0].1,
            None => points[points.len() - 1].1,
            Some(above) => {
                let (low, from) = points[above - 1];
                let (high, to) = points[above];
                let share = (here - at(low)) / (at(high) - at(low));
                match share {
                    1.0 => to,
                    share => two_digits((from.ln() + share * (to.ln() - from.ln())).exp()),
                }
            }
        }
    }

    /// Returns whether the encoder has at most as many parameters as a released size.
    pub fn is_at_most(&self, preset: Preset) -> bool {
        self.encoder_parameters <= encoder_parameters(&BertConfig::preset(preset, 1))
    }

    /// Returns the precision of matrix products that trains fastest, with the reason. bf16 was measured for BERT-tiny
    /// and larger models; smaller models use f32.
    pub fn precision(&self, compute: &ComputeArgs) -> (PrecisionChoice, &'static str) {
        let measured = self.hidden_size >= BertConfig::preset(Preset::Tiny, 1).hidden_size;
        match (compute.device, compute.kernels, fast_bf16()) {
            (DeviceName::Cuda(_), ..) => (PrecisionChoice::Bf16, "CUDA"),
            (DeviceName::Wgpu(_), ..) => (PrecisionChoice::F32, "wgpu"),
            (DeviceName::Ndarray | DeviceName::Auto, ..) | (_, KernelChoice::Plain, _) => {
                (PrecisionChoice::F32, "no fused kernels")
            }
            (DeviceName::Flex, _, Some(unit)) if measured => (PrecisionChoice::Bf16, unit),
            (DeviceName::Flex, _, None) => (PrecisionChoice::F32, "no fast bf16 on this processor"),
            (DeviceName::Flex, _, Some(_)) => (PrecisionChoice::F32, "smaller than tiny"),
        }
    }
}

/// Returns the number of weights in the matrices of all layers.
fn encoder_parameters(config: &BertConfig) -> f64 {
    let hidden = config.hidden_size as f64;
    let inner = config.intermediate_size as f64;
    config.num_hidden_layers as f64 * (4.0 * hidden * hidden + 2.0 * hidden * inner)
}

/// Rounds a positive number to two significant digits.
fn two_digits(x: f64) -> f64 {
    format!("{x:.1e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: [(Preset, f64); 3] = [(Preset::Tiny, 1e-3), (Preset::Mini, 5e-4), (Preset::Base, 5e-5)];

    fn size(preset: Preset) -> ModelSize {
        ModelSize::new(&BertConfig::preset(preset, 1000))
    }

    #[test]
    fn given_sizes_have_their_values_exactly() {
        for (preset, value) in POINTS {
            assert_eq!(size(preset).interpolate(&POINTS), value);
        }
        assert_eq!(size(Preset::Large).interpolate(&POINTS), 5e-5);
        let smaller =
            BertConfig { hidden_size: 16, intermediate_size: 32, ..BertConfig::preset(Preset::Tiny, 9) };
        assert_eq!(ModelSize::new(&smaller).interpolate(&POINTS), 1e-3);
        assert_eq!(ModelSize::new(&smaller).name, "2 layers of 16");
    }

    #[test]
    fn values_between_sizes_fall_smoothly() {
        let values = Preset::ALL.map(|preset| size(preset).interpolate(&POINTS));
        assert!(values.is_sorted_by(|a, b| a >= b), "{values:?}");
        // On a logarithmic scale, 12.6 M and 25.2 M are 0.42 and 0.63 of the way from mini (3.1 M) to base (85 M).
        assert_eq!((values[2], values[3]), (1.9e-4, 1.2e-4));
    }

    #[test]
    fn precision_follows_the_device_and_the_kernels() {
        let precision = |device, kernels| {
            let compute = ComputeArgs { device, kernels, precision: None };
            size(Preset::Tiny).precision(&compute).0
        };
        assert_eq!(precision(DeviceName::Cuda(0), KernelChoice::Fused), PrecisionChoice::Bf16);
        assert_eq!(precision(DeviceName::Flex, KernelChoice::Plain), PrecisionChoice::F32);
        assert_eq!(precision(DeviceName::Ndarray, KernelChoice::Fused), PrecisionChoice::F32);
        let fast = if fast_bf16().is_some() { PrecisionChoice::Bf16 } else { PrecisionChoice::F32 };
        assert_eq!(precision(DeviceName::Flex, KernelChoice::Fused), fast);
        assert_eq!(
            ChosenDefault::new("learning_rate", "1e-3", "tiny").to_string(),
            "learning rate 1e-3 (tiny)"
        );
    }
}
