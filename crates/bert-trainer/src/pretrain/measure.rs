//! Turns `--budget 2h` into a number of steps, before the run begins.
//!
//! Steps are made on a model of the run's shape, which is then forgotten, for a minute or a twentieth of the budget.
//! Their mean time, that of the initial weights and that of an evaluation say how many steps fit. From there on the run
//! is one of so many steps: everything in it is a function of the step, and `run.json` holds the number.

use std::time::{Duration, Instant};

use bert_storage::StagedFolder;
use burn::module::Module;

use super::events::PretrainEvent;
use super::pretraining_objective;
use super::run::{initial_model, model_config};
use crate::budget::Budget;
use crate::config::PretrainConfig;
use crate::data_loader::{DataLoader, Prefetcher};
use crate::error::Error;
use crate::evaluation::evaluate;
use crate::optimizer::AdamW;
use crate::run_folder::recorded_steps;
use crate::stop::StopFlag;
use crate::train_step::train_step;

/// The longest measurement.
const LONGEST: Duration = Duration::from_secs(60);
/// Its share of a short budget.
const SHARE: u32 = 20;
/// Steps that are not counted: the first ones take memory from the system.
const UNCOUNTED: u64 = 2;
/// The least number of steps that are.
const FEWEST: u64 = 3;
/// What is left for saving and for what else the computer does.
const USED: f64 = 0.97;

/// How many steps a budget is enough for: those of the run that is resumed, or measured anew.
///
/// # Errors
/// [`Error::Configuration`] when not even one step fits; [`Error::Stopped`]; as opening a run.
pub(super) fn steps(
    config: &PretrainConfig,
    budget: Budget,
    resume: bool,
    stop: &StopFlag,
    tell: &mut dyn FnMut(PretrainEvent),
) -> Result<u64, Error> {
    if resume && let Some(steps) = recorded_steps(&config.output)? {
        return Ok(steps);
    }
    StagedFolder::new(&bert_storage::Disk, &config.output).refuse_if_in_use()?;
    let began = Instant::now();
    tell(PretrainEvent::Measuring);
    let data = config.open_data(&config.data)?;
    let loader = DataLoader::new(data.clone(), config.seed)?;
    let (shape, start, _) = model_config(config, &loader, tell)?;
    let device = config.device.open()?.autodiff();

    let timed = Instant::now();
    let mut model = initial_model(config, &data, &shape, start.as_deref(), &device, tell)?;
    let initialization = timed.elapsed();

    let loader = loader.with_length_buckets(config.length_buckets, config.batch_size);
    let next_sentence = loader.manifest().config.nsp != bert_data::Nsp::Off;
    let mut batches = Prefetcher::start(loader, 0..u64::MAX / config.batch_size as u64, config.batch_size);
    let mut optimizer = AdamW::new(config.optimizer(), &model).computing(shape.compute);
    let limit = LONGEST.min(budget.0 / SHARE);
    let (mut counted, mut timed) = (0, Instant::now());
    for step in 0.. {
        if let Some(signal) = stop.requested() {
            return Err(Error::Stopped { signal, step: 0 });
        }
        if step == UNCOUNTED {
            timed = Instant::now();
        }
        counted = u64::saturating_sub(step, UNCOUNTED);
        if counted >= FEWEST && timed.elapsed() >= limit {
            break;
        }
        let batch = batches.next_batch()?;
        let micro_batches = batch.split(config.gradient_accumulation_steps);
        let loss = pretraining_objective(&batch, next_sentence, config.recompute, &device);
        // At a rate of zero the weights stay finite whatever the settings are.
        model = train_step(model, &mut optimizer, &micro_batches, loss, 0.0, (config.seed, step)).0;
    }
    let step = timed.elapsed().as_secs_f64() / counted as f64;
    drop((batches, optimizer));

    let timed = Instant::now();
    if let Some(folder) = &config.eval_data {
        let mut loader = DataLoader::new(config.open_data(folder)?, config.seed)?;
        let (size, limit) = (config.micro_batch_size(), config.eval_instances);
        evaluate(&model.valid(), &mut loader, size, limit, &device.inner())?;
    }
    let evaluation = timed.elapsed().as_secs_f64();

    let left = budget.0.as_secs_f64() - (began.elapsed() + initialization).as_secs_f64() - evaluation;
    let every = config.eval_every.unwrap_or(config.save_every) as f64;
    let steps = (USED * left / (step + evaluation / every)).max(0.0) as u64;
    if steps == 0 {
        let budget = String::from(budget);
        let reason = format!("{budget} is over before the first step, which takes {step:.1} s");
        return Err(Error::Configuration { flag: "budget", reason });
    }
    tell(PretrainEvent::Measured { steps, seconds_per_step: step });
    Ok(steps)
}
