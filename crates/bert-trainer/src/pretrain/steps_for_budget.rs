//! Converts `--budget 2h` to a number of steps, before the run starts.
//!
//! Steps are run on a temporary model of the run's shape, for a minute or a twentieth of the budget. Their mean time,
//! the time of the initialization and the time of an evaluation determine how many steps fit. From then on the run has
//! this number of steps: all results are functions of the step, and `run.json` records the number.

use std::time::{Duration, Instant};

use bert_storage::{FileSystem, StagedFolder};
use burn::module::Module;

use super::events::PretrainEvent;
use super::run::Opened;
use crate::data_loader::Prefetcher;
use crate::error::Error;
use crate::evaluation::evaluate_unless_stopped;
use crate::initialization::FreshWeights;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::initial_model::{fresh_weights, initial_model};
use crate::pretrain::objective::pretraining_objective;
use crate::pretrain::run_folder::{RunFolder, recorded_steps};
use crate::pretrain::time_budget::Budget;
use crate::training::adamw::AdamW;
use crate::training::step::train_step;
use crate::training::stop_flag::StopFlag;

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

/// The result of a measurement.
pub(super) struct Measured {
    /// The number of steps.
    pub(super) steps: u64,
    /// The initial weights of a run without a checkpoint, so that the run does not count the text again.
    pub(super) fresh: Option<FreshWeights>,
}

/// Returns how many steps fit into a budget: as recorded by the resumed run, or measured again.
///
/// # Errors
/// [`Error::Configuration`] when not even one step fits; [`Error::Stopped`]; the errors of opening a run.
pub(super) fn steps(
    files: &dyn FileSystem,
    config: &PretrainConfig,
    budget: Budget,
    resume: bool,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<Measured, Error> {
    RunFolder::check_free(&StagedFolder::new(files, &config.output), resume)?;
    if resume && let Some(steps) = recorded_steps(&config.output)? {
        return Ok(Measured { steps, fresh: None });
    }
    let began = Instant::now();
    on_event(PretrainEvent::Measuring);
    let Opened { device, data, loader, eval_loader, model_config: shape, start, .. } =
        Opened::new(config, on_event)?;

    let fresh = match start {
        Some(_) => None,
        None => Some(fresh_weights(config, &data, &shape, stop, on_event)?),
    };
    // The run repeats this, but not the counting.
    let timed = Instant::now();
    let weights = (start.as_deref(), fresh.as_ref());
    let mut model = initial_model(config, (&data, &shape), weights, &device, stop, on_event)?;
    let initialization = timed.elapsed();

    let loader = loader.with_length_buckets(config.length_buckets, config.batch_size);
    let next_sentence = loader.manifest().config.nsp != bert_data::Nsp::Off;
    let mut batches = Prefetcher::start(loader, 0..u64::MAX / config.batch_size as u64, config.batch_size);
    let mut optimizer = AdamW::new(config.optimizer(), &model).with_compute(shape.compute);
    let limit = MAX_DURATION.min(budget.0 / SHARE);
    let (mut counted, mut timed) = (0, Instant::now());
    for step in 0.. {
        stop.check_before_first_step()?;
        if step == WARMUP_STEPS {
            timed = Instant::now();
        }
        counted = u64::saturating_sub(step, WARMUP_STEPS);
        if counted == MIN_STEPS {
            refuse_long_warmup(config, budget, timed.elapsed() / MIN_STEPS as u32)?;
        }
        if counted >= MIN_STEPS && timed.elapsed() >= limit {
            break;
        }
        let batch = batches.next_batch()?;
        let micro_batches = batch.split(config.gradient_accumulation_steps);
        let loss = pretraining_objective(&batch, next_sentence, config.recompute, &device);
        // With a learning rate of zero the weights stay finite whatever the settings.
        model = train_step(model, &mut optimizer, &micro_batches, loss, 0.0, (config.seed, step)).0;
    }
    let step = timed.elapsed().as_secs_f64() / counted as f64;
    drop((batches, optimizer));

    let timed = Instant::now();
    if let Some(mut loader) = eval_loader {
        let (size, limit) = (config.micro_batch_size(), config.eval_instances);
        evaluate_unless_stopped(&model.valid(), &mut loader, size, limit, &device.inner(), stop)?;
        stop.check_before_first_step()?;
    }
    let evaluation = timed.elapsed().as_secs_f64();

    let left = budget.0.as_secs_f64() - (began.elapsed() + initialization).as_secs_f64() - evaluation;
    let every = config.eval_every.unwrap_or(config.save_every) as f64;
    let steps = (PLANNED_FRACTION * left / (step + evaluation / every)).max(0.0) as u64;
    if steps == 0 {
        let budget = String::from(budget);
        let reason = format!("{budget} is too short: it ends before the first step, which takes {step:.1} s");
        return Err(Error::Configuration { flag: "budget", reason });
    }
    on_event(PretrainEvent::Measured { steps, seconds_per_step: step });
    Ok(Measured { steps, fresh })
}

/// Rejects a warm-up of more than twice the steps that fit into a budget, after the first few steps. Shorter ones are
/// compared with the number of steps when it is known.
fn refuse_long_warmup(config: &PretrainConfig, budget: Budget, step: Duration) -> Result<(), Error> {
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
