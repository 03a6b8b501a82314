//! Converts `--budget 2h` to a number of steps, before the run starts.
//!
//! Steps are run on a temporary model of the run's shape, for a minute or a twentieth of the budget. Their mean time,
//! the time of the initialization and the time of an evaluation determine how many steps fit. From then on the run has
//! this number of steps: all results are functions of the step, and `run.json` records the number.

use std::time::{Duration, Instant};

use bert_model::BertForPreTraining;
use bert_storage::{FileSystem, StagedFolder};
use burn::module::Module;

use crate::compute::stop_flag::StopFlag;
use crate::error::Error;
use crate::initialization::FreshWeights;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::events::PretrainEvent;
use crate::pretrain::run_folder::{RunFolder, recorded_steps};
use crate::pretrain::setup::inputs::RunInputs;
use crate::pretrain::step_runner::StepRunner;
use crate::pretrain::time_budget::Budget;

/// Maximum duration of the measurement.
const MAX_DURATION: Duration = Duration::from_secs(60);
/// The measurement takes at most one part in this number of the budget.
const SHARE: u32 = 20;
/// Number of warm-up steps before the measurement: the first ones allocate memory from the system.
const WARMUP_STEPS: u64 = 2;
/// Minimum number of measured steps.
const MIN_STEPS: u64 = 3;
/// Fraction of the budget to plan for; the rest covers checkpoints and other load.
const PLANNED_FRACTION: f64 = 0.97;

/// The length of a run in steps.
pub(crate) struct MeasuredLength {
    /// The number of steps.
    pub(crate) steps: u64,
    /// The initial weights of a run without a checkpoint, so that the run does not count the text again.
    pub(crate) fresh: Option<FreshWeights>,
}

/// Returns how many steps fit into a budget: as recorded by the resumed run, or measured again.
///
/// # Errors
/// [`Error::Configuration`] when not even one step fits; [`Error::Stopped`]; the errors of opening a run.
pub(crate) fn measure_length(
    files: &dyn FileSystem,
    config: &PretrainConfig,
    budget: Budget,
    resume: bool,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<MeasuredLength, Error> {
    RunFolder::check_free(&StagedFolder::new(files, &config.output), resume)?;
    if resume && let Some(steps) = recorded_steps(&config.output)? {
        return Ok(MeasuredLength { steps, fresh: None });
    }
    let began = Instant::now();
    on_event(PretrainEvent::Measuring);
    let mut inputs = RunInputs::open(config, on_event)?;
    let fresh = match inputs.start.folder {
        Some(_) => None,
        None => Some(inputs.fresh_weights(stop, on_event)?),
    };
    // The run repeats this, but not the counting.
    let started = Instant::now();
    let model = inputs.model(None, fresh.as_ref(), stop, on_event)?;
    let initialization = started.elapsed();
    let (model, step) = seconds_per_step(&inputs, model, budget, stop)?;

    let started = Instant::now();
    inputs.evaluate(&model.valid(), 0, stop)?;
    stop.check_before_first_step()?;
    let evaluation = started.elapsed().as_secs_f64();

    let left = budget.0.as_secs_f64() - (began.elapsed() + initialization).as_secs_f64() - evaluation;
    let every = config.eval_every.unwrap_or(config.save_every) as f64;
    let steps = (PLANNED_FRACTION * left / (step + evaluation / every)).max(0.0) as u64;
    if steps == 0 {
        let budget = String::from(budget);
        let reason = format!("{budget} is too short: it ends before the first step, which takes {step:.1} s");
        return Err(Error::Configuration { flag: "budget", reason });
    }
    on_event(PretrainEvent::Measured { steps, seconds_per_step: step });
    Ok(MeasuredLength { steps, fresh })
}

/// Runs steps on a temporary model; returns the model and the mean duration of a step, in seconds.
fn seconds_per_step(
    inputs: &RunInputs<'_>,
    mut model: BertForPreTraining,
    budget: Budget,
    stop: &StopFlag,
) -> Result<(BertForPreTraining, f64), Error> {
    let config = inputs.config;
    let mut optimizer = inputs.optimizer(&model);
    let mut runner = StepRunner::start(inputs, 0..u64::MAX / config.batch_size as u64, None)?;
    let limit = MAX_DURATION.min(budget.0 / SHARE);
    let (mut measured, mut started) = (0, Instant::now());
    for step in 0.. {
        stop.check_before_first_step()?;
        if step == WARMUP_STEPS {
            started = Instant::now();
        }
        measured = u64::saturating_sub(step, WARMUP_STEPS);
        if measured == MIN_STEPS {
            check_warmup(config, budget, started.elapsed() / MIN_STEPS as u32)?;
        }
        if measured >= MIN_STEPS && started.elapsed() >= limit {
            break;
        }
        // With a learning rate of zero the weights stay finite whatever the settings.
        model = runner.run(model, &mut optimizer, 0.0)?.0;
    }
    Ok((model, started.elapsed().as_secs_f64() / measured as f64))
}

/// Rejects a warm-up of more than twice the steps that fit into a budget, after the first few steps. Shorter ones are
/// compared with the number of steps when it is known.
fn check_warmup(config: &PretrainConfig, budget: Budget, step: Duration) -> Result<(), Error> {
    let fit = budget.0.as_secs_f64() / step.as_secs_f64().max(1e-9);
    match config.warmup_steps.filter(|&steps| steps as f64 > 2.0 * fit) {
        None => Ok(()),
        Some(warmup) => {
            let budget = String::from(budget);
            let reason = format!(
                "{warmup} steps do not fit into --budget {budget}, which allows about {fit:.0} steps"
            );
            Err(Error::Configuration { flag: "warmup-steps", reason })
        }
    }
}
