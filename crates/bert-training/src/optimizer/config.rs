//! The configuration of an optimizer, and the rule that each name selects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::optimizer::adamw::AdamW;
use crate::optimizer::lamb::Lamb;
use crate::optimizer::update_rule::UpdateRule;

/// The optimizers that `--optimizer` selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerName {
    /// AdamW of the reference.
    #[default]
    #[cfg_attr(feature = "cli", value(name = "adamw"))]
    #[serde(rename = "adamw")]
    AdamW,
    /// LAMB as in NVIDIA's implementation, for batches of thousands of sequences.
    Lamb,
}

/// The hyper-parameters of AdamW and LAMB, apart from the learning rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Decay rate of the first moment.
    pub beta1: f64,
    /// Decay rate of the second moment.
    pub beta2: f64,
    /// Added to the square root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay, scaled by the learning rate; not applied to LayerNorm and biases.
    pub weight_decay: f64,
    /// Whether to apply Adam's bias correction. The reference does not.
    pub bias_correction: bool,
    /// Maximum global gradient norm; 0 disables clipping.
    pub max_gradient_norm: f64,
    /// The rule of the update.
    pub rule: OptimizerName,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self {
            rule: OptimizerName::AdamW,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-6,
            weight_decay: 0.01,
            bias_correction: false,
            max_gradient_norm: 1.0,
        }
    }
}

impl OptimizerConfig {
    /// Returns the rule of the update with its hyper-parameters. Another optimizer is registered here.
    pub fn update_rule(&self) -> Arc<dyn UpdateRule> {
        let Self { beta1, beta2, epsilon, weight_decay, bias_correction, .. } = *self;
        let adamw = AdamW { beta1, beta2, epsilon, weight_decay, bias_correction };
        match self.rule {
            OptimizerName::AdamW => Arc::new(adamw),
            OptimizerName::Lamb => Arc::new(Lamb(adamw)),
        }
    }
}
