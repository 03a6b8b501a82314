//! Initial values of adapters and LoRA, as the two libraries choose them.
//!
//! Weights of Pfeiffer's and Houlsby's adapters are normal with standard deviation 0.02 (`init_weights = "bert"`), so
//! they begin by adding almost nothing. For parallel adapters (`"mam_adapter"`) and LoRA the first matrix is uniform
//! within `1 / sqrt(inputs)` (`kaiming_uniform_` with `a = sqrt(5)`) and the second is zero, so they begin by adding
//! nothing. All biases are zero. The draws come from `bert_random`, not from PyTorch.

use super::bottleneck::BottleneckForm;
use super::{AdapterConfig, is_adapter_parameter};
use bert_random::{normal, uniform};

use crate::init::canonical;

const STANDARD_DEVIATION: f64 = 0.02;

/// The values of an adapter's parameter in the published layout; `None` for any other parameter.
pub(super) fn values(adapter: AdapterConfig, name: &str, shape: &[usize], seed: u64) -> Option<Vec<f32>> {
    if !is_adapter_parameter(name) {
        return None;
    }
    let name = canonical(name);
    let len = shape.iter().product();
    let kaiming = || uniform(&name, len, 1.0 / (shape[1] as f64).sqrt(), seed);
    let first = name.ends_with(".down.weight") || name.ends_with(".lora_A.weight");
    Some(match adapter {
        _ if name.ends_with(".bias") => vec![0.0; len],
        AdapterConfig::Bottleneck { form: BottleneckForm::Pfeiffer | BottleneckForm::Houlsby, .. } => {
            normal(&name, len, STANDARD_DEVIATION, seed)
        }
        AdapterConfig::Bottleneck { form: BottleneckForm::Parallel, .. } | AdapterConfig::Lora { .. } => {
            if first {
                kaiming()
            } else {
                vec![0.0; len]
            }
        }
    })
}
