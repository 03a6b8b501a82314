//! Implements AdamW as in BERT, with clipping by the global gradient norm.
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
//!
//! LAMB ([`UpdateRule::Lamb`]) uses the same moments and the same `u`, and multiplies the learning rate by a ratio of
//! norms, which `training::lamb` computes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bert_inference::Error;
use bert_inference::compute::host_tensors::{MomentValues, float_vector};
use bert_kernels::{Compute, adamw};
use bert_model::Snapshot;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::gradients::gradient_sum::Tensors;
use crate::gradients::layout::{Layout, Segment};
use crate::optimizer::snapshot_throttle::SnapshotThrottle;

/// The rule that turns gradients into updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum UpdateRule {
    /// AdamW of the reference.
    #[default]
    #[cfg_attr(feature = "cli", value(name = "adamw"))]
    #[serde(rename = "adamw")]
    AdamW,
    /// LAMB as in NVIDIA's implementation, for batches of thousands of sequences.
    Lamb,
}

impl UpdateRule {
    /// Returns whether this is AdamW, which files do not record.
    fn is_adamw(&self) -> bool {
        *self == Self::AdamW
    }
}

/// The hyper-parameters of AdamW and LAMB, apart from the learning rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamWConfig {
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
    #[serde(default, skip_serializing_if = "UpdateRule::is_adamw")]
    pub rule: UpdateRule,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self {
            rule: UpdateRule::AdamW,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-6,
            weight_decay: 0.01,
            bias_correction: false,
            max_gradient_norm: 1.0,
        }
    }
}

/// Both moments of the elements of a parameter that this rank owns.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    pub(crate) first: Tensor<1>,
    pub(crate) second: Tensor<1>,
}

/// Sums of squares of the chunks of a parameter that this rank owns.
#[derive(Clone, Debug, Default)]
pub(crate) struct NormSquares {
    pub(crate) parameter_squares: Vec<f64>,
    pub(crate) update_squares: Vec<f64>,
}

/// The gradients of a step that this rank needs for its update.
#[derive(Debug)]
pub(crate) struct StepGradients {
    /// The gradient of the elements of each parameter that this rank owns; `None` if it owns none, or if the parameter
    /// has no gradient.
    pub(crate) tensors: Tensors,
    /// Whether each parameter has a gradient.
    pub(crate) has_gradient: Vec<bool>,
}

impl StepGradients {
    /// Creates the gradients of a process that owns all elements.
    pub(crate) fn complete(tensors: Tensors) -> Self {
        Self { has_gradient: tensors.iter().map(Option::is_some).collect(), tensors }
    }
}

/// The optimizer's state: both moments of every parameter that has received a gradient. In a process group, each rank
/// has the moments of the elements that it owns.
#[derive(Clone, Debug)]
pub struct AdamW {
    config: AdamWConfig,
    names: Vec<String>,
    /// Per-parameter learning-rate multiplier.
    rates: Vec<f64>,
    layout: Layout,
    /// The elements of each parameter that this rank owns.
    owned: Vec<Range<usize>>,
    moments: Vec<Option<Moments>>,
    /// Number of updates of each parameter.
    counts: Vec<u64>,
    /// Whether each parameter has moments, on any rank: of an update, or of the run that this one continues from.
    has_moments: Vec<bool>,
    updates: u64,
    compute: Compute,
    throttle: Option<Arc<SnapshotThrottle>>,
}

impl AdamW {
    /// Creates an optimizer for `module`, with moments at zero.
    pub fn new<M: Module>(config: AdamWConfig, module: &M) -> Self {
        let parameters = bert_model::named_parameters(module).into_iter();
        let (names, lengths): (Vec<String>, Vec<usize>) =
            parameters.map(|(name, _, shape)| (name, shape.iter().product::<usize>())).unzip();
        Self {
            config,
            rates: vec![1.0; names.len()],
            owned: lengths.iter().map(|&length| 0..length).collect(),
            moments: vec![None; names.len()],
            counts: vec![0; names.len()],
            has_moments: vec![false; names.len()],
            names,
            layout: Layout::new(lengths, 1),
            updates: 0,
            compute: Compute::default(),
            throttle: None,
        }
    }

    /// Divides the state among the ranks of a group; this process is `rank`. Call it before the first update.
    #[must_use]
    pub(crate) fn sharded(mut self, rank: usize, ranks: usize) -> Self {
        self.layout = Layout::new(self.layout.lengths().to_vec(), ranks);
        self.owned.fill(0..0);
        for Segment { tensor, range } in self.layout.segments(rank) {
            self.owned[*tensor] = range.clone();
        }
        self
    }

    /// Returns the owners of the elements.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sets the kernels and precision, which should match the model's.
    #[must_use]
    pub fn with_compute(self, compute: Compute) -> Self {
        Self { compute, ..self }
    }

    /// Returns the kernels and precision.
    pub fn compute(&self) -> Compute {
        self.compute
    }

    /// Sets learning-rate multipliers that depend on the parameter's name.
    #[must_use]
    pub fn with_rates(mut self, factor: impl Fn(&str) -> f64) -> Self {
        self.rates = self.names.iter().map(|name| factor(name)).collect();
        self
    }

    /// Returns the number of updates so far.
    pub(crate) fn updates(&self) -> u64 {
        self.updates
    }

    /// Returns whether each parameter has moments, in the module's order.
    pub(crate) fn has_moments(&self) -> &[bool] {
        &self.has_moments
    }

    /// Returns the number of updates of each parameter, in the module's order.
    pub(crate) fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the moments of each parameter that has received a gradient, in the module's order.
    pub(crate) fn moments(&self) -> &[Option<Moments>] {
        &self.moments
    }

    /// Returns the rule of the update.
    pub(crate) fn rule(&self) -> UpdateRule {
        self.config.rule
    }

    /// Applies one update of AdamW with gradients whose global norm is `norm`. With a learning rate of 0 only the moments
    /// change.
    pub(crate) fn update<M: Module>(
        &mut self,
        module: M,
        gradients: StepGradients,
        norm: f64,
        learning_rate: f64,
    ) -> M {
        if let Some(throttle) = self.throttle.take() {
            throttle.wait();
        }
        self.updates += 1;
        for (index, has_gradient) in gradients.has_gradient.into_iter().enumerate() {
            self.counts[index] += u64::from(has_gradient);
            self.has_moments[index] |= has_gradient;
        }
        let clip = self.config.max_gradient_norm;
        let scale = if clip > 0.0 { clip / norm.max(clip) } else { 1.0 };
        let step = |optimizer: &Self, index| adamw::AdamW {
            gradient_scale: scale,
            learning_rate: learning_rate * optimizer.rates[index],
            ..optimizer.hyper_parameters(index)
        };
        let updates = adamw::Updates::new(self.compute);
        module.map(&mut Update { optimizer: self, updates, gradients: gradients.tensors, index: 0, step })
    }

    /// Changes the parameters that have a gradient by their update, from moments that are already updated; multiplies
    /// the learning rate of parameter `i` by `ratios[i]`.
    pub fn apply<M: Module>(
        &mut self,
        module: M,
        gradients: Tensors,
        ratios: &[f64],
        learning_rate: f64,
    ) -> M {
        // A decay rate of 1 leaves a moment as it is.
        let step = |optimizer: &Self, index| adamw::AdamW {
            beta1: 1.0,
            beta2: 1.0,
            learning_rate: learning_rate * optimizer.rates[index] * ratios[index],
            ..optimizer.hyper_parameters(index)
        };
        let updates = adamw::Updates::new(self.compute);
        module.map(&mut Update { optimizer: self, updates, gradients, index: 0, step })
    }

    /// Returns the sums of squares of the owned chunks of parameter number `index` and of its update; `None` if this rank
    /// owns none, or if the parameter has no moments.
    pub(crate) fn squares(&self, index: usize, parameter: Tensor<1>) -> Option<NormSquares> {
        let Moments { first, second } = self.moments[index].clone()?;
        let parameter = parameter.slice([self.owned[index].clone()]);
        let parameter_squares = adamw::chunk_squares(self.compute, std::slice::from_ref(&parameter)).concat();
        let state = adamw::State { parameter, first, second };
        let update_squares = adamw::update_squares(self.compute, &state, self.hyper_parameters(index));
        Some(NormSquares { parameter_squares, update_squares })
    }

    /// Returns whether weight decay applies to parameter number `index`.
    pub(crate) fn decays(&self, index: usize) -> bool {
        self.config.weight_decay != 0.0 && decays_weight(&self.names[index])
    }

    /// Returns the hyper-parameters of the next update of parameter number `index`, at learning rate 1 and without
    /// clipping.
    fn hyper_parameters(&self, index: usize) -> adamw::AdamW {
        let AdamWConfig { beta1, beta2, epsilon, weight_decay, bias_correction, .. } = self.config;
        let t = self.counts[index] as f64;
        adamw::AdamW {
            beta1,
            beta2,
            epsilon,
            weight_decay: if self.decays(index) { weight_decay } else { 0.0 },
            corrections: bias_correction.then(|| (1.0 - beta1.powf(t), 1.0 - beta2.powf(t))),
            gradient_scale: 1.0,
            learning_rate: 1.0,
        }
    }

    /// Returns the new value of parameter number `index`.
    fn step(
        &mut self,
        updates: &mut adamw::Updates,
        index: usize,
        parameter: Tensor<1>,
        gradient: Tensor<1>,
        step: adamw::AdamW,
    ) -> Tensor<1> {
        let fresh = || Moments { first: gradient.zeros_like(), second: gradient.zeros_like() };
        let Moments { first, second } = self.moments[index].take().unwrap_or_else(fresh);
        let state = adamw::State { parameter, first, second };
        let updated = updates.update_part(state, self.owned[index].clone(), gradient, step);
        self.moments[index] = Some(Moments { first: updated.first, second: updated.second });
        updated.parameter
    }

    /// Returns the current moments of every parameter that has received a gradient, for a checkpoint: `first.<name>`
    /// and `second.<name>`. `moments` has them in the module's order.
    pub(crate) fn snapshot_of(&self, moments: Vec<Option<Moments>>) -> Snapshot {
        let named = self.names.iter().zip(moments);
        let moments = named.filter_map(|(name, moments)| {
            let Moments { first, second } = moments?;
            Some([(format!("first.{name}"), first), (format!("second.{name}"), second)])
        });
        Snapshot::from_tensors(moments.flatten())
    }

    /// Returns `AdamW::snapshot_of` for the optimizer's own moments, in a process that owns all elements.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_of(self.moments.clone())
    }

    /// Makes the next update wait until snapshots in flight have freed enough memory.
    pub(crate) fn throttle_on(&mut self, throttle: Arc<SnapshotThrottle>) {
        self.throttle = Some(throttle);
    }

    /// Returns the number of updates of each parameter that had fewer than the optimizer as a whole, by name: its first
    /// gradient came later, or it had none in some steps.
    pub(crate) fn fewer_updates(&self) -> BTreeMap<String, u64> {
        let counted = self.names.iter().cloned().zip(self.counts.iter().copied()).zip(&self.has_moments);
        let named = counted.filter_map(|(named, has_moments)| has_moments.then_some(named));
        named.filter(|(_, count)| *count != self.updates).collect()
    }

    /// Restores the state from [`AdamW::snapshot`], `AdamW::updates` and `AdamW::fewer_updates`, in a process that
    /// owns all elements.
    ///
    /// # Errors
    /// [`Error::OptimizerState`] when a name is not a parameter of the module, or has another number of elements.
    pub fn restore(
        &mut self,
        updates: u64,
        fewer_updates: &BTreeMap<String, u64>,
        mut state: MomentValues,
        device: &Device,
    ) -> Result<(), Error> {
        let mut counts = Vec::new();
        let mut moments = Vec::new();
        for (name, &length) in self.names.iter().zip(self.layout.lengths()) {
            let count = fewer_updates.get(name).copied().unwrap_or(updates);
            let saved = state.remove(name);
            if let Some((first, _)) = saved.as_ref().filter(|(first, _)| first.len() != length) {
                let given = first.len();
                return Err(Error::OptimizerState(format!(
                    "{given} moments of {name}, which has {length} elements"
                )));
            }
            counts.push(if saved.is_some() { count } else { 0 });
            moments.push(saved.map(|(first, second)| Moments {
                first: float_vector(first, device),
                second: float_vector(second, device),
            }));
        }
        let has_moments = moments.iter().map(Option::is_some).collect();
        self.set_state(updates, counts, has_moments, moments);
        match state.into_keys().next() {
            Some(name) => Err(Error::OptimizerState(format!(
                "moments of {name}, which is not a parameter of the model"
            ))),
            None => Ok(()),
        }
    }

    /// Sets the number of all updates, the number of updates of each parameter, which parameters have moments, and the
    /// moments of the owned elements.
    pub(crate) fn set_state(
        &mut self,
        updates: u64,
        counts: Vec<u64>,
        has_moments: Vec<bool>,
        moments: Vec<Option<Moments>>,
    ) {
        (self.updates, self.counts) = (updates, counts);
        (self.has_moments, self.moments) = (has_moments, moments);
    }
}

/// Returns whether weight decay applies to the parameter with this (Hugging Face) name.
fn decays_weight(name: &str) -> bool {
    !(name.contains("LayerNorm") || name.contains("bias"))
}

struct Update<'a, F> {
    optimizer: &'a mut AdamW,
    updates: adamw::Updates,
    gradients: Tensors,
    index: usize,
    /// Returns the hyper-parameters of a parameter's update.
    step: F,
}

impl<F: Fn(&AdamW, usize) -> adamw::AdamW> ModuleMapper for Update<'_, F> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let index = self.index;
        self.index += 1;
        let Some(gradient) = self.gradients.get_mut(index).and_then(Option::take) else {
            return param;
        };
        param.map(|tensor| {
            let shape = tensor.dims();
            let flat = tensor.inner().reshape([-1]);
            let step = (self.step)(self.optimizer, index);
            let updated = self.optimizer.step(&mut self.updates, index, flat, gradient, step);
            updated.reshape(shape).autodiff().require_grad()
        })
    }
}

#[cfg(test)]
mod tests;
