//! Computes one optimizer step, for pre-training and fine-tuning.
//!
//! The step takes a model, the micro-batches of one global batch and a loss, and returns the updated model and a
//! [`StepReport`]. Losses are sums, divided once by the number of real targets in the whole global batch, so k
//! micro-batches give the gradient of one batch.

pub mod device_check;
pub mod device_selection;
pub(crate) mod norm_ratios;

use bert_kernels::adamw;
use bert_kernels::adamw::NormOrder;
use bert_model::{BertForPreTraining, LossNormalizer, Mode, PretrainingLoss};
use bert_random::{Domain, Stream};
use burn::module::Module;
use burn::tensor::{Device, Gradients, Tensor};

use crate::data_loader::PretrainingBatch;
use crate::error::Error;
use crate::gradients::gradient_sum::{GradientSum, Segment};
use crate::group::Group;
use crate::optimizer::{Optimizer, StepGradients, Update};

/// Contribution of one micro-batch to the loss of the global batch.
pub struct MicroBatchLoss {
    /// The loss to differentiate, one element.
    pub total: Tensor<1>,
    /// Additional values to sum and report, one element each.
    pub parts: Vec<Tensor<1>>,
    deferred_backward: Option<DeferredBackward>,
}

/// The part of a backward pass that gradient checkpointing separates from the graph of the loss. It maps the gradients
/// of the loss to the remaining gradients.
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
    /// The sums of the parts over the micro-batches, in the order of [`MicroBatchLoss::parts`].
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

/// The settings of a step of a run. The seed and the number of the step determine its dropout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSettings {
    /// The run's seed.
    pub seed: u64,
    /// Number of steps before this step.
    pub step: u64,
    /// The learning rate.
    pub learning_rate: f64,
}

/// Returns the dropout mode of a micro-batch: a pure function of run seed, step and micro-batch.
///
/// The sequences of a micro-batch are numbered from `micro_batch * 2^32`, so each has its own masks. A loss whose
/// micro-batches are rows of one padded batch gives them the masks of that batch with [`Mode::from_sequence`].
fn dropout_mode(settings: StepSettings, micro_batch: u64) -> Mode {
    let seed = Stream::new(settings.seed, Domain::Dropout, &[settings.step]).next_u64();
    Mode::Train { seed, first_sequence: micro_batch << 32 }
}

/// Runs forward and backward passes over all micro-batches, then one update.
///
/// `loss` computes a micro-batch's share of the global batch's loss. The model is returned whether or not the step
/// succeeded: after [`NotFinite`], parameters and moments are unchanged.
///
/// The loss may be any function of a module:
///
/// ```
/// use bert_inference::DeviceName;
/// use bert_model::{Architecture, BertConfig, BertInput, BertModel, Preset};
/// use bert_training::{MicroBatchLoss, Optimizer, OptimizerConfig, StepSettings, train_step};
/// use burn::tensor::{Int, Tensor};
///
/// let device = DeviceName::Flex.open()?.autodiff();
/// let mut model = BertModel::new(&BertConfig::preset(Preset::Tiny, 100), 42, &device);
/// let mut optimizer = Optimizer::new(OptimizerConfig::default(), &model);
/// let zeros = Tensor::<2, Int>::zeros([2, 8], &device);
/// let input = BertInput { input_mask: zeros.ones_like(), segment_ids: zeros.clone(), input_ids: zeros };
///
/// // Moves the first value of each pooled vector to one half.
/// let mut losses = Vec::new();
/// for step in 0..20 {
///     let (trained, report) = train_step(
///         model,
///         &mut optimizer,
///         &[input.clone()],
///         |model, input, mode| {
///             let pooled = model.forward(input.clone(), mode).pooled_output;
///             let distance = pooled.narrow(1, 0, 1) - 0.5;
///             MicroBatchLoss::new((distance.clone() * distance).mean(), vec![])
///         },
///         StepSettings { seed: 7, step, learning_rate: 1e-3 },
///     );
///     model = trained;
///     losses.push(report.expect("finite numbers").loss);
/// }
/// assert!(losses[19] < losses[0] / 2.0, "{losses:?}");
/// # Ok::<(), bert_training::Error>(())
/// ```
pub fn train_step<M: Module, B>(
    model: M,
    optimizer: &mut Optimizer,
    micro_batches: &[B],
    loss: impl Fn(&M, &B, Mode) -> MicroBatchLoss,
    settings: StepSettings,
) -> (M, Result<StepReport, NotFinite>) {
    let result = Group::alone().train_step(model, optimizer, micro_batches, loss, settings);
    result.expect("a single process loses no rank")
}

impl Group {
    /// Runs [`train_step`] in this group: `micro_batches` are the micro-batches of this rank and follow the
    /// micro-batches of the preceding ranks.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost, when another rank has an error, or when a stop is requested.
    pub fn train_step<M: Module, B>(
        &mut self,
        model: M,
        optimizer: &mut Optimizer,
        micro_batches: &[B],
        loss: impl Fn(&M, &B, Mode) -> MicroBatchLoss,
        settings: StepSettings,
    ) -> Result<(M, Result<StepReport, NotFinite>), Error> {
        let first = self.rank() * micro_batches.len();
        let mut gradients = GradientSum::starting_at(first as u64);
        let mut losses: Vec<Vec<Tensor<1>>> = Vec::new();
        for (micro, batch) in (first..).zip(micro_batches) {
            let mode = dropout_mode(settings, micro as u64);
            let MicroBatchLoss { total, parts, deferred_backward } = loss(&model, batch, mode);
            let mut loss_gradients = total.backward();
            let remaining =
                deferred_backward.map(|backward| backward(&mut loss_gradients)).unwrap_or_default();
            gradients.add(&model, std::iter::once(loss_gradients).chain(remaining));
            losses.push(std::iter::once(total).chain(parts).map(Tensor::inner).collect());
        }
        let device = model.devices().into_iter().next().expect("a model has parameters").inner();
        let all = micro_batches.len() * self.ranks();
        let gradients = self.reduce(gradients, all, optimizer.layout(), &device)?;
        let figures = Figures::gather(self, optimizer, losses, &gradients)?;
        let report = figures.report(optimizer, &gradients.has_gradient, &device);
        if !report.loss.is_finite() || !report.gradient_norm.is_finite() {
            return Ok((model, Err(NotFinite { report })));
        }
        let update = Update { norm: report.gradient_norm, learning_rate: settings.learning_rate };
        let model = norm_ratios::update(self, optimizer, model, gradients, update)?;
        let model = self.share_weights(model, optimizer.layout())?;
        Ok((model, Ok(report)))
    }
}

/// The losses of all micro-batches and the sums of squares of all chunks of the gradient.
struct Figures {
    /// The loss and its parts, for each micro-batch of the step.
    losses: Vec<Vec<f32>>,
    /// The sum of the squares of each chunk, in order.
    squares: Vec<f64>,
}

impl Figures {
    /// Gathers the losses and the sums of squares of all ranks.
    fn gather(
        group: &mut Group,
        optimizer: &Optimizer,
        losses: Vec<Vec<Tensor<1>>>,
        gradients: &StepGradients,
    ) -> Result<Self, Error> {
        let layout = optimizer.layout();
        let rank = group.rank();
        let width = losses.first().map_or(0, Vec::len);
        let count = width * losses.len();
        let (squares, losses) = figures(optimizer, losses, gradients, rank);
        let losses_here = losses.iter().map(|loss| u64::from(loss.to_bits()));
        let own: Vec<u64> = losses_here.chain(squares.iter().map(|sum| sum.to_bits())).collect();
        let all = group.gather(own, |rank| count + layout.chunks(rank))?;
        let mut losses = Vec::new();
        let mut squares = Vec::new();
        for words in all {
            let (loss_words, square_words) = words.split_at(count);
            let values: Vec<f32> = loss_words.iter().map(|&bits| f32::from_bits(bits as u32)).collect();
            losses.extend(values.chunks(width.max(1)).map(<[f32]>::to_vec));
            squares.extend(square_words.iter().map(|&bits| f64::from_bits(bits)));
        }
        Ok(Self { losses, squares })
    }

    /// Returns the report. The losses are added in the order of the micro-batches, and the squares in the order of the
    /// chunks.
    fn report(self, optimizer: &Optimizer, has_gradient: &[bool], device: &Device) -> StepReport {
        let mut sums = vec![0.0; self.losses.first().map_or(1, Vec::len)];
        for losses in &self.losses {
            sums.iter_mut().zip(losses).for_each(|(sum, &loss)| *sum += f64::from(loss));
        }
        let squares = optimizer.layout().by_tensor(self.squares.into_iter());
        let squares = squares.iter().zip(has_gradient).filter(|(_, has_gradient)| **has_gradient);
        let order = NormOrder::for_tensor(optimizer.compute(), &Tensor::<1>::zeros([1], device));
        let norm = order.total(squares.map(|(sums, _)| sums.as_slice())).sqrt();
        StepReport { loss: sums[0], parts: sums[1..].to_vec(), gradient_norm: norm }
    }
}

/// Returns the sum of the squared gradients for each chunk of a rank's elements (0 without a gradient), and the losses.
/// On a GPU, all of them are copied in one transfer.
fn figures(
    optimizer: &Optimizer,
    losses: Vec<Vec<Tensor<1>>>,
    gradients: &StepGradients,
    rank: usize,
) -> (Vec<f64>, Vec<f32>) {
    let present: Vec<Tensor<1>> = gradients.tensors.iter().flatten().cloned().collect();
    let losses: Vec<Tensor<1>> = losses.into_iter().flatten().collect();
    let (sums, losses) = if losses.is_empty() {
        (adamw::chunk_squares(optimizer.compute(), &present), Vec::new())
    } else {
        adamw::chunk_squares_and(optimizer.compute(), &present, Tensor::cat(losses, 0))
    };
    let mut sums = sums.into_iter();
    let segments = optimizer.layout().segments(rank).iter();
    let segment_words = |segment: &Segment| match &gradients.tensors[segment.tensor] {
        Some(_) => sums.next().expect("one per gradient"),
        None => vec![0.0; segment.range.len().div_ceil(adamw::CHUNK)],
    };
    (segments.flat_map(segment_words).collect(), losses)
}

/// Returns the loss of a micro-batch as its share of the loss of the global batch: sums divided by the numbers of
/// targets in `normalizer`. A micro-batch has the dropout masks that its rows have in the whole batch. With
/// `recompute`, the layers are recomputed in the backward pass (gradient checkpointing).
pub fn pretraining_objective(
    normalizer: LossNormalizer,
    recompute: bool,
    device: &Device,
) -> impl Fn(&BertForPreTraining, &PretrainingBatch, Mode) -> MicroBatchLoss {
    let device = device.clone();
    let with_parts =
        |loss: PretrainingLoss| MicroBatchLoss::new(loss.total, vec![loss.masked_lm, loss.next_sentence]);
    move |model, batch, mode| {
        let mode = mode.from_sequence(batch.first_sequence as u64);
        let input = batch.input(&device);
        let targets = batch.targets(&device);
        if recompute {
            let (loss, kept) = model.loss_recomputing(input, targets, normalizer, mode);
            return with_parts(loss).with_deferred_backward(|loss_gradients| kept.backward(loss_gradients));
        }
        with_parts(model.loss(input, targets, normalizer, mode))
    }
}
