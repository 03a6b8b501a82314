//! Converts `--budget 2h` to a number of steps, before the run starts.
//!
//! Steps are run on a temporary model of the run's shape, for a minute or a twentieth of the budget. Their mean time,
//! the time of the initialization and the time of an evaluation determine how many steps fit. From then on the run has
//! this number of steps: all results are functions of the step, and `run.json` records the number.

use std::time::{Duration, Instant};

use bert_inference::Error;
use bert_inference::compute::stop_flag::StopFlag;
use bert_model::BertForPreTraining;
use burn::module::Module;

use crate::group::Group;
use crate::initialization::FreshWeights;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::events::PretrainEvent;
use crate::pretrain::run_folder::recorded_settings;
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

/// Returns how many steps fit into a budget: as recorded by the resumed run, or measured again. All ranks run the steps;
/// rank 0 measures them.
///
/// # Errors
/// [`Error::Configuration`] when not even one step fits; [`Error::Stopped`]; the errors of opening a run.
pub(crate) fn measure_length(
    config: &PretrainConfig,
    group: &mut Group,
    budget: Budget,
    resume: bool,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<MeasuredLength, Error> {
    let began = Instant::now();
    let recorded = if resume && group.is_first() {
        recorded_settings(&config.output).map(|recorded| recorded.map(|recorded| recorded.steps))
    } else {
        Ok(None)
    };
    let recorded = group.agree(recorded)?;
    if let Some(steps) = group.value_of_first(Some(recorded))? {
        return Ok(MeasuredLength { steps, fresh: None });
    }
    on_event(PretrainEvent::Measuring);
    let inputs = RunInputs::open(config, group, on_event);
    let mut inputs = group.agree(inputs)?;
    let counts = inputs.start.folder.is_none() && group.is_first();
    let fresh = counts.then(|| inputs.fresh_weights(stop, on_event)).transpose();
    let fresh = group.agree(fresh)?;
    // The run repeats this, but not the counting.
    let started = Instant::now();
    let model = if group.is_first() {
        inputs.model(None, fresh.as_ref(), stop, on_event)
    } else {
        Ok(inputs.untrained_model())
    };
    let model = group.agree(model)?;
    let model = group.broadcast_weights(model)?;
    let initialization = started.elapsed();
    let limit = MAX_DURATION.min(budget.0 / SHARE);
    let mut check = |step| check_warmup(config, budget, step);
    let (model, step) = seconds_per_step(&inputs, group, model, limit, stop, &mut check)?;

    let started = Instant::now();
    inputs.evaluate(group, &model.valid(), stop)?;
    group.agree(stop.check_before_first_step())?;
    let evaluation = started.elapsed().as_secs_f64();

    let left = budget.0.as_secs_f64() - (began.elapsed() + initialization).as_secs_f64() - evaluation;
    let every = config.eval_every.unwrap_or(config.save_every) as f64;
    let steps = steps_within(left, step + evaluation / every);
    let (steps, step) = group.value_of_first(Some((steps, step)))?;
    group.continue_after(0);
    if steps == 0 {
        let budget = String::from(budget);
        let reason = format!("{budget} is too short: it ends before the first step, which takes {step:.1} s");
        return Err(Error::Configuration { flag: "budget", reason });
    }
    on_event(PretrainEvent::Measured { steps, seconds_per_step: step });
    Ok(MeasuredLength { steps, fresh })
}

/// Returns how many steps to plan for in a number of seconds.
pub(super) fn steps_within(seconds: f64, seconds_per_step: f64) -> u64 {
    (PLANNED_FRACTION * seconds / seconds_per_step).max(0.0) as u64
}

/// Runs steps on a temporary model for `limit`, and at least [`MIN_STEPS`]. Calls `check` with the mean duration of the
/// first ones. Returns the model and the mean duration of a step, in seconds.
///
/// # Errors
/// The error of `check`; when a batch cannot be read; [`Error::Stopped`].
pub(super) fn seconds_per_step(
    inputs: &RunInputs<'_>,
    group: &mut Group,
    mut model: BertForPreTraining,
    limit: Duration,
    stop: &StopFlag,
    check: &mut dyn FnMut(Duration) -> Result<(), Error>,
) -> Result<(BertForPreTraining, f64), Error> {
    let config = inputs.config;
    let mut optimizer = inputs.optimizer(&model).sharded(group.rank(), group.ranks());
    let runner = StepRunner::start(inputs, group, 0..u64::MAX / config.batch_size as u64, None);
    let mut runner = group.agree(runner)?;
    let mut measured = 0;
    let mut started = Instant::now();
    for step in 0.. {
        if step == WARMUP_STEPS {
            started = Instant::now();
        }
        measured = u64::saturating_sub(step, WARMUP_STEPS);
        let checked = stop.check_before_first_step().and_then(|()| match measured {
            MIN_STEPS if group.is_first() => check(started.elapsed() / MIN_STEPS as u32),
            _ => Ok(()),
        });
        group.agree(checked)?;
        if group.value_of_first(Some(measured >= MIN_STEPS && started.elapsed() >= limit))? {
            break;
        }
        // With a learning rate of zero the weights stay finite whatever the settings.
        model = runner.run(group, model, &mut optimizer, 0.0)?.0;
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
