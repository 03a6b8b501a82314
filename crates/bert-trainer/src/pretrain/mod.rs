//! Pre-trains BERT: the training loop. `run.rs` has the setup, logs and checkpoints, and [`events`] the caller's
//! events.
//!
//! Ports `run_pretraining.py` (masked LM and next-sentence prediction). A [`PretrainConfig`] describes the run, and its
//! checkpoints and `metrics.jsonl` are written to the run folder. There are two differences from the reference: the
//! masked-LM loss is divided by the number of targets in the whole global batch, and the gradient of the tied word
//! embeddings enters the global norm as one dense tensor.

mod background;
pub(crate) mod beside;
mod estimate;
pub mod events;
mod measure;
mod run;

use std::time::Instant;

use bert_model::{BertForPreTraining, LossNormalizer, Mode, PretrainingLoss};
use bert_storage::{Disk, FileSystem};
use burn::tensor::Device;

use background::Background;
pub use events::{PretrainEvent, PretrainOutcome, StepMetrics, StepTiming};
use run::Run;

use crate::config::{PretrainConfig, RunLength};
use crate::data_loader::{Prefetcher, PretrainingBatch};
use crate::error::Error;
use crate::optimizer::AdamW;
use crate::stop::StopFlag;
use crate::train_step::{MicroBatchLoss, NotFinite, StepReport, train_step};

/// Starts or continues a pre-training run.
///
/// # Errors
/// See [`Error`]; [`Error::Stopped`] after a clean stop with a checkpoint.
pub fn pretrain(
    config: &PretrainConfig,
    resume: bool,
    stop: &StopFlag,
    tell: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    pretrain_on(&Disk, config, resume, stop, tell)
}

/// Runs [`pretrain`] on the given file system.
///
/// # Errors
/// Same as [`pretrain`].
pub fn pretrain_on(
    files: &dyn FileSystem,
    config: &PretrainConfig,
    resume: bool,
    stop: &StopFlag,
    tell: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    let mut config = config.clone();
    let mut fresh = None;
    if let RunLength::Budget(budget) = config.length()? {
        config.validate()?;
        let measured = measure::steps(files, &config, budget, resume, stop, tell)?;
        (config.steps, config.budget) = (Some(measured.steps), None);
        fresh = measured.fresh;
    }
    std::thread::scope(|scope| {
        let opened = Run::open(files, &config, resume, fresh.as_ref(), stop, tell)?;
        train(Background::new(scope), opened, stop, tell)
    })
}

/// Runs the training loop. A checkpoint is written while the next steps are computed.
fn train<'scope, 'a: 'scope>(
    mut background: Background<'scope, '_>,
    (mut run, mut model, mut optimizer): (Run<'a>, BertForPreTraining, AdamW),
    stop: &StopFlag,
    tell: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    let config = run.config;
    let steps = config.total_steps();
    let mut batches = Prefetcher::start(run.loader()?, run.step..steps, config.batch_size);
    let schedule = config.schedule();
    run.evaluate_if_owed(&model, tell)?;

    while run.step < steps {
        let started = Instant::now();
        let batch = batches.next_batch()?;
        let waiting = started.elapsed().as_secs_f64();

        let learning_rate = schedule.learning_rate(run.step);
        let micro_batches = batch.split(config.gradient_accumulation_steps);
        let loss = pretraining_objective(&batch, run.next_sentence, config.recompute, &run.device);
        let address = (config.seed, run.step);
        let (updated, report) =
            train_step(model, &mut optimizer, &micro_batches, loss, learning_rate, address);
        model = updated;
        let (report, skipped) = match report {
            Ok(report) => (report, false),
            Err(NotFinite { report }) => (report, true),
        };

        run.step += 1;
        let parts = PretrainingParts::of(&report);
        let predictions = batch.num_predictions() as u64;
        let metrics = StepMetrics {
            step: run.step,
            loss: report.loss,
            masked_lm_loss: parts.masked_lm,
            next_sentence_loss: parts.next_sentence,
            learning_rate,
            gradient_norm: report.gradient_norm,
            predictions,
            precision: config.precision(),
            skipped,
        };
        let timing = StepTiming { step: run.step, seconds: started.elapsed().as_secs_f64(), waiting };
        run.log(metrics, timing, tell)?;
        run.check_skipped(&report, skipped, tell)?;
        // A stop skips the evaluation and saves the step; the resumed run evaluates it.
        let evaluated = if run.evaluation_is_due() { run.evaluate(&model, tell) } else { Ok(()) };
        let left_out = matches!(evaluated, Err(Error::Stopped { .. }));
        if !left_out {
            evaluated?;
        }
        let signal = stop.requested();
        if run.checkpoint_is_due() || signal.is_some() || stop.take_checkpoint_request() {
            run.save(&model, &mut optimizer, batches.place(), &mut background, tell)?;
        }
        run.note_saved(&mut background, signal.is_some() || run.step == steps, tell)?;
        if let Some(signal) = signal.filter(|_| left_out || run.step < steps) {
            return Err(Error::Stopped { signal, step: run.step });
        }
    }
    run.finish(tell)
}

/// Returns the loss of a micro-batch as its share of the loss of `global`: sums divided by the global batch's targets.
/// Without `next_sentence`, the labels are meaningless (data made with `--nsp off`), and that loss has no weight. A
/// micro-batch has the dropout masks that its rows have in the whole batch. With `recompute`, the layers are recomputed
/// in the backward pass (gradient checkpointing).
pub fn pretraining_objective(
    global: &PretrainingBatch,
    next_sentence: bool,
    recompute: bool,
    device: &Device,
) -> impl Fn(&BertForPreTraining, &PretrainingBatch, Mode) -> MicroBatchLoss {
    let normalizer = LossNormalizer {
        masked_lm: global.num_predictions() as f64,
        next_sentence: next_sentence.then_some(global.batch_size as f64),
    };
    let device = device.clone();
    move |model, batch, mode| {
        let mode = mode.from_sequence(batch.first_sequence as u64);
        let (input, targets) = (batch.input(&device), batch.targets(&device));
        if recompute {
            let (loss, kept) = model.loss_recomputing(input, targets, normalizer, mode);
            return PretrainingParts::with_parts(loss).with_below(|loss_gradients| kept.backward(loss_gradients));
        }
        PretrainingParts::with_parts(model.loss(input, targets, normalizer, mode))
    }
}

/// The two parts of a step's loss, in nats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PretrainingParts {
    /// Mean negative log-likelihood of the masked tokens.
    pub masked_lm: f64,
    /// Mean cross-entropy of the next-sentence labels; 0 if they have no weight.
    pub next_sentence: f64,
}

impl PretrainingParts {
    /// Reads the parts from the report of a step with the loss of [`pretraining_objective`].
    ///
    /// # Panics
    /// For the report of a step with another loss.
    pub fn of(report: &StepReport) -> Self {
        let &[masked_lm, next_sentence] = report.parts.as_slice() else {
            panic!("not a step of pre-training")
        };
        Self { masked_lm, next_sentence }
    }

    /// Returns a loss whose parts [`PretrainingParts::of`] reads.
    fn with_parts(loss: PretrainingLoss) -> MicroBatchLoss {
        MicroBatchLoss::new(loss.total, vec![loss.masked_lm, loss.next_sentence])
    }
}
