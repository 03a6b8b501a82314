//! Pre-trains BERT: the training loop. `run/open.rs` opens a run, `run/mod.rs` writes the logs and checkpoints, and
//! [`events`] defines the events for the caller.
//!
//! Ports `run_pretraining.py` (masked LM and next-sentence prediction). A [`PretrainConfig`] describes the run, and its
//! checkpoints and `metrics.jsonl` are written to the run folder. There are two differences from the reference: the
//! masked-LM loss is divided by the number of targets in the whole global batch, and the gradient of the tied word
//! embeddings enters the global norm as one dense tensor.

pub(crate) mod best_and_average;
pub(crate) mod config;
pub(crate) mod events;
mod held_out;
mod measurement;
mod run;
pub(crate) mod run_file;
pub(crate) mod run_folder;
pub(crate) mod run_settings;
pub(crate) mod setup;
pub(crate) mod shared_text;
mod step_runner;
pub(crate) mod time_budget;
pub(crate) mod work;

use bert_storage::{Class, Disk, FileSystem};

use crate::error::stopped;

pub(crate) use events::{PretrainEvent, PretrainOutcome};
pub use measurement::dry_run::{PretrainEstimate, dry_run};

use bert_inference::StopFlag;

use crate::error::Error;
use crate::group::{Group, Requests};
use crate::pretrain::config::{PretrainConfig, RunLength};
use crate::pretrain::measurement::steps_for_budget::measure_length;
use crate::pretrain::run::CheckpointWriter;
use crate::pretrain::run::open::{OpenRun, RunStart, open_run};
use crate::pretrain::run_settings::{RunSettings, check_output};
use crate::pretrain::step_runner::StepRunner;
use crate::run_dir::training_run::Resume;

/// Starts or continues a pre-training run.
///
/// # Errors
/// Fails when an option is invalid, when the data or the model cannot be read or do not match, when the output folder
/// cannot be used, when the memory is not enough, when the device computes wrong numbers, when too many steps are
/// skipped, or when a stop is requested. If at least one step has finished, a checkpoint is written before the stop.
pub fn pretrain(
    config: &PretrainConfig,
    resume: Resume,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    pretrain_on(&Disk, config, resume, stop, on_event)
}

/// Runs [`pretrain`] on the given file system.
///
/// # Errors
/// Fails as [`pretrain`] does.
pub fn pretrain_on(
    files: &dyn FileSystem,
    config: &PretrainConfig,
    resume: Resume,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    pretrain_in(files, config, &mut Group::alone(), resume, stop, on_event)
}

/// Runs [`pretrain`] in a process group. All ranks call it with the same configuration. Rank 0 alone writes files and
/// sends events other than [`PretrainEvent::Step`].
///
/// # Errors
/// Fails as [`pretrain`] does, when a rank of the group is lost or has an error, or when the ranks have different
/// settings, data or weights.
pub fn pretrain_in(
    files: &dyn FileSystem,
    config: &PretrainConfig,
    group: &mut Group,
    resume: Resume,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    let resume = resume == Resume::Yes;
    let is_first = group.is_first();
    let on_event = &mut |event| {
        if is_first || matches!(event, PretrainEvent::Step { .. }) {
            on_event(event);
        }
    };
    let mut config = config.clone();
    let checked = check_output(files, &config, group, resume);
    let found = checked.and_then(|()| config.find_held_out(on_event));
    let found = found.and_then(|shared| Ok((shared, config.seed_after_checkpoint()?, config.length()?)));
    let (shared_text, seed, length) = group.agree(found)?;
    let mut settings = RunSettings::open(&config, group, resume)?;
    settings.shared_text = shared_text;
    settings.defaults.extend(seed);
    let (steps, fresh) = match length {
        RunLength::Steps(steps) => (steps, None),
        RunLength::Budget(budget) => {
            let measured = measure_length(&settings, group, budget, stop, on_event)?;
            (measured.steps, measured.fresh)
        }
    };
    let settings = settings.with_steps(steps);
    if !settings.defaults.is_empty() {
        on_event(PretrainEvent::Defaults(settings.defaults.clone()));
    }
    let start = RunStart { files, settings: &settings, fresh: fresh.as_ref() };
    std::thread::scope(|scope| {
        let opened = open_run(start, group, stop, on_event)?;
        train(CheckpointWriter::new(scope), opened, stop, on_event)
    })
}

/// Runs the training loop. A checkpoint is written while the next steps are computed.
///
/// The group holds an error of this rank until its next operation, which sends it to the other ranks.
fn train<'scope, 'a: 'scope>(
    mut writer: CheckpointWriter<'scope, '_>,
    opened: OpenRun<'a>,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainOutcome, Error> {
    let OpenRun { mut run, mut model, mut optimizer } = opened;
    let steps = run.config().total_steps();
    let schedule = run.config().schedule();
    let runner =
        StepRunner::start(&run.inputs, run.group, run.config().batch_shape(), run.step..steps, run.position);
    let mut runner = run.group.agree(runner)?;
    run.evaluate_if_pending(&model, on_event)?;

    while run.step < steps {
        let learning_rate = schedule.learning_rate(run.step);
        let (updated, finished) = runner.run(run.group, model, &mut optimizer, learning_rate)?;
        model = updated;
        let recorded = run.record(finished, learning_rate, on_event);
        run.group.hold(recorded)?;

        // A stop skips the evaluation and saves the step; the resumed run evaluates it.
        let mut evaluation_skipped = false;
        if run.evaluation_is_due() {
            match run.evaluate(&model, on_event) {
                Err(error) if matches!(error.class(), Class::Stopped(_)) => evaluation_skipped = true,
                evaluated => evaluated?,
            }
        }
        let Requests { signal, checkpoint, position } = run.group.finish_step(Requests {
            signal: stop.requested(),
            checkpoint: stop.take_checkpoint_request(),
            position: runner.position(),
        })?;
        if run.checkpoint_is_due() || signal.is_some() || checkpoint {
            run.save(&model, &mut optimizer, position, &mut writer, on_event)?;
        }
        let wait = signal.is_some() || run.step == steps;
        let reported = run.report_saved(&mut writer, wait, on_event);
        run.group.hold(reported)?;
        if let Some(signal) = signal.filter(|_| evaluation_skipped || run.step < steps) {
            run.group.agree(Ok(()))?;
            return Err(stopped(signal, run.step));
        }
    }
    run.finish(on_event)
}
