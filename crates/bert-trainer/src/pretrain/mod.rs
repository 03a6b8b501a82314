//! Pre-trains BERT: the training loop. `run.rs` has the setup, logs and checkpoints, and [`events`] the caller's
//! events.
//!
//! Ports `run_pretraining.py` (masked LM and next-sentence prediction). A [`PretrainConfig`] describes the run, and its
//! checkpoints and `metrics.jsonl` are written to the run folder. There are two differences from the reference: the
//! masked-LM loss is divided by the number of targets in the whole global batch, and the gradient of the tied word
//! embeddings enters the global norm as one dense tensor.

pub(crate) mod best_and_average;
pub(crate) mod checkpoint_writer;
pub mod config;
mod estimate;
pub mod events;
pub(crate) mod initial_model;
pub mod objective;
mod run;
pub mod run_folder;
pub(crate) mod steps_for_budget;
pub mod time_budget;

use std::time::Instant;

use bert_model::BertForPreTraining;
use bert_storage::{Disk, FileSystem};

use crate::pretrain::checkpoint_writer::CheckpointWriter;
pub use events::{PretrainEvent, PretrainOutcome, StepMetrics, StepTiming};
use run::Run;

use crate::data_loader::Prefetcher;
use crate::error::Error;
use crate::pretrain::config::{PretrainConfig, RunLength};
use crate::pretrain::objective::{PretrainingParts, pretraining_objective};
use crate::training::adamw::AdamW;
use crate::training::step::{NotFinite, train_step};
use crate::training::stop_flag::StopFlag;

/// Starts or continues a pre-training run.
///
/// # Errors
/// See [`Error`]; [`Error::Stopped`] after a clean stop with a checkpoint.
pub fn pretrain(
    config: &PretrainConfig,
    resume: bool,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    pretrain_on(&Disk, config, resume, stop, on_event)
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
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    let mut config = config.clone();
    let mut fresh = None;
    if let RunLength::Budget(budget) = config.length()? {
        config.validate()?;
        let measured = steps_for_budget::steps(files, &config, budget, resume, stop, on_event)?;
        (config.steps, config.budget) = (Some(measured.steps), None);
        fresh = measured.fresh;
    }
    std::thread::scope(|scope| {
        let opened = Run::open(files, &config, resume, fresh.as_ref(), stop, on_event)?;
        train(CheckpointWriter::new(scope), opened, stop, on_event)
    })
}

/// Runs the training loop. A checkpoint is written while the next steps are computed.
fn train<'scope, 'a: 'scope>(
    mut background: CheckpointWriter<'scope, '_>,
    (mut run, mut model, mut optimizer): (Run<'a>, BertForPreTraining, AdamW),
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    let config = run.config;
    let steps = config.total_steps();
    let mut batches = Prefetcher::start(run.loader()?, run.step..steps, config.batch_size);
    let schedule = config.schedule();
    run.evaluate_if_pending(&model, on_event)?;

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
        run.log(metrics, timing, on_event)?;
        run.check_skipped(&report, skipped, on_event)?;
        // A stop skips the evaluation and saves the step; the resumed run evaluates it.
        let evaluated = if run.evaluation_is_due() { run.evaluate(&model, on_event) } else { Ok(()) };
        let left_out = matches!(evaluated, Err(Error::Stopped { .. }));
        if !left_out {
            evaluated?;
        }
        let signal = stop.requested();
        if run.checkpoint_is_due() || signal.is_some() || stop.take_checkpoint_request() {
            run.save(&model, &mut optimizer, batches.position(), &mut background, on_event)?;
        }
        run.note_saved(&mut background, signal.is_some() || run.step == steps, on_event)?;
        if let Some(signal) = signal.filter(|_| left_out || run.step < steps) {
            return Err(Error::Stopped { signal, step: run.step });
        }
    }
    run.finish(on_event)
}
