//! Several tasks at once: one encoder, a classifier each.
//!
//! Every step is a batch of one task, drawn with a probability that depends on the tasks' sizes. Which task a step has is a
//! function of seed and step alone. An epoch has as many steps as all tasks' examples together make batches.

use std::fmt;
use std::path::Path;

use bert_data::files::{Disk, create_folder, write_json_atomic};
use bert_data::rng::{Domain, Random, Stream};
use bert_model::{BertConfig, BertForSequenceClassification, BertForSeveralTasks, Mode};
use burn::module::Module;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::config::{FinetuneConfig, Selection};
use super::features::SampleOrder;
use super::grid;
use super::objectives::labels::Labels;
use super::objectives::{Objective, Part, Setup};
use super::output::Output;
use super::report::FinetuneReport;
use super::runs::Runs;
use super::seed_run::{EpochReport, micro_batches};
use super::start::start_model;
use super::{FinetuneEvent, TrainedParameters, report};
use crate::checkpoint::resolve_model_folder;
use crate::error::Error;
use crate::optimizer::AdamW;
use crate::schedule::Schedule;
use crate::stop::StopFlag;
use crate::tasks::{Kind, Scores, Task};
use crate::text::Text;
use crate::train_step::{MicroBatchLoss, train_step};

/// How often each task is trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// By its number of examples.
    Proportional,
    /// By a power of it that falls from 1 to 0.2 over the epochs (Stickland and Murray 2019).
    Annealed,
    /// By its root: examples to the power of 1 over --temperature.
    Temperature,
}

impl Sampling {
    /// To what power sizes are taken in an epoch, from 0.
    fn power(self, temperature: f64, epoch: u64, epochs: u64) -> f64 {
        match self {
            Self::Proportional => 1.0,
            Self::Annealed if epochs > 1 => 1.0 - 0.8 * epoch as f64 / (epochs - 1) as f64,
            Self::Annealed => 1.0,
            Self::Temperature => 1.0 / temperature,
        }
    }
}

/// The task of a step: the first whose share of the draws it falls into.
fn task_of(sizes: &[usize], power: f64, seed: u64, step: u64) -> usize {
    let weights: Vec<f64> = sizes.iter().map(|&size| (size as f64).powf(power)).collect();
    let mut left = Stream::new(seed, Domain::TaskOfStep, &[step]).unit() * weights.iter().sum::<f64>();
    for (task, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return task;
        }
    }
    sizes.len() - 1
}

/// What a task came to in an epoch.
#[derive(Clone, Debug, Serialize)]
pub struct TaskEpoch {
    /// The task.
    pub task: Task,
    /// Steps that were its.
    pub steps: u64,
    /// Their mean loss; none when it had no step.
    pub train_loss: Option<f64>,
    /// Its scores on dev after the epoch.
    pub dev: Scores,
}

/// `multitask.json`.
#[derive(Clone, Debug, Serialize)]
pub struct MultitaskReport {
    /// How tasks were drawn.
    pub sampling: Sampling,
    /// Of `--sampling temperature`.
    pub temperature: f64,
    /// The seed.
    pub seed: u64,
    /// All tasks after each epoch.
    pub epochs: Vec<Vec<TaskEpoch>>,
}

impl fmt::Display for MultitaskReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<7}{:<8}{:>7}{:>12}  on dev", "epoch", "task", "steps", "train loss")?;
        for (epoch, tasks) in self.epochs.iter().enumerate() {
            for (at, TaskEpoch { task, steps, train_loss, dev }) in tasks.iter().enumerate() {
                let epoch = if at == 0 { (epoch + 1).to_string() } else { String::new() };
                let loss = train_loss.map_or("-".to_string(), |loss| format!("{loss:.4}"));
                write!(f, "\n{epoch:<7}{task:<8}{steps:>7}{loss:>12}  {dev}")?;
            }
        }
        Ok(())
    }
}

/// Refuses what is not done for several tasks.
///
/// # Errors
/// [`Error::Configuration`] naming the flag.
pub fn check_multitask(configs: &[FinetuneConfig]) -> Result<(), Error> {
    let refuse =
        |flag: &'static str, reason: &str| Err(Error::Configuration { flag, reason: reason.to_string() });
    for (at, config) in configs.iter().enumerate() {
        let spec = config.task.spec();
        let labels = matches!(spec.kind, Kind::Classification { .. } | Kind::Regression { .. });
        if !labels || spec.choices > 0 || matches!(config.task, Task::Table(_)) {
            return refuse("tasks", "are published tasks that give a text or a pair a class or a score");
        }
        if configs[..at].iter().any(|other| other.task == config.task) {
            return refuse("tasks", "must differ from each other");
        }
        let one = "is for one task at a time";
        let given = [
            ("adapter", config.adapter.is_some()),
            ("fusion", !config.fusion.is_empty()),
            ("freeze-encoder", config.freeze_encoder),
            ("holdout", config.held_out_share().is_some()),
            ("patience", config.patience.is_some()),
            ("predict", config.predict.is_some()),
            ("seeds", config.seeds.len() > 1),
        ];
        if let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) {
            return refuse(flag, one);
        }
        if config.select != Selection::Last {
            return refuse("select", "is last: the best epoch of one task is not that of another");
        }
        grid::cells(config)?;
    }
    match configs.len() {
        0 | 1 => refuse("tasks", "must be two or more"),
        _ => Ok(()),
    }
}

/// Trains one encoder on all tasks; each task's folder in `output` is then like one of `finetune`.
///
/// # Errors
/// See [`Error`]; after [`Error::StoppedUnsaved`] no file is left behind.
pub fn multitask(
    configs: &[FinetuneConfig],
    (sampling, temperature): (Sampling, f64),
    output: &Path,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<MultitaskReport, Error> {
    check_multitask(configs)?;
    let (first, seed) = (&configs[0], configs[0].seeds[0]);
    let cells = configs.iter().map(grid::cells).collect::<Result<Vec<_>, Error>>()?;
    let resolved = &cells[0][0].resolved;
    first.kernels.select();
    resolved.precision.select();
    let device = first.device.open()?.autodiff();
    let start = resolve_model_folder(&first.checkpoint, &mut |error| {
        tell(FinetuneEvent::Warning(error.to_string()));
    })?;
    let text = Text::open(&start)?;
    let shape = BertConfig::read(start.join("config.json"))?;
    let longest = cells.iter().map(|cells| cells[0].resolved.max_seq_length).max().unwrap_or(0);
    text.check_fits(&shape, longest)?;
    let layers = shape.num_hidden_layers;
    let setups: Vec<Setup<'_>> = cells
        .iter()
        .map(|cells| {
            let (config, max_seq_length) = (&cells[0].config, cells[0].resolved.max_seq_length);
            Setup { config, text: &text, start: &start, layers, max_seq_length, device: &device }
        })
        .collect();
    let objectives: Vec<Labels<'_, BertForSequenceClassification>> =
        setups.iter().map(|&setup| Labels::read(setup)).collect::<Result<_, Error>>()?;
    let mut model: Option<BertForSeveralTasks> = None;
    let mut model_configs = Vec::new();
    for (&setup, objective) in setups.iter().zip(&objectives) {
        let (of_task, config) = start_model(setup, objective, seed, tell)?;
        model = Some(match model {
            None => BertForSeveralTasks::new(of_task),
            Some(model) => model.with_task(of_task),
        });
        model_configs.push(config);
    }
    let mut model = model.expect("there are two tasks or more");
    create_folder(&Disk, output)?;
    let outputs = configs.iter().map(|config| Output::open(&Disk, &config.output));
    let outputs: Vec<Output<'_>> = outputs.collect::<Result<_, Error>>()?;

    let sizes: Vec<usize> = objectives.iter().map(Objective::items).collect();
    let batch_size = resolved.train_batch_size;
    let epochs = resolved.num_train_epochs.ceil().max(1.0) as u64;
    let all = sizes.iter().sum::<usize>() as f64;
    let steps = ((all / batch_size as f64 * resolved.num_train_epochs) as u64).max(1);
    let schedule = Schedule {
        kind: first.schedule,
        peak: resolved.learning_rate,
        total_steps: steps,
        warmup_steps: (steps as f64 * first.warmup_proportion) as u64,
    };
    let mut optimizer = first.with_layer_rates(AdamW::new(first.optimizer(), &model), layers);
    let mut orders: Vec<SampleOrder> = sizes.iter().map(|&size| SampleOrder::new(seed, size)).collect();
    let mut taken = vec![0u64; sizes.len()];
    let mut losses: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
    let mut histories: Vec<Vec<EpochReport>> = vec![Vec::new(); sizes.len()];
    let mut all_epochs = Vec::new();
    for step in 0..steps {
        let epoch = step * epochs / steps;
        let task = task_of(&sizes, sampling.power(temperature, epoch, epochs), seed, step);
        let objective = &objectives[task];
        let items = orders[task].batch(taken[task] * batch_size as u64, batch_size);
        taken[task] += 1;
        let parts = micro_batches(&items, first.gradient_accumulation_steps as usize);
        let batches: Vec<_> = parts.into_iter().map(|items| objective.batch(items)).collect();
        let targets = batches.iter().map(|batch| objective.targets(batch)).sum();
        let loss = |model: &BertForSeveralTasks, batch: &_, mode: Mode| MicroBatchLoss {
            total: objective.loss(&model.of_task(task), None, batch, targets, mode),
            parts: vec![],
        };
        let learning_rate = schedule.learning_rate(step);
        let (updated, done) = train_step(model, &mut optimizer, &batches, loss, learning_rate, (seed, step));
        model = updated;
        let done = done.map_err(|failure| {
            let (loss, gradient_norm) = (failure.report.loss, failure.report.gradient_norm);
            Error::NotFinite { step: step + 1, loss, gradient_norm }
        })?;
        losses[task].push(done.loss);
        tell(FinetuneEvent::Step { seed, step: step + 1, steps, loss: done.loss });
        if step + 1 == steps || (step + 1) * epochs / steps > epoch {
            let plain = model.clone().valid();
            let mut after = Vec::new();
            for (task, objective) in objectives.iter().enumerate() {
                let answers = objective.answer(&plain.of_task(task), Part::Dev);
                let dev = objective.score(Part::Dev, &answers);
                let its = std::mem::take(&mut losses[task]);
                let train_loss = (!its.is_empty()).then(|| its.iter().sum::<f64>() / its.len() as f64);
                let seen = (taken[task] * batch_size as u64) as f64 / sizes[task] as f64;
                let (mean, scores) = (train_loss.unwrap_or(f64::NAN), Some(dev.clone()));
                let (step, held_out) = (taken[task], None);
                histories[task].push(EpochReport {
                    step,
                    epoch: seen,
                    train_loss: mean,
                    dev: scores,
                    held_out,
                });
                let (of, steps) = (configs[task].task, its.len() as u64);
                after.push(TaskEpoch { task: of, steps, train_loss, dev });
            }
            tell(FinetuneEvent::TasksEvaluated { epoch: epoch + 1, tasks: after.clone() });
            all_epochs.push(after);
        }
        if let Some(signal) = stop.requested() {
            return Err(Error::StoppedUnsaved { signal, step: step + 1 });
        }
    }

    let plain = model.valid();
    let tasks = objectives.iter().zip(&outputs).zip(model_configs).zip(histories).enumerate();
    for (task, (((objective, output), model_config), history)) in tasks {
        let model = plain.of_task(task);
        let runs = Runs::of_one(objective, seed, model, model_config, history);
        finish(setups[task], objective, output, &cells[task][0], runs)?;
    }
    outputs.into_iter().try_for_each(Output::finish)?;
    let report = MultitaskReport { sampling, temperature, seed, epochs: all_epochs };
    write_json_atomic(&output.join("multitask.json"), &report)?;
    Ok(report)
}

/// Writes what one of `finetune` leaves.
fn finish<O: Objective>(
    setup: Setup<'_>,
    objective: &O,
    output: &Output<'_>,
    cell: &grid::Cell,
    runs: Runs<O>,
) -> Result<(), Error> {
    let model = runs.model(&output.folder)?;
    let dev: Vec<_> = runs.finished.iter().map(|(run, answers)| (run.seed, &answers[&Part::Dev])).collect();
    objective.write_dev(output, &dev)?;
    objective.save_model(output, model, &runs.model_config)?;
    let parameters = TrainedParameters::new(setup.config, model, setup.layers);
    let report: FinetuneReport = report(setup, objective, cell, runs, parameters);
    write_json_atomic(&output.folder.join("report.json"), &report)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_drawn_by_a_power_of_their_size() {
        let sizes = [9000, 1000];
        let share = |power: f64| {
            let first = (0..4000).filter(|&step| task_of(&sizes, power, 7, step) == 0).count();
            first as f64 / 4000.0
        };
        // Four standard errors are .02 and .032.
        assert!((share(1.0) - 0.9).abs() < 0.02, "{}", share(1.0));
        assert!((share(0.5) - 0.75).abs() < 0.03, "{}", share(0.5));
        assert!((share(0.0) - 0.5).abs() < 0.032, "{}", share(0.0));
        assert_eq!(task_of(&sizes, 1.0, 7, 3), task_of(&sizes, 1.0, 7, 3));
        let powers: Vec<f64> = (0..3).map(|epoch| Sampling::Annealed.power(2.0, epoch, 3)).collect();
        assert!(powers.iter().zip([1.0, 0.6, 0.2]).all(|(a, b)| (a - b).abs() < 1e-12), "{powers:?}");
        assert_eq!(Sampling::Temperature.power(4.0, 1, 3), 0.25);
        assert_eq!(Sampling::Annealed.power(2.0, 0, 1), 1.0);
    }
}
