//! Applies an update rule to a model, with clipping by the global gradient norm, and keeps the rule's states.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bert_inference::checkpoint::{OptimizerState, OptimizerValues, ValidCheckpoint, read_optimizer};
use bert_inference::host_tensors::float_vector;
use bert_kernels::adamw::Updates;
use bert_kernels::{Compute, host_values};
use bert_model::Snapshot;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::gradients::gradient_sum::{Layout, Segment, Tensors};
use crate::optimizer::optimizer_args::OptimizerConfig;
use crate::optimizer::snapshot_throttle::SnapshotThrottle;
use crate::optimizer::update_rule::{Change, NormSquares, Parameter, UpdateNumbers, UpdateRule};

/// The states of the elements of a parameter that this rank owns, in the rule's order; `None` before its first
/// gradient.
pub(crate) type States = Option<Vec<Tensor<1>>>;

/// The gradient norm and the learning rate of one update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    /// Global norm of the gradients.
    pub(crate) norm: f64,
    /// The learning rate.
    pub(crate) learning_rate: f64,
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

/// An update rule with the states of every parameter that has received a gradient. In a process group, each rank has
/// the states of the elements that it owns.
#[derive(Clone, Debug)]
pub struct Optimizer {
    rule: Arc<dyn UpdateRule>,
    /// Maximum global gradient norm; 0 disables clipping.
    max_gradient_norm: f64,
    names: Vec<String>,
    /// Per-parameter learning-rate multiplier.
    rates: Vec<f64>,
    layout: Layout,
    /// The elements of each parameter that this rank owns.
    owned: Vec<Range<usize>>,
    states: Vec<States>,
    updated: UpdateCounts,
    compute: Compute,
    throttle: Option<Arc<SnapshotThrottle>>,
}

/// Counts of updates, which are equal on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UpdateCounts {
    /// Number of updates of the optimizer.
    pub(crate) updates: u64,
    /// Number of updates of each parameter, in the module's order.
    pub(crate) counts: Vec<u64>,
    /// Whether each parameter has states on any rank, from an update or from the checkpoint that the run continues
    /// from.
    pub(crate) has_states: Vec<bool>,
}

impl Optimizer {
    /// Creates an optimizer for `module`, with states at zero.
    pub fn new<M: Module>(config: OptimizerConfig, module: &M) -> Self {
        Self::with_rule(config.update_rule(), config.max_gradient_norm, module)
    }

    /// Creates an optimizer with any rule; gradients are clipped to a global norm of `max_gradient_norm`, unless it is
    /// 0.
    pub fn with_rule<M: Module>(rule: Arc<dyn UpdateRule>, max_gradient_norm: f64, module: &M) -> Self {
        let parameters = bert_model::named_parameters(module).into_iter();
        let (names, lengths): (Vec<String>, Vec<usize>) =
            parameters.map(|(name, _, shape)| (name, shape.iter().product::<usize>())).unzip();
        let count = names.len();
        Self {
            rule,
            max_gradient_norm,
            rates: vec![1.0; count],
            owned: lengths.iter().map(|&length| 0..length).collect(),
            states: vec![None; count],
            updated: UpdateCounts { updates: 0, counts: vec![0; count], has_states: vec![false; count] },
            names,
            layout: Layout::new(lengths, 1),
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

    /// Returns the rule of the update.
    pub(crate) fn rule(&self) -> &Arc<dyn UpdateRule> {
        &self.rule
    }

    /// Returns the states that the rule keeps.
    pub fn states(&self) -> &'static [OptimizerState] {
        self.rule.states()
    }

    /// Returns the number of updates so far.
    pub(crate) fn updates(&self) -> u64 {
        self.updated.updates
    }

    /// Returns the counts of updates.
    pub(crate) fn update_counts(&self) -> &UpdateCounts {
        &self.updated
    }

    /// Copies the state number `state` of elements `range` of parameter number `index`, which this rank owns; leaves
    /// `values` as they are if the parameter has no states.
    pub(crate) fn read_state(&self, state: usize, index: usize, range: &Range<usize>, values: &mut [f32]) {
        if let Some(states) = &self.states[index] {
            let before = self.owned[index].start;
            host_values::read(&states[state], range.start - before..range.end - before, values);
        }
    }

    /// Applies one update. A rule whose learning rate depends on norms changes only its states here;
    /// [`Optimizer::apply`] follows.
    pub(crate) fn update<M: Module>(
        &mut self,
        module: M,
        gradients: StepGradients,
        Update { norm, learning_rate }: Update,
    ) -> M {
        if let Some(throttle) = self.throttle.take() {
            throttle.wait();
        }
        let UpdateCounts { updates, counts, has_states } = &mut self.updated;
        *updates += 1;
        for (index, has_gradient) in gradients.has_gradient.into_iter().enumerate() {
            counts[index] += u64::from(has_gradient);
            has_states[index] |= has_gradient;
        }
        let clip = self.max_gradient_norm;
        let gradient_scale = if clip > 0.0 { clip / norm.max(clip) } else { 1.0 };
        let numbers = |index| UpdateNumbers { gradient_scale, ..self.numbers(index, learning_rate) };
        let numbers = (0..self.names.len()).map(numbers).collect();
        let rule = Arc::clone(&self.rule);
        self.map(module, gradients.tensors, numbers, &|kernels, change| rule.update(kernels, change))
    }

    /// Changes the parameters that have a gradient by their update, from states that are already updated; multiplies
    /// the learning rate of parameter `i` by `ratios[i]`.
    pub(crate) fn apply<M: Module>(
        &mut self,
        module: M,
        gradients: Tensors,
        ratios: &[f64],
        learning_rate: f64,
    ) -> M {
        let rule = Arc::clone(&self.rule);
        let by_norms = rule.by_norms().expect("a rule whose learning rate depends on norms");
        let numbers = ratios.iter().enumerate().map(|(index, ratio)| {
            let numbers = self.numbers(index, learning_rate);
            UpdateNumbers { learning_rate: numbers.learning_rate * ratio, ..numbers }
        });
        let numbers = numbers.collect();
        self.map(module, gradients, numbers, &|kernels, change| by_norms.apply(kernels, change))
    }

    fn map<M: Module>(
        &mut self,
        module: M,
        gradients: Tensors,
        numbers: Vec<UpdateNumbers>,
        pass: &dyn Fn(&mut Updates, Change) -> Parameter,
    ) -> M {
        let kernels = Updates::new(self.compute);
        module.map(&mut Pass { optimizer: self, kernels, gradients, numbers, index: 0, pass })
    }

    /// Returns the sums of squares of the owned chunks of parameter number `index` and of its update; `None` if this
    /// rank owns none, if the parameter has no states, or if its learning rate does not depend on norms.
    pub(crate) fn squares(&self, index: usize, value: Tensor<1>) -> Option<NormSquares> {
        let states = self.states[index].clone()?;
        let parameter = Parameter { value, owned: self.owned[index].clone(), states };
        self.rule.by_norms()?.squares(self.compute, parameter, self.numbers(index, 1.0))
    }

    /// Returns the settings of the next update of parameter number `index`, without clipping.
    fn numbers(&self, index: usize, learning_rate: f64) -> UpdateNumbers {
        UpdateNumbers {
            count: self.updated.counts[index],
            gradient_scale: 1.0,
            learning_rate: learning_rate * self.rates[index],
            decays: decays_weight(&self.names[index]),
        }
    }

    /// Returns a snapshot of the given states, which are in the module's order, for a checkpoint. Its tensors are named
    /// `STATE.PARAMETER`.
    pub(crate) fn name_states(&self, states: Vec<States>) -> Snapshot {
        let kinds = self.rule.states();
        let named = self.names.iter().zip(states).flat_map(|(name, states)| {
            let states = states.unwrap_or_default();
            kinds.iter().zip(states).map(move |(kind, state)| (format!("{}.{name}", kind.name), state))
        });
        Snapshot::from_tensors(named)
    }

    /// Returns the states of every parameter that has received a gradient, for a checkpoint, in a process that owns all
    /// elements.
    pub fn snapshot(&self) -> Snapshot {
        self.name_states(self.states.clone())
    }

    /// Makes the next update wait until the snapshots that are being written have freed enough memory.
    pub(crate) fn throttle_on(&mut self, throttle: Arc<SnapshotThrottle>) {
        self.throttle = Some(throttle);
    }

    /// Returns, by name, the number of updates of each parameter that had fewer updates than the optimizer as a whole.
    /// Its first gradient came later, or it had no gradient in some steps.
    pub(crate) fn fewer_updates(&self) -> BTreeMap<String, u64> {
        let UpdateCounts { updates, counts, has_states } = &self.updated;
        let counted = self.names.iter().cloned().zip(counts.iter().copied()).zip(has_states);
        let named = counted.filter_map(|(named, has_states)| has_states.then_some(named));
        named.filter(|(_, count)| count != updates).collect()
    }

    /// Restores the state of a checkpoint, in a process that owns all elements.
    ///
    /// # Errors
    /// Fails when the optimizer's file is corrupt or names an unknown parameter, or when a parameter has a different
    /// number of elements.
    pub fn restore_from(&mut self, checkpoint: &ValidCheckpoint, device: &Device) -> Result<(), Error> {
        let ValidCheckpoint { path, state } = checkpoint;
        let saved = read_optimizer(path, self.states())?;
        self.restore(state.updates, &state.fewer_updates, saved, device)
    }

    /// Restores the state from [`Optimizer::snapshot`], `Optimizer::updates` and `Optimizer::fewer_updates`, in a
    /// process that owns all elements.
    ///
    /// # Errors
    /// Fails when a name is not a parameter of the module, or has a different number of elements.
    pub(crate) fn restore(
        &mut self,
        updates: u64,
        fewer_updates: &BTreeMap<String, u64>,
        mut saved: OptimizerValues,
        device: &Device,
    ) -> Result<(), Error> {
        let mut counts = Vec::new();
        let mut states = Vec::new();
        for (name, &length) in self.names.iter().zip(self.layout.lengths()) {
            let count = fewer_updates.get(name).copied().unwrap_or(updates);
            let values = saved.remove(name);
            if let Some(given) = values.iter().flatten().map(Vec::len).find(|&given| given != length) {
                return Err(Error::model(format!(
                    "the optimizer state has {given} moments of {name}, which has {length} elements"
                )));
            }
            counts.push(if values.is_some() { count } else { 0 });
            states.push(
                values.map(|values| values.into_iter().map(|values| float_vector(values, device)).collect()),
            );
        }
        let has_states = states.iter().map(Option::is_some).collect();
        self.set_states(UpdateCounts { updates, counts, has_states }, states);
        match saved.into_keys().next() {
            Some(name) => Err(Error::model(format!(
                "the optimizer state has moments of {name}, which is not a parameter of the model"
            ))),
            None => Ok(()),
        }
    }

    /// Sets the numbers of updates, and the states of the owned elements.
    pub(crate) fn set_states(&mut self, updated: UpdateCounts, states: Vec<States>) {
        self.updated = updated;
        self.states = states;
    }
}

/// Returns whether weight decay applies to the parameter with this (Hugging Face) name.
pub(crate) fn decays_weight(name: &str) -> bool {
    !(name.contains("LayerNorm") || name.contains("bias"))
}

/// A pass of the rule over the parameters that have a gradient.
struct Pass<'a> {
    optimizer: &'a mut Optimizer,
    kernels: Updates,
    gradients: Tensors,
    numbers: Vec<UpdateNumbers>,
    index: usize,
    pass: &'a dyn Fn(&mut Updates, Change) -> Parameter,
}

impl ModuleMapper for Pass<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let index = self.index;
        self.index += 1;
        let Some(gradient) = self.gradients.get_mut(index).and_then(Option::take) else {
            return param;
        };
        param.map(|tensor| {
            let shape = tensor.dims();
            let value = tensor.inner().reshape([-1]);
            let kinds = self.optimizer.rule.states();
            let states = self.optimizer.states[index].take();
            let states = states.unwrap_or_else(|| kinds.iter().map(|_| gradient.zeros_like()).collect());
            let parameter = Parameter { value, owned: self.optimizer.owned[index].clone(), states };
            let change = Change { parameter, gradient, numbers: self.numbers[index] };
            let Parameter { value, states, .. } = (self.pass)(&mut self.kernels, change);
            self.optimizer.states[index] = Some(states);
            value.reshape(shape).autodiff().require_grad()
        })
    }
}
