//! Pre-trains BERT: the training loop. `inputs.rs` opens device, data and model, `run.rs` has the logs and checkpoints,
//! and [`events`] the caller's events.
//!
//! Ports `run_pretraining.py` (masked LM and next-sentence prediction). A [`PretrainConfig`] describes the run, and its
//! checkpoints and `metrics.jsonl` are written to the run folder. There are two differences from the reference: the
//! masked-LM loss is divided by the number of targets in the whole global batch, and the gradient of the tied word
//! embeddings enters the global norm as one dense tensor.

pub(crate) mod best_and_average;
mod checkpoint_writer;
pub mod config;
pub mod events;
pub mod objective;
mod run;
mod run_evaluation;
pub(crate) mod run_file;
pub(crate) mod run_folder;
pub(crate) mod setup;
mod step_runner;
pub(crate) mod steps_for_budget;
pub mod time_budget;

use bert_storage::{Disk, FileSystem};

pub use events::{PretrainEvent, PretrainOutcome, StepMetrics, StepTiming};

use crate::compute::stop_flag::StopFlag;
use crate::error::Error;
use crate::pretrain::checkpoint_writer::CheckpointWriter;
use crate::pretrain::config::{PretrainConfig, RunLength};
use crate::pretrain::run::{OpenRun, Run};
use crate::pretrain::step_runner::StepRunner;
use crate::pretrain::steps_for_budget::measure_length;

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
        let measured = measure_length(files, &config, budget, resume, stop, on_event)?;
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
    mut writer: CheckpointWriter<'scope, '_>,
    opened: OpenRun<'a>,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    let OpenRun { mut run, mut model, mut optimizer } = opened;
    let (steps, schedule) = (run.config().total_steps(), run.config().schedule());
    let mut runner = StepRunner::start(&run.inputs, run.step..steps, run.position)?;
    run.evaluate_if_pending(&model, on_event)?;

    while run.step < steps {
        let learning_rate = schedule.learning_rate(run.step);
        let (updated, finished) = runner.run(model, &mut optimizer, learning_rate)?;
        model = updated;
        run.record(finished, learning_rate, on_event)?;

        // A stop skips the evaluation and saves the step; the resumed run evaluates it.
        let evaluated = if run.evaluation_is_due() { run.evaluate(&model, on_event) } else { Ok(()) };
        let evaluation_skipped = matches!(evaluated, Err(Error::Stopped { .. }));
        if !evaluation_skipped {
            evaluated?;
        }
        let signal = stop.requested();
        if run.checkpoint_is_due() || signal.is_some() || stop.take_checkpoint_request() {
            run.save(&model, &mut optimizer, runner.position(), &mut writer, on_event)?;
        }
        run.report_saved(&mut writer, signal.is_some() || run.step == steps, on_event)?;
        if let Some(signal) = signal.filter(|_| evaluation_skipped || run.step < steps) {
            return Err(Error::Stopped { signal, step: run.step });
        }
    }
    run.finish(on_event)
}
