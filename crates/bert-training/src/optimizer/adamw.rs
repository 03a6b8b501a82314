//! Implements AdamW as in BERT.
//!
//! Ports `AdamWeightDecayOptimizer` of google-research/bert's `optimization.py`. The gradients `g` are summed over
//! the micro-batches of a step:
//!
//! ```text
//! g <- g * clip / max(clip, |all g|)
//! m <- b1 m + (1 - b1) g ;  v <- b2 v + (1 - b2) g^2
//! u <- m / (sqrt(v) + eps)                  (with bias correction: m / (1 - b1^t), v / (1 - b2^t);
//!                                            t counts the updates of this parameter)
//! u <- u + decay * p                        unless the name has LayerNorm or bias in it
//! p <- p - lr * u                            (times the parameter's own rate, if it has one)
//! ```
//!
//! burn's own AdamW always corrects bias and clips each tensor separately, so neither matches BERT.

use bert_inference::checkpoint::OptimizerState;
use bert_kernels::adamw::{self, Updates};

use crate::optimizer::update_rule::{Change, Parameter, UpdateNumbers, UpdateRule};

/// The moments, which LAMB has too.
pub(super) const MOMENTS: [OptimizerState; 2] =
    [OptimizerState { name: "first", is_square: false }, OptimizerState { name: "second", is_square: true }];

/// AdamW of the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay rate of the first moment.
    pub beta1: f64,
    /// Decay rate of the second moment.
    pub beta2: f64,
    /// The constant that is added to the square root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay, scaled by the learning rate.
    pub weight_decay: f64,
    /// Whether to apply Adam's bias correction.
    pub bias_correction: bool,
}

impl AdamW {
    /// Returns the hyper-parameters of an update for the kernels.
    pub(super) fn step(&self, numbers: UpdateNumbers) -> adamw::AdamW {
        let Self { beta1, beta2, epsilon, weight_decay, bias_correction } = *self;
        let t = numbers.count as f64;
        adamw::AdamW {
            beta1,
            beta2,
            epsilon,
            weight_decay: if numbers.decays { weight_decay } else { 0.0 },
            corrections: bias_correction.then(|| (1.0 - beta1.powf(t), 1.0 - beta2.powf(t))),
            gradient_scale: numbers.gradient_scale,
            learning_rate: numbers.learning_rate,
        }
    }

    /// Computes the part of an update for which `kernels` is set.
    pub(super) fn run(&self, kernels: &mut Updates, change: Change) -> Parameter {
        let Change { parameter, gradient, numbers } = change;
        let owned = parameter.owned.clone();
        let updated = kernels.update_part(state(parameter), owned.clone(), gradient, self.step(numbers));
        Parameter { value: updated.parameter, owned, states: vec![updated.first, updated.second] }
    }
}

impl UpdateRule for AdamW {
    fn states(&self) -> &'static [OptimizerState] {
        &MOMENTS
    }

    fn update(&self, kernels: &mut Updates, change: Change) -> Parameter {
        self.run(kernels, change)
    }
}

/// Returns the arguments of a kernel.
pub(super) fn state(parameter: Parameter) -> adamw::State {
    let Parameter { value, states, .. } = parameter;
    let [first, second] = states.try_into().expect("two moments");
    adamw::State { parameter: value, first, second }
}
