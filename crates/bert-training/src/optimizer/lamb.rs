//! Implements LAMB (You et al., 2020, arXiv 1904.00962) as in NVIDIA's `multi_tensor_lamb.cu`.
//!
//! ```text
//! u     <- (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + decay * p
//! ratio <- |p| / |u|     if both are positive and weight decay applies to the parameter; else 1
//! p     <- p - lr * ratio * u
//! ```
//!
//! The gradients are clipped by their global norm before the moments are updated. The ratio has no maximum. LayerNorm
//! and biases have no weight decay, so their ratio is 1.

use bert_inference::checkpoint::OptimizerState;
use bert_kernels::Compute;
use bert_kernels::adamw::{self, Pass, Updates};

use crate::optimizer::adamw::{AdamW, MOMENTS, state};
use crate::optimizer::update_rule::{
    Change, NormSquares, Parameter, UpdateByNorms, UpdateNumbers, UpdateRule,
};

/// LAMB, with the moments and the update of AdamW.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lamb(pub AdamW);

impl UpdateRule for Lamb {
    fn states(&self) -> &'static [OptimizerState] {
        &MOMENTS
    }

    fn update(&self, kernels: &mut Updates, change: Change) -> Parameter {
        self.0.run(kernels.only(Pass::Moments), change)
    }

    fn by_norms(&self) -> Option<&dyn UpdateByNorms> {
        Some(self)
    }
}

impl UpdateByNorms for Lamb {
    fn squares(&self, compute: Compute, parameter: Parameter, numbers: UpdateNumbers) -> Option<NormSquares> {
        if self.0.weight_decay == 0.0 || !numbers.decays {
            return None;
        }
        let value = parameter.value.clone().slice([parameter.owned.clone()]);
        let parameter_squares = adamw::chunk_squares(compute, std::slice::from_ref(&value)).concat();
        let moments = state(Parameter { value, ..parameter });
        let update_squares = adamw::update_squares(compute, &moments, self.0.step(numbers));
        Some(NormSquares { parameter_squares, update_squares })
    }

    fn ratio(&self, parameter_norm: f64, update_norm: f64) -> f64 {
        if parameter_norm > 0.0 && update_norm > 0.0 { parameter_norm / update_norm } else { 1.0 }
    }

    fn apply(&self, kernels: &mut Updates, change: Change) -> Parameter {
        self.0.run(kernels.only(Pass::Parameter), change)
    }
}
