//! Computes one optimizer step, for pre-training and fine-tuning.
//!
//! The step takes a model, the micro-batches of one global batch and a loss, and returns the updated model and a
//! [`StepReport`]. Losses are sums, divided once by the number of real targets in the whole global batch, so k
//! micro-batches give the gradient of one batch.

use bert_model::Mode;
use bert_random::{Domain, Stream};
use burn::module::Module;
use burn::tensor::{Gradients, Tensor};

use crate::compute::host_tensors::values;
use crate::training::adamw::AdamW;
use crate::training::gradient_sum::GradientSum;

/// Contribution of one micro-batch to the loss of the global batch.
pub struct MicroBatchLoss {
    /// The loss to differentiate, one element.
    pub total: Tensor<1>,
    /// Additional values to sum and report, one element each.
    pub parts: Vec<Tensor<1>>,
    deferred_backward: Option<DeferredBackward>,
}

/// The part of a backward pass below the point where gradient checkpointing cut the graph: maps the gradients of the
/// loss to the remaining gradients.
type DeferredBackward = Box<dyn FnOnce(&mut Gradients) -> Vec<Gradients>>;

impl MicroBatchLoss {
    /// Creates a loss whose backward pass reaches all parameters.
    pub fn new(total: Tensor<1>, parts: Vec<Tensor<1>>) -> Self {
        Self { total, parts, deferred_backward: None }
    }

    /// Sets the part of the backward pass that runs after the gradients of the loss are known (gradient
    /// checkpointing). It returns the remaining gradients.
    #[must_use]
    pub fn with_deferred_backward(
        self,
        backward: impl FnOnce(&mut Gradients) -> Vec<Gradients> + 'static,
    ) -> Self {
        Self { deferred_backward: Some(Box::new(backward)), ..self }
    }
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The total loss of the global batch.
    pub loss: f64,
    /// The sums of the parts over the micro-batches, in the loss's order.
    pub parts: Vec<f64>,
    /// Global gradient norm before clipping.
    pub gradient_norm: f64,
}

/// Error for a NaN or infinite loss or gradient; the model is unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct NotFinite {
    /// The report of the failed step.
    pub report: StepReport,
}

/// A step of a run. It determines the step's dropout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepId {
    /// The run's seed.
    pub seed: u64,
    /// Number of steps before it.
    pub step: u64,
}

/// Returns the dropout mode of a micro-batch: a pure function of run seed, step and micro-batch.
///
/// The sequences of a micro-batch are numbered from `micro_batch * 2^32`, so each has its own masks. A loss whose
/// micro-batches are rows of one padded batch gives them the masks of that batch with [`Mode::from_sequence`].
fn dropout_mode(id: StepId, micro_batch: u64) -> Mode {
    let seed = Stream::new(id.seed, Domain::Dropout, &[id.step]).next_u64();
    Mode::Train { seed, first_sequence: micro_batch << 32 }
}

/// Runs forward and backward passes over all micro-batches, then one update.
///
/// `loss` computes a micro-batch's share of the global batch's loss. The model is returned whether or not the step
/// succeeded: after [`NotFinite`], parameters and moments are unchanged.
pub fn train_step<M: Module, B>(
    model: M,
    optimizer: &mut AdamW,
    micro_batches: &[B],
    loss: impl Fn(&M, &B, Mode) -> MicroBatchLoss,
    learning_rate: f64,
    id: StepId,
) -> (M, Result<StepReport, NotFinite>) {
    let mut gradients = GradientSum::default();
    let mut report = StepReport { loss: 0.0, parts: Vec::new(), gradient_norm: 0.0 };
    for (micro, batch) in micro_batches.iter().enumerate() {
        let mode = dropout_mode(id, micro as u64);
        let MicroBatchLoss { total, parts, deferred_backward } = loss(&model, batch, mode);
        let mut loss_gradients = total.backward();
        let remaining = deferred_backward.map(|backward| backward(&mut loss_gradients)).unwrap_or_default();
        gradients.add(&model, std::iter::once(loss_gradients).chain(remaining));
        add_losses(&mut report, total, parts);
    }
    let gradients = gradients.total();
    report.gradient_norm = gradients.norm(optimizer.compute());
    if !report.loss.is_finite() || !report.gradient_norm.is_finite() {
        return (model, Err(NotFinite { report }));
    }
    let model = optimizer.update(model, gradients, report.gradient_norm, learning_rate);
    (model, Ok(report))
}

fn add_losses(report: &mut StepReport, total: Tensor<1>, parts: Vec<Tensor<1>>) {
    report.parts.resize(parts.len(), 0.0);
    let all = std::iter::once(total).chain(parts).map(Tensor::inner).collect();
    // One transfer from the device for all values.
    let values = values(Tensor::cat(all, 0));
    report.loss += f64::from(values[0]);
    for (sum, &value) in report.parts.iter_mut().zip(&values[1..]) {
        *sum += f64::from(value);
    }
}
