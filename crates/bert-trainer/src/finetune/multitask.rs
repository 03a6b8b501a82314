//! Trains one encoder on several tasks at once, with a classifier for each task.
//!
//! Every step is a batch of one task, drawn with a probability that depends on the sizes of the tasks. The task of a
//! step is a function of seed and step only. The number of steps in an epoch is the number of batches in the combined
//! examples of all tasks.

use std::fmt;
use std::path::PathBuf;

use bert_model::{BertForSequenceClassification, BertForSeveralTasks, Mode};
use bert_random::{Domain, Random, Stream};
use bert_storage::{Disk, LOCK, Locate, StagedFolder};
use burn::module::Module;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::config::{FinetuneConfig, Selection};
use super::events::{FinetuneEvent, TaskEpoch};
use super::objectives::{Objective, Part};
use super::output::Output;
use crate::error::{Error, FolderProblem};
use crate::finetune::config::flag_values::Choices;
use crate::finetune::config::grid;
use crate::finetune::config::grid::Cell;
use crate::finetune::config::resolve::{check, refuse_first};
use crate::finetune::model::initial_model::start_model;
use crate::finetune::model::pretrained::{Opened, Setup};
use crate::finetune::objectives::classification::Labels;
use crate::finetune::output::report::EpochReport;
use crate::finetune::run::fingerprint::identity;
use crate::finetune::run::grid_search::{Runs, write_output};
use crate::finetune::run::resume::SavedRuns;
use crate::finetune::run::sample_order::SampleOrder;
use crate::finetune::run::train_seed::{Training, num_train_steps};
use crate::run_dir::json_file::exists;
use crate::training::stop_flag::{StopFlag, StopRequested};

/// The probability of drawing each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Proportional to the number of examples.
    Proportional,
    /// Proportional to a power of the number of examples that falls from 1 to 0.2 over the epochs (Stickland and
    /// Murray 2019).
    Annealed,
    /// Proportional to the number of examples to the power of 1 / temperature (--temperature).
    Temperature,
}

impl Sampling {
    /// Returns the exponent of the task sizes in an epoch, counted from 0.
    fn power(self, temperature: f64, epoch: u64, epochs: u64) -> f64 {
        match self {
            Self::Proportional => 1.0,
            Self::Annealed if epochs > 1 => 1.0 - 0.8 * epoch as f64 / (epochs - 1) as f64,
            Self::Annealed => 1.0,
            Self::Temperature => 1.0 / temperature,
        }
    }
}

/// The configuration of a multi-task training.
#[derive(Clone, Debug)]
pub struct MultitaskConfig {
    /// The configuration of each task. Number of epochs, batch size and learning rate come from the first.
    pub tasks: Vec<FinetuneConfig>,
    /// The sampling of tasks.
    pub sampling: Sampling,
    /// The temperature for [`Sampling::Temperature`].
    pub temperature: f64,
    /// Output folder; contains a folder for each task.
    pub output: PathBuf,
}

/// Returns whether a flag makes a grid.
fn has_several<T>(choices: &Option<Choices<T>>) -> bool {
    choices.as_ref().is_some_and(|choices| choices.values().len() > 1)
}

impl MultitaskConfig {
    /// Rejects options that do not support several tasks.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming the flag.
    pub fn check(&self) -> Result<(), Error> {
        check(self.temperature.is_finite() && self.temperature >= 1.0, "temperature", "must be at least 1")?;
        for (at, config) in self.tasks.iter().enumerate() {
            check(
                config.gives_labels() && !config.is_table(),
                "tasks",
                "supports the published tasks that classify or score a text or a pair",
            )?;
            let is_new = self.tasks[..at].iter().all(|other| other.task != config.task);
            check(is_new, "tasks", "must differ from each other")?;
            let given = [
                ("adapter", config.adapter.is_some()),
                ("fusion", !config.fusion.is_empty()),
                ("freeze-encoder", config.freeze_encoder),
                // A grid holds out a share by default, so this check comes first.
                ("learning-rate", has_several(&config.learning_rate)),
                ("train-batch-size", has_several(&config.train_batch_size)),
                ("num-train-epochs", has_several(&config.num_train_epochs)),
                ("holdout", config.held_out_share().is_some()),
                ("patience", config.patience.is_some()),
                ("predict", config.predict.is_some()),
                ("seeds", config.seeds.len() > 1),
            ];
            refuse_first(&given, "works with one task only")?;
            let last = config.select == Selection::Last;
            check(last, "select", "is last: the best epoch differs between tasks")?;
            grid::cells(config)?;
        }
        check(self.tasks.len() > 1, "tasks", "must be two or more")
    }
}

/// The report `multitask.json`.
#[derive(Clone, Debug, Serialize)]
pub struct MultitaskReport {
    /// The sampling of tasks.
    pub sampling: Sampling,
    /// The temperature of `--sampling temperature`.
    pub temperature: f64,
    /// The seed.
    pub seed: u64,
    /// Results of all tasks after each epoch.
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

/// The progress of training, without weights and moments.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Progress {
    /// Finished steps.
    step: u64,
    /// Batches taken from each task.
    taken: Vec<u64>,
    /// Losses of each task's steps since the last epoch.
    losses: Vec<Vec<f64>>,
    /// Results of all tasks after each epoch.
    epochs: Vec<Vec<TaskEpoch>>,
}

type Objectives<'a> = Vec<Labels<'a, BertForSequenceClassification>>;

/// Trains one encoder on all tasks; each task gets a folder in `output` like the output folder of `finetune`. With
/// `resume`, continues a stopped or killed training there.
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
    let objectives = cells.iter().map(|Cell { config, resolved }| {
        Labels::read(Setup { config, opened: &opened, max_seq_length: resolved.max_seq_length })
    });
    let objectives = objectives.collect::<Result<Objectives<'_>, Error>>()?;
    let mut model: Option<BertForSeveralTasks> = None;
    let mut model_configs = Vec::new();
    for objective in &objectives {
        let notes = objective.sets().notes.iter().cloned();
        let batch = resolved.batch_warning(objective.items());
        notes.chain(batch).for_each(|text| tell(FinetuneEvent::Warning(text)));
        let (of_task, config) = start_model(objective, seed, tell)?;
        model = Some(match model {
            None => BertForSeveralTasks::new(of_task),
            Some(model) => model.with_task(of_task),
        });
        model_configs.push(config);
    }
    let model = model.expect("there are two tasks or more");
    if resume && !exists(output)? {
        return Err(FolderProblem::NothingToResume.located(output).into());
    }
    let folder = StagedFolder::new(&Disk, output);
    folder.check_not_in_use()?;
    folder.create()?;
    let _lock = folder.lock(LOCK)?;
    let identities = objectives.iter().map(identity).collect::<Result<Vec<_>, Error>>()?;
    let identity =
        json!({ "tasks": identities, "sampling": sampling, "temperature": temperature, "seed": seed });
    // If the process was killed between the first task's report and the table, rewrite everything, provided that the
    // files belong to this run.
    let was_ours = resume && SavedRuns::are_of(&folder, &identity, &mut |_| {})?;
    let outputs = configs.iter().map(|config| match was_ours {
        true => Output::reopen(&config.output),
        false => Output::open(&config.output),
    });
    let outputs = outputs.collect::<Result<Vec<Output>, Error>>()?;
    let saved = SavedRuns::open(folder.clone(), resume, &identity, false, tell)?;
    let mut saved_run = saved.run(0, seed);

    let sizes: Vec<usize> = objectives.iter().map(Objective::items).collect();
    let batch_sizes: Vec<usize> = sizes.iter().map(|&size| resolved.batch_of(size)).collect();
    let epochs = resolved.num_train_epochs.ceil().max(1.0) as u64;
    let steps = num_train_steps(sizes.iter().sum(), resolved);
    let training = Training::new(first, resolved, seed, steps);
    let mut optimizer = training.optimizer(&model, &opened);
    let mut orders: Vec<SampleOrder> = sizes.iter().map(|&size| SampleOrder::new(seed, size)).collect();
    let (mut model, found) = saved_run.restore_from(model, &mut optimizer, &opened.device, tell)?;
    let mut at = found.map_or_else(|| Progress::new(sizes.len()), |(_, at)| at);
    // A stop during the evaluation at the end of an epoch leaves the losses of the epoch.
    let mut evaluation_pending =
        at.losses.iter().any(|losses| !losses.is_empty()) && ends_epoch(at.step, steps, epochs);
    while evaluation_pending || at.step < steps {
        if !evaluation_pending {
            let epoch = at.step * epochs / steps;
            let task = task_of(&sizes, sampling.power(*temperature, epoch, epochs), seed, at.step);
            let objective = &objectives[task];
            let items = orders[task].batch(at.taken[task] * batch_sizes[task] as u64, batch_sizes[task]);
            at.taken[task] += 1;
            let loss = |model: &BertForSeveralTasks, batch: &_, targets: usize, mode: Mode| {
                objective.loss(&model.of_task(task), None, batch, targets, mode)
            };
            let done = training.step(at.step, (model, &mut optimizer), (objective, &items), loss, tell)?;
            model = done.0;
            at.step += 1;
            at.losses[task].push(done.1);
        }
        evaluation_pending = false;
        let epoch_ends = ends_epoch(at.step, steps, epochs);
        if epoch_ends {
            match at.end_epoch(&model.clone().valid(), configs, &objectives, stop) {
                Ok(after) => {
                    let epoch = (at.step - 1) * epochs / steps + 1;
                    tell(FinetuneEvent::TasksEvaluated { epoch, tasks: after });
                }
                Err(stopped) => {
                    saved_run.pause(stop, true, (at.step, &at), (&model, &optimizer), None)?;
                    return Err(stopped.after(at.step));
                }
            }
        }
        if at.step == steps {
            break;
        }
        saved_run.pause(stop, epoch_ends, (at.step, &at), (&model, &optimizer), None)?;
    }

    let plain = model.clone().valid();
    let tasks = objectives.iter().zip(&outputs).zip(model_configs).zip(identities).enumerate();
    for (task, (((objective, output), model_config), identity)) in tasks {
        let (of_task, history) = (plain.of_task(task), at.history(task, batch_sizes[task], sizes[task]));
        let runs = match Runs::of_one(objective, seed, of_task, model_config, history, stop) {
            Ok(runs) => runs,
            Err(stopped) => {
                saved_run.pause(stop, true, (at.step, &at), (&model, &optimizer), None)?;
                return Err(stopped.after(at.step));
            }
        };
        write_output(objective, output, (&cells[task], None), runs, identity)?;
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

    /// Scores all tasks on dev and records the results.
    ///
    /// # Errors
    /// [`StopRequested`] when a stop is requested before all scores are known; nothing is recorded then.
    fn end_epoch(
        &mut self,
        model: &BertForSeveralTasks,
        configs: &[FinetuneConfig],
        objectives: &Objectives<'_>,
        stop: &StopFlag,
    ) -> Result<Vec<TaskEpoch>, StopRequested> {
        let mut scores = Vec::new();
        for (task, objective) in objectives.iter().enumerate() {
            scores.push(objective.scored(&model.of_task(task), Part::Dev, stop)?.1);
        }
        let mut after = Vec::new();
        for (task, dev) in scores.into_iter().enumerate() {
            let losses = std::mem::take(&mut self.losses[task]);
            let train_loss = (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64);
            after.push(TaskEpoch { task: configs[task].task, steps: losses.len() as u64, train_loss, dev });
        }
        self.epochs.push(after.clone());
        Ok(after)
    }

    /// Returns a task's epochs in the form of a `finetune` report.
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

/// Returns whether an epoch ends after `step` steps, of which there is at least one.
fn ends_epoch(step: u64, steps: u64, epochs: u64) -> bool {
    step == steps || step * epochs / steps > (step - 1) * epochs / steps
}

/// Returns the task of a step: the first whose cumulative probability exceeds the draw.
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
