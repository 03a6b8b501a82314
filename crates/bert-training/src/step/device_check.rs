//! Checks a device before the first step: computes a micro-batch of the run's own shape on the device and on the CPU,
//! and compares the loss, the gradient of each parameter, and an update of each parameter.
//!
//! Drivers and kernel compilers have silently computed wrong numbers, depending on shape, driver and GPU.
//! Examples are products near zero from 500 rows on (burn#4966), reads past the end of an operand
//! (burn#5626), gradients of 1e14 and more (burn#5351), and a product miscompiled by Apple's compiler
//! (cubek#645). The loss of such a run may even fall.
//!
//! The model of the check has the run's sizes, at most two layers, and weights drawn from a wider distribution than
//! the weights of a fresh model, so that GELU and softmax are not nearly linear. Every other row has padding.

use std::fmt;
use std::time::{Duration, Instant};

use bert_inference::host_tensors::{float_vector, values};
use bert_inference::{DeviceName, PaddedBatch};
use bert_kernels::adamw::{self, State};
use bert_kernels::{Compute, Precision};
use bert_model::{Architecture, BertConfig, BertForPreTraining, LossNormalizer, Mode, named_parameters};
use bert_random::{Domain, Random, Stream};
use bert_storage::Class;
use burn::tensor::Device;

use crate::data_loader::PretrainingBatch;
use crate::error::Error;
use crate::gradients::gradient_sum::GradientSum;
use crate::step::pretraining_objective;

/// The shape of a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckShape {
    /// Number of sequences.
    pub rows: usize,
    /// Length of each sequence in tokens, padding included.
    pub length: usize,
    /// Number of masked tokens of each sequence.
    pub predictions: usize,
}

/// The result of a check that the device has passed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceCheck {
    /// The difference between the losses, in nats.
    pub loss_difference: f64,
    /// The tensor with the greatest difference.
    pub tensor: String,
    /// This difference, relative to the tensor's norm.
    pub difference: f64,
    /// The maximum difference that passes.
    pub bound: f64,
    /// Whether the device computes the same bits twice.
    pub repeats: bool,
    /// Duration of the check.
    pub elapsed: Duration,
}

impl fmt::Display for DeviceCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { loss_difference, tensor, difference, bound, repeats, elapsed } = self;
        write!(
            f,
            "agrees with the CPU: loss within {loss_difference:.1e} nats, maximum relative difference {difference:.1e} \
             ({tensor}; bound {bound:.0e}), {}, {:.1} s",
            if *repeats { "the same bits twice" } else { "other bits when repeated" },
            elapsed.as_secs_f64(),
        )
    }
}

/// Runs [`check_device`] before the first step on a GPU; returns `None` for the CPU, which needs no check.
///
/// # Errors
/// Fails as [`check_device`] does.
pub fn check_before_first_step(
    name: DeviceName,
    device: &Device,
    model: &BertConfig,
    shape: CheckShape,
) -> Result<Option<DeviceCheck>, Error> {
    if name.is_cpu() {
        return Ok(None);
    }
    check_device(name, &device.clone().inner(), model, shape).map(Some)
}

/// Maximum number of layers of the check's model.
const LAYERS: usize = 2;
/// Standard deviation of the weights of the check's model.
const INITIALIZER_RANGE: f64 = 0.05;
/// Seed of the check's weights, words and dropout masks.
const SEED: u64 = 1;
/// Minimum norm of a gradient in the comparison, as a share of the norm of all gradients; a smaller norm counts as this
/// minimum. For example, the gradient of a key's bias is 0 except for rounding errors.
const SMALLEST_NORM: f64 = 1e-3;
/// Maximum relative difference of a tensor in f32.
const F32_BOUND: f64 = 1e-4;
/// Maximum relative difference of a tensor in f32 on CUDA, where burn rounds the operands of products to
/// TF32.
const TF32_BOUND: f64 = 3e-2;
/// Maximum relative difference of a tensor in bf16.
const BF16_BOUND: f64 = 0.2;

/// Compares a micro-batch on a device with the CPU. `model` is the configuration of the run's model, with its kernels
/// and precision.
///
/// # Errors
/// Fails when the values of the device differ from the CPU's; the error names the tensor that differs most. Also fails
/// when this build lacks the backend `flex`.
pub fn check_device(
    name: DeviceName,
    device: &Device,
    model: &BertConfig,
    shape: CheckShape,
) -> Result<DeviceCheck, Error> {
    let started = Instant::now();
    let reference_device = DeviceName::Flex.open()?;
    let model = BertConfig {
        num_hidden_layers: model.num_hidden_layers.min(LAYERS),
        initializer_range: INITIALIZER_RANGE,
        max_position_embeddings: model.max_position_embeddings.max(shape.length),
        ..model.clone()
    };
    let reference_model = BertConfig { compute: Compute::default(), ..model.clone() };
    let batch = batch(&model, shape);
    let expected = MicroBatch::compute(&reference_device, &reference_model, &batch, None);
    let computed = MicroBatch::compute(device, &model, &batch, Some(&expected.gradients));
    let again = MicroBatch::compute(device, &model, &batch, Some(&expected.gradients));
    let (tensor, difference) = computed.worst_difference(&expected);
    let bound = bound(name, model.compute.precision);
    if difference > bound {
        return Err(Error::new(
            Class::Numerical,
            format!(
                "{name} computes wrong values: {tensor} differs from the CPU's by {difference:.1e} of its norm, and \
                 the maximum is {bound:.0e}; update the driver, or use another `.device` (`bert devices --check` \
                 repeats this check)"
            ),
        ));
    }
    Ok(DeviceCheck {
        loss_difference: (computed.loss - expected.loss).abs(),
        tensor,
        difference,
        bound,
        repeats: computed.has_bits_of(&again),
        elapsed: started.elapsed(),
    })
}

/// Returns the maximum relative difference of a tensor that passes.
fn bound(name: DeviceName, precision: Precision) -> f64 {
    match (precision, name) {
        (Precision::Bf16, _) => BF16_BOUND,
        (Precision::F32, DeviceName::Cuda(_)) => TF32_BOUND,
        (Precision::F32, _) => F32_BOUND,
    }
}

/// Returns a micro-batch of random words. In every second row the last quarter is padding.
fn batch(model: &BertConfig, shape: CheckShape) -> PretrainingBatch {
    let CheckShape { rows, length, .. } = shape;
    let predictions = shape.predictions.clamp(1, (length / 2).max(1));
    let mut random = Stream::new(SEED, Domain::DeviceCheck, &[]);
    let mut word = || random.below(model.vocab_size) as i32;
    let input_ids = (0..rows * length).map(|_| word()).collect();
    let masked_lm_ids = (0..rows * predictions).map(|_| word()).collect();
    let is_token =
        |cell: usize| (cell / length).is_multiple_of(2) || cell % length < (3 * length).div_ceil(4);
    let cells = || 0..rows * length;
    let row_cells =
        |row: usize| (0..predictions).map(move |i| row * length + i * (length / 2).max(1) / predictions);
    PretrainingBatch {
        padded: PaddedBatch {
            rows,
            seq_length: length,
            input_ids,
            input_mask: cells().map(|cell| i32::from(is_token(cell))).collect(),
            segment_ids: cells()
                .map(|cell| i32::from(is_token(cell) && cell % length >= length / 2))
                .collect(),
        },
        first_sequence: 0,
        masked_lm_positions: (0..rows).flat_map(row_cells).map(|cell| cell as i32).collect(),
        masked_lm_ids,
        next_sentence_labels: (0..rows as i32).map(|row| row % 2).collect(),
    }
}

/// The results of a micro-batch on one device.
struct MicroBatch {
    loss: f64,
    /// Names of the parameters, in the module's order.
    names: Vec<String>,
    /// The gradient of each parameter; empty if it has none.
    gradients: Vec<Vec<f32>>,
    /// The change of each parameter in an update, divided by the learning rate.
    updates: Vec<Vec<f32>>,
}

impl MicroBatch {
    /// Computes loss and gradients, and updates from `gradients` or, without them, from its own gradients.
    fn compute(
        device: &Device,
        config: &BertConfig,
        batch: &PretrainingBatch,
        gradients: Option<&[Vec<f32>]>,
    ) -> Self {
        let graph = device.clone().autodiff();
        let model = BertForPreTraining::new(config, SEED, &graph);
        let normalizer = LossNormalizer {
            masked_lm: batch.num_predictions() as f64,
            next_sentence: Some(batch.batch_size() as f64),
        };
        let mode = Mode::Train { seed: SEED, first_sequence: 0 };
        let loss = pretraining_objective(normalizer, false, &graph)(&model, batch, mode);
        let mut sum = GradientSum::starting_at(0);
        sum.add(&model, [loss.total.backward()]);
        let own: Vec<Vec<f32>> =
            sum.total().into_iter().map(|gradient| gradient.map(values).unwrap_or_default()).collect();
        let used = gradients.unwrap_or(&own);
        Self {
            loss: f64::from(values(loss.total.inner())[0]),
            names: named_parameters(&model).into_iter().map(|(name, ..)| name).collect(),
            updates: used.iter().map(|gradient| update(config.compute, gradient, device)).collect(),
            gradients: own,
        }
    }

    /// Returns the tensor with the greatest difference from `expected`, or the loss, and its difference relative to
    /// the tensor's norm; infinite if a value is not finite.
    fn worst_difference(&self, expected: &Self) -> (String, f64) {
        let mut all = vec![("the loss".to_string(), (self.loss - expected.loss).abs() / expected.loss)];
        let floor = SMALLEST_NORM * norm(expected.gradients.iter().flatten().copied());
        for (kind, own, other, floor) in [
            ("gradient", &self.gradients, &expected.gradients, floor),
            ("update", &self.updates, &expected.updates, 0.0),
        ] {
            for ((name, own), other) in self.names.iter().zip(own).zip(other) {
                let difference = relative_difference(own, other, floor);
                all.push((format!("the {kind} of {name}"), difference));
            }
        }
        let all = all.into_iter();
        let all = all.map(|(tensor, x)| (tensor, if x.is_nan() { f64::INFINITY } else { x }));
        all.max_by(|(_, a), (_, b)| a.total_cmp(b)).expect("there is a loss")
    }

    /// Returns whether all values have the same bits.
    fn has_bits_of(&self, other: &Self) -> bool {
        let bits =
            |tensors: &[Vec<f32>]| -> Vec<u32> { tensors.iter().flatten().map(|x| x.to_bits()).collect() };
        self.loss.to_bits() == other.loss.to_bits()
            && bits(&self.gradients) == bits(&other.gradients)
            && bits(&self.updates) == bits(&other.updates)
    }
}

/// Returns the change of a parameter of zeros in the first update with this gradient, at learning rate 1.
fn update(compute: Compute, gradient: &[f32], device: &Device) -> Vec<f32> {
    let gradient = float_vector(gradient.to_vec(), device);
    let state = State {
        parameter: gradient.zeros_like(),
        first: gradient.zeros_like(),
        second: gradient.zeros_like(),
    };
    let step = adamw::AdamW {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-6,
        weight_decay: 0.01,
        corrections: Some((0.1, 0.001)),
        gradient_scale: 0.5,
        learning_rate: 1.0,
    };
    values(adamw::update(compute, state, gradient, step).parameter)
}

/// Returns the Euclidean norm of the values.
fn norm(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

/// Returns the norm of the difference, relative to the norm of `expected`, which is at least `floor`. The result is
/// infinite if the lengths differ.
fn relative_difference(computed: &[f32], expected: &[f32], floor: f64) -> f64 {
    if computed.len() != expected.len() {
        return f64::INFINITY;
    }
    let difference = norm(computed.iter().zip(expected).map(|(a, b)| a - b));
    match norm(expected.iter().copied()).max(floor) {
        _ if difference == 0.0 => 0.0,
        scale => difference / scale,
    }
}
