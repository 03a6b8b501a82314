//! The libraries' initial values: an adapter begins near nothing, a parallel one and LoRA at nothing.
//!
//! Normal of standard deviation 0.02 for Pfeiffer's and Houlsby's (`init_weights = "bert"`); for parallel adapters
//! (`"mam_adapter"`) and LoRA the first matrix uniform within `1 / sqrt(inputs)` (`kaiming_uniform_` with `a = sqrt(5)`)
//! and the second zero. All biases are zero. The draws are those of [`crate::init`], not PyTorch's.

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
