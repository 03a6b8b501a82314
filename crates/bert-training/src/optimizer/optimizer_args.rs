//! The flags of the optimizer that pre-training and fine-tuning share.
//!
//! [`OptimizerConfig`] is the configuration of an optimizer and selects the rule of its update.
//!
//! [`Schedule`] computes learning rates as pure functions of the step.
//!
//! Ports `create_optimizer` of google-research/bert's `optimization.py` (`bert`), the linear schedule of Hugging Face
//! transformers (`linear`), the trapezoidal schedule of Hägele et al., 2024 (`trapezoid`, arXiv 2405.18392) and
//! NVIDIA's `PolyWarmUpScheduler` (`poly`). Steps are counted from 0, which is the first update. A schedule has no
//! state, so a resumed run has the learning rates of an uninterrupted one.

use std::sync::Arc;

#[cfg(feature = "cli")]
use clap::ArgAction;
use serde::{Deserialize, Serialize};

use crate::error::{Error, check_value};
use crate::optimizer::adamw::AdamW;
use crate::optimizer::lamb::Lamb;
use crate::optimizer::update_rule::UpdateRule;

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
        let epsilon = self.adam_epsilon;
        check_value(epsilon.is_finite() && epsilon > 0.0, "adam_epsilon", epsilon, "positive")?;
        let settings = [("weight_decay", self.weight_decay), ("max_gradient_norm", self.max_gradient_norm)];
        settings.into_iter().try_for_each(|(setting, value)| {
            check_value(value.is_finite() && value >= 0.0, setting, value, "0 or more")
        })
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
    /// The constant that is added to the square root of the second moment.
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
    /// Returns the rule of the update with its hyper-parameters. A new optimizer must be added here.
    pub fn update_rule(&self) -> Arc<dyn UpdateRule> {
        let Self { beta1, beta2, epsilon, weight_decay, bias_correction, .. } = *self;
        let adamw = AdamW { beta1, beta2, epsilon, weight_decay, bias_correction };
        match self.rule {
            OptimizerName::AdamW => Arc::new(adamw),
            OptimizerName::Lamb => Arc::new(Lamb(adamw)),
        }
    }
}

/// Shape of the learning rate after warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// The reference: linear to zero over all steps, warm-up included, so that there is a small
    /// drop at the end of warm-up.
    Bert,
    /// Linear from the peak at the end of warm-up to zero at the last step.
    Linear,
    /// The peak until four fifths of all steps, then linear to zero at the last step.
    Trapezoid,
    /// The square root of the remaining part of all steps, warm-up included, so that there is a drop at the end of
    /// warm-up: NVIDIA's schedule for LAMB. The first update does not have learning rate 0, the last one does.
    Poly,
    /// Constant at the peak after warm-up.
    Constant,
}

/// A learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Shape after warm-up.
    pub kind: ScheduleKind,
    /// The peak learning rate.
    pub peak: f64,
    /// Total number of updates, N.
    pub total_steps: u64,
    /// Number of warm-up updates, w; the first has learning rate 0. It need not be an integer if warm-up is a share of
    /// all steps.
    pub warmup_steps: f64,
}

impl Schedule {
    /// Returns the learning rate of update number `step`, counted from 0.
    pub fn learning_rate(&self, step: u64) -> f64 {
        let first = if self.kind == ScheduleKind::Poly { 1 } else { 0 };
        let s = (step + first) as f64;
        let w = self.warmup_steps;
        let n = self.total_steps as f64;
        if s < w {
            return self.peak * s / w;
        }
        match self.kind {
            ScheduleKind::Bert => self.peak * (1.0 - s.min(n) / n),
            ScheduleKind::Linear => self.peak * ((n - s) / (n - w).max(1.0)).max(0.0),
            ScheduleKind::Trapezoid => self.peak * ((n - s) / (0.2 * n)).clamp(0.0, 1.0),
            ScheduleKind::Poly => self.peak * (1.0 - s.min(n) / n).sqrt(),
            ScheduleKind::Constant => self.peak,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(kind: ScheduleKind) -> Schedule {
        Schedule { kind, peak: 1e-4, total_steps: 1_000_000, warmup_steps: 10_000.0 }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    }

    // Expected values: the formulas of optimization.py computed by hand for the paper's setting.
    #[test]
    fn the_reference_has_a_cliff_at_the_end_of_warmup() {
        let schedule = paper(ScheduleKind::Bert);
        close(schedule.learning_rate(0), 0.0);
        close(schedule.learning_rate(9_999), 9.999e-5);
        close(schedule.learning_rate(10_000), 9.9e-5);
        close(schedule.learning_rate(500_000), 5.0e-5);
        close(schedule.learning_rate(900_000), 1.0e-5);
        close(schedule.learning_rate(999_999), 1e-10);
        close(schedule.learning_rate(2_000_000), 0.0);
    }

    #[test]
    fn the_linear_schedule_starts_at_the_peak() {
        let schedule = paper(ScheduleKind::Linear);
        close(schedule.learning_rate(10_000), 1e-4);
        close(schedule.learning_rate(505_000), 5e-5);
        close(schedule.learning_rate(1_000_000), 0.0);
        close(schedule.learning_rate(1_000_001), 0.0);
    }

    #[test]
    fn the_trapezoid_falls_over_its_last_fifth() {
        let schedule = paper(ScheduleKind::Trapezoid);
        close(schedule.learning_rate(5_000), 5e-5);
        close(schedule.learning_rate(10_000), 1e-4);
        close(schedule.learning_rate(800_000), 1e-4);
        close(schedule.learning_rate(900_000), 5e-5);
        close(schedule.learning_rate(999_999), 5e-10);
        close(schedule.learning_rate(1_000_001), 0.0);
    }

    // Expected values: `PolyWarmUpScheduler` of NVIDIA's BERT with the settings of its two phases.
    #[test]
    fn poly_has_the_published_rates() {
        let phase = |peak, total_steps: u64, warmup: f64| {
            let warmup_steps = warmup * total_steps as f64;
            Schedule { kind: ScheduleKind::Poly, peak, total_steps, warmup_steps }
        };
        let one = phase(6e-3, 7_038, 0.2843);
        let two = phase(4e-3, 1_563, 0.128);
        let rates = [(1, 2.998646e-6), (2_000, 5.997291e-3), (2_001, 5.075895e-3), (3_519, 4.242641e-3)];
        let last = [(7_037, 7.151985e-5), (7_038, 0.0)];
        for (t, rate) in rates.into_iter().chain(last) {
            assert!((one.learning_rate(t - 1) - rate).abs() < 1e-9, "update {t}");
        }
        for (t, rate) in [(1, 1.999360e-5), (200, 3.998720e-3), (201, 3.733955e-3), (1_562, 1.011767e-4)] {
            assert!((two.learning_rate(t - 1) - rate).abs() < 1e-9, "update {t}");
        }
    }

    #[test]
    fn no_warmup_starts_at_the_peak() {
        let schedule = Schedule { warmup_steps: 0.0, ..paper(ScheduleKind::Bert) };
        close(schedule.learning_rate(0), 1e-4);
        close(paper(ScheduleKind::Constant).learning_rate(999_999), 1e-4);
    }
}
