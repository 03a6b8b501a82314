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
//! norms, which [`lamb`](crate::training::lamb) computes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bert_kernels::{Compute, adamw};
use bert_model::Snapshot;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::compute::host_tensors::{MomentValues, float_vector};
use crate::error::Error;
use crate::training::gradient_sum::Tensors;
use crate::training::layout::{Layout, Segment};
use crate::training::snapshot_throttle::SnapshotThrottle;

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
    pub(crate) of_parameter: Vec<f64>,
    pub(crate) of_update: Vec<f64>,
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
    pub(crate) fn of_all(tensors: Tensors) -> Self {
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
        for (count, has_gradient) in self.counts.iter_mut().zip(gradients.has_gradient) {
            *count += u64::from(has_gradient);
        }
        let clip = self.config.max_gradient_norm;
        let scale = if clip > 0.0 { clip / norm.max(clip) } else { 1.0 };
        let step = |optimizer: &Self, index| adamw::AdamW {
            gradient_scale: scale,
            learning_rate: learning_rate * optimizer.rates[index],
            ..optimizer.hyper_parameters(index)
        };
        module.map(&mut Update { optimizer: self, gradients: gradients.tensors, index: 0, step })
    }

    /// Changes the parameters that have a gradient by their update, from moments that are already updated; multiplies
    /// the learning rate of parameter `i` by `ratios[i]`.
    pub(crate) fn apply<M: Module>(
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
        module.map(&mut Update { optimizer: self, gradients, index: 0, step })
    }

    /// Returns the sums of squares of the owned chunks of parameter number `index` and of its update; `None` if this rank
    /// owns none, or if the parameter has no moments.
    pub(crate) fn squares(&self, index: usize, parameter: Tensor<1>) -> Option<NormSquares> {
        let Moments { first, second } = self.moments[index].clone()?;
        let parameter = parameter.slice([self.owned[index].clone()]);
        let of_parameter = adamw::chunk_squares(self.compute, &[parameter.clone()]).concat();
        let state = adamw::State { parameter, first, second };
        let of_update = adamw::update_squares(self.compute, &state, self.hyper_parameters(index));
        Some(NormSquares { of_parameter, of_update })
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
        index: usize,
        parameter: Tensor<1>,
        gradient: Tensor<1>,
        step: adamw::AdamW,
    ) -> Tensor<1> {
        let fresh = || Moments { first: gradient.zeros_like(), second: gradient.zeros_like() };
        let Moments { first, second } = self.moments[index].take().unwrap_or_else(fresh);
        let state = adamw::State { parameter, first, second };
        let updated = adamw::update_part(self.compute, state, self.owned[index].clone(), gradient, step);
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
        Snapshot::of_tensors(moments.flatten())
    }

    /// Returns [`AdamW::snapshot_of`] for the optimizer's own moments, in a process that owns all elements.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_of(self.moments.clone())
    }

    /// Makes the next update wait until snapshots in flight have freed enough memory.
    pub(crate) fn throttle_on(&mut self, throttle: Arc<SnapshotThrottle>) {
        self.throttle = Some(throttle);
    }

    /// Returns the number of updates of each parameter that had fewer than the optimizer as a whole, by name: its first
    /// gradient came later, or it had none in some steps.
    pub(crate) fn fewer_updates(&self) -> BTreeMap<String, u64> {
        let named = self.names.iter().cloned().zip(self.counts.iter().copied());
        named.filter(|&(_, count)| count > 0 && count != self.updates).collect()
    }

    /// Restores the state from [`AdamW::snapshot`], [`AdamW::updates`] and [`AdamW::fewer_updates`], in a process that
    /// owns all elements.
    ///
    /// # Errors
    /// [`Error::OptimizerState`] when a name is not a parameter of the module.
    pub(crate) fn restore(
        &mut self,
        updates: u64,
        fewer_updates: &BTreeMap<String, u64>,
        mut state: MomentValues,
        device: &Device,
    ) -> Result<(), Error> {
        let (mut counts, mut moments) = (Vec::new(), Vec::new());
        for name in &self.names {
            let count = fewer_updates.get(name).copied().unwrap_or(updates);
            let of_name = state.remove(name);
            counts.push(if of_name.is_some() { count } else { 0 });
            moments.push(of_name.map(|(first, second)| Moments {
                first: float_vector(first, device),
                second: float_vector(second, device),
            }));
        }
        self.set_state(updates, counts, moments);
        match state.into_keys().next() {
            Some(name) => Err(Error::OptimizerState(name)),
            None => Ok(()),
        }
    }

    /// Sets the number of all updates, the number of updates of each parameter, and the moments of the owned elements.
    pub(crate) fn set_state(&mut self, updates: u64, counts: Vec<u64>, moments: Vec<Option<Moments>>) {
        (self.updates, self.counts, self.moments) = (updates, counts, moments);
    }
}

/// Returns whether weight decay applies to the parameter with this (Hugging Face) name.
fn decays_weight(name: &str) -> bool {
    !(name.contains("LayerNorm") || name.contains("bias"))
}

struct Update<'a, F> {
    optimizer: &'a mut AdamW,
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
            let updated = self.optimizer.step(index, flat, gradient, step);
            updated.reshape(shape).autodiff().require_grad()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::host_tensors;
    use crate::training::gradient_sum::GradientSum;
    use crate::training::lr_schedule::{Schedule, ScheduleKind};

    #[derive(Module, Debug)]
    struct Scalar {
        weight: Param<Tensor<1>>,
    }

    fn norm(gradients: &Tensors) -> f64 {
        let tensors: Vec<Tensor<1>> = gradients.iter().flatten().cloned().collect();
        adamw::squared_norm(Compute::default(), &tensors).sqrt()
    }

    fn trajectory(bias_correction: bool, weight_decay: f64) -> Vec<f32> {
        let device = Device::flex().autodiff();
        let mut module = Scalar { weight: Param::from_data([1.0f32], &device) };
        let config = AdamWConfig { bias_correction, weight_decay, ..AdamWConfig::default() };
        let mut optimizer = AdamW::new(config, &module);
        let schedule = Schedule { kind: ScheduleKind::Bert, peak: 1e-2, total_steps: 10, warmup_steps: 2.0 };
        let mut values = Vec::new();
        for (step, g) in [0.5f32, -0.25, 0.1, 0.4, -0.3, 0.2].into_iter().enumerate() {
            // The gradient of g * weight is g.
            let gradients = (module.weight.val() * g).sum().backward();
            let mut sum = GradientSum::default();
            sum.add(&module, [gradients]);
            let sum = sum.total();
            let norm = norm(&sum);
            assert!((norm - f64::from(g.abs())).abs() < 1e-6);
            let sum = StepGradients::of_all(sum);
            module = optimizer.update(module, sum, norm, schedule.learning_rate(step as u64));
            values.push(module.weight.val().into_scalar::<f32>());
        }
        values
    }

    // Golden trajectories: AdamWeightDecayOptimizer and the reference's schedule computed in f64 for p = 1, the
    // gradients above, peak 1e-2, 10 steps, 2 of warm-up. Tolerance: f32 rounding.
    #[test]
    fn golden_trajectories() {
        let expected = [
            (false, 0.0, [1.0, 0.994341202, 0.981857659, 0.961061866, 0.95386169, 0.944591974]),
            (false, 0.01, [1.0, 0.994291202, 0.981728116, 0.960863602, 0.953605774, 0.944288378]),
            (true, 0.0, [1.0, 0.998668318, 0.996146377, 0.992324594, 0.991082523, 0.989551961]),
            (true, 0.01, [1.0, 0.998618318, 0.996016488, 0.992124983, 0.990823385, 0.989243281]),
        ];
        for (bias_correction, weight_decay, values) in expected {
            for (got, want) in trajectory(bias_correction, weight_decay).into_iter().zip(values) {
                assert!((f64::from(got) - want).abs() < 5e-7, "{got} is not {want}");
            }
        }
    }

    #[derive(Module, Debug)]
    struct Two {
        early: Param<Tensor<1>>,
        late: Param<Tensor<1>>,
    }

    fn update_of(optimizer: &mut AdamW, module: Two, loss: impl FnOnce(&Two) -> Tensor<1>) -> Two {
        let mut sum = GradientSum::default();
        sum.add(&module, [loss(&module).backward()]);
        optimizer.update(module, StepGradients::of_all(sum.total()), 1.0, 1e-2)
    }

    /// With bias correction, the first update of a parameter is about its learning rate, whenever its first gradient
    /// arrives. A restored optimizer has the number of updates of each parameter.
    #[test]
    fn bias_correction_counts_updates_per_parameter() {
        let device = Device::flex().autodiff();
        let config = AdamWConfig { bias_correction: true, weight_decay: 0.0, ..AdamWConfig::default() };
        let param = || Param::from_data([1.0f32], &device);
        let mut module = Two { early: param(), late: param() };
        let mut optimizer = AdamW::new(config, &module);
        for _ in 0..50 {
            module = update_of(&mut optimizer, module, |two| two.early.val() * 0.5);
        }
        let step = |optimizer: &mut AdamW, module: Two| {
            let before = module.late.val().into_scalar::<f32>();
            let module = update_of(optimizer, module, |two| two.late.val() * 0.5);
            (before - module.late.val().into_scalar::<f32>(), module)
        };
        let (first, module) = step(&mut optimizer, module);
        assert!((first - 1e-2).abs() < 1e-5, "{first}");
        let [early, late] = ["early", "late"].map(String::from);
        assert_eq!(optimizer.fewer_updates(), BTreeMap::from([(early, 50), (late, 1)]));

        let mut again = AdamW::new(config, &module);
        let mut moments = MomentValues::new();
        for (name, (_, values)) in optimizer.snapshot().to_named_tensors() {
            let (which, name) = name.split_once('.').unwrap();
            let entry = moments.entry(name.to_string()).or_default();
            *(if which == "first" { &mut entry.0 } else { &mut entry.1 }) = values;
        }
        let fewer = optimizer.fewer_updates();
        again.restore(optimizer.updates(), &fewer, moments, &device.clone().inner()).unwrap();
        assert_eq!(step(&mut again, module.clone()).0, step(&mut optimizer, module).0);
    }

    #[test]
    fn decay_spares_layer_norm_and_biases() {
        assert!(decays_weight("bert.embeddings.word_embeddings.weight"));
        assert!(decays_weight("bert.encoder.layer.0.attention.self.query.weight"));
        assert!(!decays_weight("bert.encoder.layer.0.attention.self.query.bias"));
        assert!(!decays_weight("bert.embeddings.LayerNorm.weight"));
        assert!(!decays_weight("cls.predictions.bias"));
    }

    #[test]
    fn clipping_is_over_all_parameters_together() {
        #[derive(Module, Debug)]
        struct Shapes {
            a: Param<Tensor<1>>,
            b: Param<Tensor<2>>,
        }
        let device = Device::flex().autodiff();
        let module =
            Shapes { a: Param::from_data([0.0f32], &device), b: Param::from_data([[0.0f32]], &device) };
        let loss = (module.a.val() * 3.0).sum() + (module.b.val() * 4.0).sum();
        let mut sum = GradientSum::default();
        sum.add(&module, [loss.backward()]);
        let sum = sum.total();
        assert!((norm(&sum) - 5.0).abs() < 1e-6);
        let mut optimizer = AdamW::new(AdamWConfig::default(), &module);
        let module = optimizer.update(module, StepGradients::of_all(sum), 5.0, 0.0);
        // The first moments are a tenth of the clipped gradients 3/5 and 4/5.
        let state = optimizer.snapshot().to_named_tensors();
        let first = |name: &str| state[&format!("first.{name}")].1[0];
        assert!((first("a") - 0.06).abs() < 1e-7 && (first("b") - 0.08).abs() < 1e-7);
        assert_eq!(module.a.val().into_scalar::<f32>(), 0.0);
    }

    /// Compares sums of 1 to 9 micro-batches with the explicit tree. In f32 another order changes bits: 1e8 + 1 is 1e8.
    #[test]
    fn micro_batches_are_added_in_a_tree() {
        fn tree(values: &[f32]) -> f32 {
            match values {
                [value] => *value,
                _ => {
                    let left = values.len().next_power_of_two() / 2;
                    tree(&values[..left]) + tree(&values[left..])
                }
            }
        }
        let values = [1e8f32, 1.0, -1e8, 3.0, 7.0, 1e8, 5.0, -1e8, 11.0];
        let device = Device::flex().autodiff();
        let module = Scalar { weight: Param::from_data([1.0f32], &device) };
        for count in 1..=values.len() {
            let mut sum = GradientSum::default();
            for g in &values[..count] {
                sum.add(&module, [(module.weight.val() * *g).sum().backward()]);
            }
            let total: Vec<_> = sum.total().into_iter().map(|g| g.map(host_tensors::values)).collect();
            assert_eq!(total, [Some(vec![tree(&values[..count])])], "{count} micro-batches");
        }
    }
}
