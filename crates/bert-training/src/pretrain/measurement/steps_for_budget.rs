//! Converts `--budget 2h` to a number of steps, before the run starts.
//!
//! Steps are run on a temporary model of the run's shape, for at most eight seconds or a twentieth of the budget. Their
//! time, the time of the initialization and the time of an evaluation determine how many steps fit. From then on the
//! run has this number of steps: all results are functions of the step, and `run.json` records the number.

use std::time::{Duration, Instant};

use bert_inference::StopFlag;
use burn::module::Module;

use crate::error::{Error, check_stop};
use crate::group::Group;
use crate::initialization::FreshWeights;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::events::PretrainEvent;
use crate::pretrain::measurement::step_time::seconds_per_step;
use crate::pretrain::run_folder::recorded_settings;
use crate::pretrain::run_settings::RunSettings;
use crate::pretrain::setup::inputs::RunInputs;
use crate::pretrain::time_budget::Budget;

/// Maximum duration of the measurement.
const MAX_DURATION: Duration = Duration::from_secs(8);
/// The divisor of the budget: the measurement takes at most about the quotient.
const SHARE: u32 = 20;
/// Fraction of the budget to plan for; the rest covers checkpoints and other load.
const PLANNED_FRACTION: f64 = 0.97;

/// The length of a run in steps.
pub(crate) struct MeasuredLength {
    /// The number of steps.
    pub(crate) steps: u64,
    /// The initial weights of a run without a checkpoint, so that the run does not count the text again.
    pub(crate) fresh: Option<FreshWeights>,
}

/// Returns how many steps fit into a budget: the number that the resumed run has recorded, or a measured number. All
/// ranks run the measured steps; rank 0 measures their time.
///
/// # Errors
/// Fails when the budget is too short for one step or for the warm-up, when a stop is requested, or when the run cannot
/// be opened.
pub(crate) fn measure_length(
    settings: &RunSettings,
    group: &mut Group,
    budget: Budget,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<MeasuredLength, Error> {
    let began = Instant::now();
    let RunSettings { config, resume, .. } = settings;
    let recorded = if *resume && group.is_first() {
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
    let fresh = group.first_works(stop, |show_life| {
        let on_event = &mut |event| {
            show_life();
            on_event(event);
        };
        let is_counted = inputs.start.folder.is_none();
        is_counted.then(|| inputs.fresh_weights(stop, on_event)).transpose()
    });
    let fresh = group.agree(fresh)?.flatten();
    // The run opens the model again, but does not count the text again.
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
    let (model, step) = seconds_per_step(&inputs, group, model, limit, stop)?;
    check_warmup(config, budget, step)?;

    let started = Instant::now();
    inputs.evaluate(group, &model.valid(), stop)?;
    group.agree(check_stop(stop))?;
    let evaluation = started.elapsed().as_secs_f64();

    let left = budget.0.as_secs_f64() - (began.elapsed() + initialization).as_secs_f64() - evaluation;
    let every = config.evaluation_interval() as f64;
    let steps = steps_within(left, step + evaluation / every);
    let (steps, step) = group.value_of_first(Some((steps, step)))?;
    group.continue_after(0);
    if steps == 0 {
        let budget = budget.to_string();
        let reason = format!("{budget} is too short: it ends before the first step, which takes {step:.1} s");
        return Err(Error::option("budget", reason));
    }
    on_event(PretrainEvent::Measured { steps, seconds_per_step: step });
    Ok(MeasuredLength { steps, fresh })
}

/// Returns how many steps to plan for in a number of seconds.
pub(super) fn steps_within(seconds: f64, seconds_per_step: f64) -> u64 {
    (PLANNED_FRACTION * seconds / seconds_per_step).max(0.0) as u64
}

/// Rejects a warm-up of more than twice the steps that fit into a budget. A shorter warm-up is compared with the number
/// of steps once this number is known.
fn check_warmup(config: &PretrainConfig, budget: Budget, step: f64) -> Result<(), Error> {
    let fit = budget.0.as_secs_f64() / step.max(1e-9);
    match config.warmup_steps.filter(|&steps| steps as f64 > 2.0 * fit) {
        None => Ok(()),
        Some(warmup) => {
            let budget = budget.to_string();
            let reason = format!(
                "{warmup} steps do not fit into `.budget` {budget}, which allows about {fit:.0} steps"
            );
            Err(Error::option("warmup_steps", reason))
        }
    }
}
