//! The flags of the optimizer that pre-training and fine-tuning share.

#[cfg(feature = "cli")]
use clap::ArgAction;
use serde::{Deserialize, Serialize};

use crate::error::{Error, check};
use crate::optimizer::config::{OptimizerConfig, OptimizerName};
use crate::optimizer::lr_schedule::ScheduleKind;

/// The optimizer, its hyper-parameters and the shape of the learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args), command(next_help_heading = "Optimizer"))]
#[setters(prefix = "with_")]
#[serde(default)]
pub struct OptimizerArgs {
    /// Rule of the update: adamw, or lamb for batches of thousands of sequences.
    #[cfg_attr(
        feature = "cli",
        arg(long, hide_short_help = true, value_enum, default_value_t = Self::default().optimizer)
    )]
    pub optimizer: OptimizerName,

    /// Learning-rate schedule: bert (the reference), linear (Hugging Face), trapezoid, poly (NVIDIA's LAMB) or constant.
    #[cfg_attr(
        feature = "cli",
        arg(long, hide_short_help = true, value_enum, default_value_t = Self::default().schedule)
    )]
    pub schedule: ScheduleKind,

    /// Decoupled weight decay; not applied to LayerNorm and biases.
    #[cfg_attr(
        feature = "cli",
        arg(long, hide_short_help = true, value_name = "X", default_value_t = Self::default().weight_decay)
    )]
    pub weight_decay: f64,

    /// Adam's epsilon.
    #[cfg_attr(
        feature = "cli",
        arg(long, hide_short_help = true, value_name = "X", default_value_t = Self::default().adam_epsilon)
    )]
    pub adam_epsilon: f64,

    /// Apply Adam's bias correction; LAMB always does. The reference does not; without it, fine-tuning varies more
    /// between seeds.
    #[cfg_attr(
        feature = "cli",
        arg(
            long, hide_short_help = true, value_name = "BOOL",
            default_value_t = Self::default().adam_bias_correction, action = ArgAction::Set
        )
    )]
    pub adam_bias_correction: bool,

    /// Maximum global gradient norm; 0 disables clipping.
    #[cfg_attr(
        feature = "cli",
        arg(long, hide_short_help = true, value_name = "X", default_value_t = Self::default().max_gradient_norm)
    )]
    pub max_gradient_norm: f64,
}

impl Default for OptimizerArgs {
    fn default() -> Self {
        let default = OptimizerConfig::default();
        Self {
            optimizer: OptimizerName::AdamW,
            schedule: ScheduleKind::Bert,
            weight_decay: default.weight_decay,
            adam_epsilon: default.epsilon,
            adam_bias_correction: default.bias_correction,
            max_gradient_norm: default.max_gradient_norm,
        }
    }
}

impl OptimizerArgs {
    /// Checks each value.
    pub fn check(&self) -> Result<(), Error> {
        let decay = self.weight_decay;
        let norm = self.max_gradient_norm;
        check(decay.is_finite() && decay >= 0.0, "weight_decay", "must not be negative")?;
        check(self.adam_epsilon.is_finite() && self.adam_epsilon > 0.0, "adam_epsilon", "must be positive")?;
        check(norm.is_finite() && norm >= 0.0, "max_gradient_norm", "must not be negative")
    }

    /// Returns the hyper-parameters of the optimizer, with the default decay rates of the moments.
    pub fn config(&self) -> OptimizerConfig {
        OptimizerConfig {
            epsilon: self.adam_epsilon,
            weight_decay: self.weight_decay,
            bias_correction: self.adam_bias_correction || self.optimizer == OptimizerName::Lamb,
            rule: self.optimizer,
            max_gradient_norm: self.max_gradient_norm,
            ..OptimizerConfig::default()
        }
    }
}
