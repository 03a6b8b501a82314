//! Trains one encoder on several tasks at once, with a classifier for each.
//!
//! Every step is a batch of one task, drawn with a probability that depends on the sizes of the tasks. The task of
//! a step is a function of seed and step alone. An epoch has as many steps as the examples of all tasks together
//! make batches.

mod report;
mod sampling;

use std::fs;
use std::path::PathBuf;

use bert_model::{BertConfig, BertForSequenceClassification, BertForSeveralTasks, Mode};
use bert_storage::{Disk, create_folder, write_json_atomic};
use burn::module::Module;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::finetune::progress::TaskEpoch;
use crate::finetune::runs::report_of;
pub use report::MultitaskReport;
pub use sampling::Sampling;

use self::sampling::task_of;
use super::TrainedParameters;
use super::config::{FinetuneConfig, Selection};
use super::features::SampleOrder;
use super::grid::{self, Cell};
use super::identity::identity;
use super::objectives::Objective;
use super::objectives::Part;
use super::objectives::labels::Labels;
use super::output::Output;
use super::report::FinetuneReport;
use super::runs::Runs;
use super::saved::{RunState, SavedRuns};
use super::seed_run::micro_batches;
use super::start::start_model;
use crate::checkpoint::resolve_model_folder;
use crate::error::Error;
use crate::finetune::events::FinetuneEvent;
use crate::finetune::progress::EpochReport;
use crate::finetune::setup::Setup;
use crate::optimizer::AdamW;
use crate::schedule::Schedule;
use crate::stop::StopFlag;
use crate::tasks::{Kind, Task};
use crate::text::Text;
use crate::train_step::{MicroBatchLoss, train_step};

/// Several tasks and how they are drawn.
#[derive(Clone, Debug)]
pub struct MultitaskConfig {
    /// What `finetune` would be told of each task; steps, rates and sizes are those of the first.
    pub tasks: Vec<FinetuneConfig>,
    /// How tasks are drawn.
    pub sampling: Sampling,
    /// Of [`Sampling::Temperature`].
    pub temperature: f64,
    /// Folder of the tasks' folders.
    pub output: PathBuf,
}

impl MultitaskConfig {
    /// Refuses what is not done for several tasks.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming the flag.
    pub fn check(&self) -> Result<(), Error> {
        let refuse =
            |flag: &'static str, reason: &str| Err(Error::Configuration { flag, reason: reason.to_string() });
        if !(self.temperature.is_finite() && self.temperature >= 1.0) {
            return refuse("temperature", "must be at least 1");
        }
        let configs = &self.tasks;
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
}

/// Where training stands: all that is not in weights and moments.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Progress {
    /// Finished steps.
    step: u64,
    /// Batches of each task.
    taken: Vec<u64>,
    /// Losses of each task's steps since the last epoch.
    losses: Vec<Vec<f64>>,
    /// All tasks after each epoch.
    epochs: Vec<Vec<TaskEpoch>>,
}

impl RunState for Progress {
    fn step(&self) -> u64 {
        self.step
    }
}

type Objectives<'a> = Vec<Labels<'a, BertForSequenceClassification>>;

/// Trains one encoder on all tasks; each task's folder in `output` is then like one of `finetune`. With `resume` it
/// goes on with what the same command left there when it was stopped or killed.
///
/// # Errors
/// See [`Error`].
pub fn multitask(
    config: &MultitaskConfig,
    resume: bool,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<MultitaskReport, Error> {
    config.check()?;
    let MultitaskConfig { tasks: configs, sampling, temperature, output } = config;
    let (first, seed) = (&configs[0], configs[0].seeds[0]);
    let cells = configs.iter().map(|config| Ok(grid::cells(config)?.remove(0)));
    let cells = cells.collect::<Result<Vec<Cell>, Error>>()?;
    let resolved = &cells[0].resolved;
    let compute = resolved.precision.with(first.kernels);
    let device = first.device.open()?.autodiff();
    let start = resolve_model_folder(&first.checkpoint, &mut |error| {
        tell(FinetuneEvent::Warning(error.to_string()));
    })?;
    let text = Text::open(&start)?;
    let shape = BertConfig::read(start.join("config.json"))?;
    let longest = cells.iter().map(|cell| cell.resolved.max_seq_length).max().unwrap_or(0);
    text.check_fits(&shape, longest)?;
    let layers = shape.num_hidden_layers;
    let setup = |cell| {
        let Cell { config, resolved, .. }: &Cell = cell;
        let max_seq_length = resolved.max_seq_length;
        Setup { config, text: &text, start: &start, layers, max_seq_length, device: &device, compute }
    };
    let setups: Vec<Setup<'_>> = cells.iter().map(setup).collect();
    let objectives: Objectives<'_> =
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
    let model = model.expect("there are two tasks or more");
    if resume && !output.exists() {
        return Err(Error::NothingToResume { path: output.clone() });
    }
    // A kill between the first task's report and the table: all of it is written again.
    for report in configs.iter().map(|config| config.output.join("report.json")).filter(|_| resume) {
        if report.exists() {
            fs::remove_file(&report).map_err(|e| Error::io(&report, e))?;
        }
    }
    create_folder(&Disk, output)?;
    let outputs = configs.iter().map(|config| Output::open(&Disk, &config.output));
    let outputs: Vec<Output<'_>> = outputs.collect::<Result<_, Error>>()?;
    let tasks = setups.iter().zip(&objectives);
    let tasks = tasks.map(|(setup, objective)| identity(setup.config, &start, objective));
    let tasks = tasks.collect::<Result<Vec<_>, Error>>()?;
    let identity = json!({ "tasks": tasks, "sampling": sampling, "temperature": temperature, "seed": seed });
    let saved = SavedRuns::open(&Disk, output, resume, &identity, false, tell)?;
    let mut saved_run = saved.run(0, seed);

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
    let mut optimizer =
        first.with_layer_rates(AdamW::new(first.optimizer(), &model).computing(compute), layers);
    let mut orders: Vec<SampleOrder> = sizes.iter().map(|&size| SampleOrder::new(seed, size)).collect();
    let (mut model, found) = saved_run.restore_from(model, &mut optimizer, &device, tell)?;
    let mut at = found.map_or_else(|| Progress::new(sizes.len()), |(_, at)| at);
    while at.step < steps {
        let epoch = at.step * epochs / steps;
        let task = task_of(&sizes, sampling.power(*temperature, epoch, epochs), seed, at.step);
        let objective = &objectives[task];
        let items = orders[task].batch(at.taken[task] * batch_size as u64, batch_size);
        at.taken[task] += 1;
        let parts = micro_batches(&items, first.gradient_accumulation_steps as usize);
        let batches: Vec<_> = parts.into_iter().map(|items| objective.batch(items)).collect();
        let targets = batches.iter().map(|batch| objective.targets(batch)).sum();
        let loss = |model: &BertForSeveralTasks, batch: &_, mode: Mode| MicroBatchLoss {
            total: objective.loss(&model.of_task(task), None, batch, targets, mode),
            parts: vec![],
        };
        let learning_rate = schedule.learning_rate(at.step);
        let (updated, done) =
            train_step(model, &mut optimizer, &batches, loss, learning_rate, (seed, at.step));
        model = updated;
        at.step += 1;
        let done = done.map_err(|failure| {
            let (loss, gradient_norm) = (failure.report.loss, failure.report.gradient_norm);
            Error::NotFinite { step: at.step, loss, gradient_norm }
        })?;
        at.losses[task].push(done.loss);
        tell(FinetuneEvent::Step { seed, step: at.step, steps, loss: done.loss });
        let last = at.step == steps;
        let epoch_ends = last || at.step * epochs / steps > epoch;
        if epoch_ends {
            let after = at.end_epoch(&model.clone().valid(), configs, &objectives);
            tell(FinetuneEvent::TasksEvaluated { epoch: epoch + 1, tasks: after });
        }
        let signal = stop.requested();
        if last {
            break;
        }
        if (epoch_ends && saved_run.is_due()) || signal.is_some() || stop.take_checkpoint_request() {
            saved_run.checkpoint(&model, &optimizer, &at, None)?;
        }
        if let Some(signal) = signal {
            return Err(Error::Stopped { signal, step: at.step });
        }
    }

    let plain = model.valid();
    let tasks = objectives.iter().zip(&outputs).zip(model_configs).enumerate();
    for (task, ((objective, output), model_config)) in tasks {
        let (model, history) = (plain.of_task(task), at.history(task, batch_size, sizes[task]));
        let runs = Runs::of_one(objective, seed, model, model_config, history);
        finish(setups[task], objective, output, &cells[task], runs)?;
    }
    let (sampling, temperature) = (*sampling, *temperature);
    let report = MultitaskReport { sampling, temperature, seed, epochs: at.epochs };
    write_json_atomic(&output.join("multitask.json"), &report)?;
    saved.remove()?;
    outputs.into_iter().try_for_each(Output::finish)?;
    Ok(report)
}

impl Progress {
    fn new(tasks: usize) -> Self {
        Self { step: 0, taken: vec![0; tasks], losses: vec![Vec::new(); tasks], epochs: Vec::new() }
    }

    /// Scores all tasks on dev, and notes what they came to.
    fn end_epoch(
        &mut self,
        model: &BertForSeveralTasks,
        configs: &[FinetuneConfig],
        objectives: &Objectives<'_>,
    ) -> Vec<TaskEpoch> {
        let mut after = Vec::new();
        for (task, objective) in objectives.iter().enumerate() {
            let answers = objective.answer(&model.of_task(task), Part::Dev);
            let dev = objective.score(Part::Dev, &answers);
            let losses = std::mem::take(&mut self.losses[task]);
            let train_loss = (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64);
            after.push(TaskEpoch { task: configs[task].task, steps: losses.len() as u64, train_loss, dev });
        }
        self.epochs.push(after.clone());
        after
    }

    /// A task's epochs, as one of `finetune` has them.
    fn history(&self, task: usize, batch_size: usize, examples: usize) -> Vec<EpochReport> {
        let mut step = 0;
        let epochs = self.epochs.iter().map(|tasks| {
            let TaskEpoch { steps, train_loss, dev, .. } = tasks[task].clone();
            step += steps;
            let epoch = (step * batch_size as u64) as f64 / examples as f64;
            EpochReport { step, epoch, train_loss, dev: Some(dev), held_out: None }
        });
        epochs.collect()
    }
}

/// Writes what one of `finetune` leaves.
fn finish<O: Objective>(
    setup: Setup<'_>,
    objective: &O,
    output: &Output<'_>,
    cell: &Cell,
    runs: Runs<O>,
) -> Result<(), Error> {
    let model = runs.model(&output.folder)?;
    let dev: Vec<_> = runs.finished.iter().map(|(run, answers)| (run.seed, &answers[&Part::Dev])).collect();
    objective.write_dev(output, &dev)?;
    objective.save_model(output, model, &runs.model_config)?;
    let parameters = TrainedParameters::new(setup.config, model, setup.layers);
    let report: FinetuneReport = report_of(setup, objective, cell, runs, parameters);
    write_json_atomic(&output.folder.join("report.json"), &report)?;
    Ok(())
}
