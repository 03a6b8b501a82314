//! The interface of an optimizer: the states that it keeps for each parameter, and its update of one parameter.

use std::fmt;
use std::ops::Range;

use bert_inference::checkpoint::OptimizerState;
use bert_kernels::Compute;
use bert_kernels::adamw::Updates;
use burn::tensor::Tensor;

/// The elements of a parameter that a rank updates, and their states.
#[derive(Debug)]
pub struct Parameter {
    /// The value of the whole parameter, `[n]`, without autodiff.
    pub value: Tensor<1>,
    /// The elements that this rank owns.
    pub owned: Range<usize>,
    /// The states of the owned elements, `[owned]` each, in the order of [`UpdateRule::states`].
    pub states: Vec<Tensor<1>>,
}

/// The settings of an update of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateNumbers {
    /// Number of updates of this parameter, this one included.
    pub count: u64,
    /// The factor by which the gradient is multiplied to clip the global norm.
    pub gradient_scale: f64,
    /// The learning rate, multiplied by the parameter's own multiplier.
    pub learning_rate: f64,
    /// Whether weight decay applies to the parameter. It does not apply to LayerNorm and biases.
    pub decays: bool,
}

/// One update of one parameter.
#[derive(Debug)]
pub struct Change {
    /// The parameter before the update.
    pub parameter: Parameter,
    /// The gradient of the owned elements, `[owned]`.
    pub gradient: Tensor<1>,
    /// The settings of the update.
    pub numbers: UpdateNumbers,
}

/// A rule that turns gradients into updates. [`Optimizer`](super::Optimizer) applies it to a model, divides the states
/// among the ranks, and saves and restores them.
pub trait UpdateRule: fmt::Debug + Send + Sync {
    /// Returns the states that the rule keeps for each element of a parameter. They are zero before the first update.
    fn states(&self) -> &'static [OptimizerState];

    /// Updates the states of a parameter and its value. A rule with [`UpdateRule::by_norms`] updates the states only.
    fn update(&self, kernels: &mut Updates, change: Change) -> Parameter;

    /// Returns the second pass of a rule whose learning rate depends on norms of whole parameters.
    fn by_norms(&self) -> Option<&dyn UpdateByNorms> {
        None
    }

    /// Returns the size of the states of one element of a parameter in bytes.
    fn bytes_per_element(&self) -> usize {
        size_of::<f32>() * self.states().len()
    }
}

/// Sums of squares of the chunks of a parameter that a rank owns.
#[derive(Clone, Debug, Default)]
pub struct NormSquares {
    /// Sums of squares of the parameter.
    pub parameter_squares: Vec<f64>,
    /// Sums of squares of its update at learning rate 1.
    pub update_squares: Vec<f64>,
}

/// The second pass of a rule whose learning rate depends on norms of whole parameters.
pub trait UpdateByNorms {
    /// Returns the sums of squares of the owned elements, whose states are already updated; `None` if the learning rate
    /// of this parameter does not depend on norms.
    fn squares(&self, compute: Compute, parameter: Parameter, numbers: UpdateNumbers) -> Option<NormSquares>;

    /// Returns the factor by which the learning rate is multiplied, from the norms of a whole parameter and
    /// of its update. Both norms are 0 if [`UpdateByNorms::squares`] returned `None`.
    fn ratio(&self, parameter_norm: f64, update_norm: f64) -> f64;

    /// Updates the value of a parameter whose states are already updated with this gradient. The learning rate includes
    /// the ratio.
    fn apply(&self, kernels: &mut Updates, change: Change) -> Parameter;
}
