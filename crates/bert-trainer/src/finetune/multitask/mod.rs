//! Trains one encoder on several tasks at once, with a classifier for each.
//!
//! Every step is a batch of one task, drawn with a probability that depends on the sizes of the tasks. The task of
//! a step is a function of seed and step alone. An epoch has as many steps as the examples of all tasks together
//! make batches.

mod report;
mod sampling;

use std::fs;
use std::path::PathBuf;

use bert_model::{BertForSequenceClassification, BertForSeveralTasks, Mode};
use bert_storage::{Disk, Locate, StagedFolder};
use burn::module::Module;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::finetune::progress::TaskEpoch;
pub use report::MultitaskReport;
pub use sampling::Sampling;

use self::sampling::task_of;
use super::config::{FinetuneConfig, Selection};
use super::features::SampleOrder;
use super::grid::{self, Cell};
use super::identity::identity;
use super::objectives::labels::Labels;
use super::objectives::{Objective, Part};
use super::output::Output;
use super::runs::{Runs, write_output};
use super::saved::{RunState, SavedRuns};
use super::seed_run::{Training, num_train_steps};
use super::setup::Opened;
use super::start::start_model;
use crate::error::{Error, FolderProblem};
use crate::finetune::events::FinetuneEvent;
use crate::finetune::progress::EpochReport;
use crate::stop::StopFlag;
use crate::tasks::{Kind, Task};

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
    let longest = cells.iter().map(|cell| cell.resolved.max_seq_length).max().unwrap_or(0);
    let opened = Opened::new(first, resolved.precision, longest, tell)?;
    let objectives =
        cells.iter().map(|cell| Labels::read(opened.setup(&cell.config, cell.resolved.max_seq_length)));
    let objectives = objectives.collect::<Result<Objectives<'_>, Error>>()?;
    let mut model: Option<BertForSeveralTasks> = None;
    let mut model_configs = Vec::new();
    for objective in &objectives {
        let (of_task, config) = start_model(objective, seed, tell)?;
        model = Some(match model {
            None => BertForSeveralTasks::new(of_task),
            Some(model) => model.with_task(of_task),
        });
        model_configs.push(config);
    }
    let model = model.expect("there are two tasks or more");
    if resume && !output.exists() {
        return Err(FolderProblem::NothingToResume.at(output).into());
    }
    // A kill between the first task's report and the table: all of it is written again.
    for report in configs.iter().map(|config| config.output.join("report.json")).filter(|_| resume) {
        if report.exists() {
            fs::remove_file(&report).map_err(|e| Error::io(&report, e))?;
        }
    }
    let folder = StagedFolder::new(&Disk, output);
    folder.create()?;
    let outputs = configs.iter().map(|config| Output::open(&Disk, &config.output));
    let outputs: Vec<Output<'_>> = outputs.collect::<Result<_, Error>>()?;
    let tasks = objectives.iter().map(identity).collect::<Result<Vec<_>, Error>>()?;
    let identity = json!({ "tasks": tasks, "sampling": sampling, "temperature": temperature, "seed": seed });
    let saved = SavedRuns::open(folder.clone(), resume, &identity, false, tell)?;
    let mut saved_run = saved.run(0, seed);

    let sizes: Vec<usize> = objectives.iter().map(Objective::items).collect();
    let batch_size = resolved.train_batch_size;
    let epochs = resolved.num_train_epochs.ceil().max(1.0) as u64;
    let steps = num_train_steps(sizes.iter().sum(), resolved);
    let training = Training::new(first, resolved, seed, steps);
    let setup = objectives[0].setup();
    let mut optimizer = training.optimizer(&model, setup);
    let mut orders: Vec<SampleOrder> = sizes.iter().map(|&size| SampleOrder::new(seed, size)).collect();
    let (mut model, found) = saved_run.restore_from(model, &mut optimizer, setup.device, tell)?;
    let mut at = found.map_or_else(|| Progress::new(sizes.len()), |(_, at)| at);
    while at.step < steps {
        let epoch = at.step * epochs / steps;
        let task = task_of(&sizes, sampling.power(*temperature, epoch, epochs), seed, at.step);
        let objective = &objectives[task];
        let items = orders[task].batch(at.taken[task] * batch_size as u64, batch_size);
        at.taken[task] += 1;
        let loss = |model: &BertForSeveralTasks, batch: &_, targets: usize, mode: Mode| {
            objective.loss(&model.of_task(task), None, batch, targets, mode)
        };
        let done = training.step(at.step, (model, &mut optimizer), (objective, &items), loss, tell)?;
        model = done.0;
        at.step += 1;
        at.losses[task].push(done.1);
        let last = at.step == steps;
        let epoch_ends = last || at.step * epochs / steps > epoch;
        if epoch_ends {
            let after = at.end_epoch(&model.clone().valid(), configs, &objectives);
            tell(FinetuneEvent::TasksEvaluated { epoch: epoch + 1, tasks: after });
        }
        if last {
            break;
        }
        saved_run.pause(stop, epoch_ends, &at, (&model, &optimizer), None)?;
    }

    let plain = model.valid();
    let tasks = objectives.iter().zip(&outputs).zip(model_configs).enumerate();
    for (task, ((objective, output), model_config)) in tasks {
        let (model, history) = (plain.of_task(task), at.history(task, batch_size, sizes[task]));
        let runs = Runs::of_one(objective, seed, model, model_config, history);
        write_output(objective, output, &cells[task], runs, None)?;
    }
    let (sampling, temperature) = (*sampling, *temperature);
    let report = MultitaskReport { sampling, temperature, seed, epochs: at.epochs };
    folder.write_json("multitask.json", &report)?;
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
            let (_, dev) = objective.scored(&model.of_task(task), Part::Dev);
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
