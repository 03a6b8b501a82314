//! Trains one encoder on several tasks at once, with a classifier for each task.
//!
//! Every step is a batch of one task, drawn with a probability that depends on the sizes of the tasks. The task of a
//! step is a function of seed and step only. The number of steps in an epoch is the number of batches in the combined
//! examples of all tasks.

use std::fmt;
use std::path::PathBuf;

use bert_model::{BertConfig, BertForSequenceClassification, BertForSeveralTasks, Mode};
use bert_random::{Domain, Random, Stream};
use bert_storage::{Disk, LOCK, Locate, StagedFolder};
use burn::module::Module;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::compute::stop_flag::{StopFlag, StopRequested};
use crate::error::{Error, FolderProblem, check};
use crate::finetune::config::flag_values::Choices;
use crate::finetune::config::grid::Cell;
use crate::finetune::config::resolve::{Resolved, reject_first};
use crate::finetune::config::{FinetuneConfig, Selection, grid};
use crate::finetune::data::TaskData;
use crate::finetune::data::classification::Classification;
use crate::finetune::data::datasets::Part;
use crate::finetune::events::{FinetuneEvent, TaskEpoch};
use crate::finetune::model::TaskModel;
use crate::finetune::model::initial_model::{InitialModel, initial_model};
use crate::finetune::output::folder::OutputFolder;
use crate::finetune::output::write_output;
use crate::finetune::run::fingerprint::identity;
use crate::finetune::run::grid_search::{CellRuns, GridResult};
use crate::finetune::run::resume::{RestoredState, RunSnapshot, SavedRun, SavedRuns};
use crate::finetune::run::run_report::EpochReport;
use crate::finetune::run::sample_order::SampleOrder;
use crate::finetune::run::step::{TrainSettings, TrainState, num_train_steps};
use crate::finetune::scoring::TaskScoring;
use crate::finetune::setup::{BaseCheckpoint, Setup};
use crate::run_dir::json_file::exists;

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
                ("adapter", config.adapters.adapter.is_some()),
                ("fusion", !config.adapters.fusion.is_empty()),
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
            reject_first(&given, "works with one task only")?;
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

/// A task of the training: one that classifies or scores a text or a pair.
type ClassificationTask<'a> = Classification<'a, BertForSequenceClassification>;

/// Trains one encoder on all tasks; each task gets a folder in `output` like the output folder of `finetune`. With
/// `resume`, continues a stopped or killed training there.
///
/// # Errors
/// See [`Error`].
pub fn multitask(
    config: &MultitaskConfig,
    resume: bool,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<MultitaskReport, Error> {
    config.check()?;
    let MultitaskConfig { tasks: configs, sampling, temperature, output } = config;
    let seed = configs[0].seeds[0];
    let cells = configs.iter().map(|config| Ok(grid::cells(config)?.remove(0)));
    let cells = cells.collect::<Result<Vec<Cell>, Error>>()?;
    let resolved = &cells[0].resolved;
    let max_length = cells.iter().map(|cell| cell.resolved.max_seq_length).max().unwrap_or(0);
    let checkpoint = BaseCheckpoint::open(&configs[0], resolved.precision, max_length, on_event)?;
    let tasks = cells.iter().map(|Cell { config, resolved }| {
        let max_seq_length = resolved.max_seq_length;
        Classification::read(Setup { config, checkpoint: &checkpoint, max_seq_length })
    });
    let tasks = tasks.collect::<Result<Vec<ClassificationTask<'_>>, Error>>()?;
    let InitialModels { model, configs: model_configs } = initial_models(&tasks, resolved, seed, on_event)?;
    if resume && !exists(output)? {
        return Err(FolderProblem::NothingToResume.located(output).into());
    }
    let folder = StagedFolder::new(&Disk, output);
    folder.check_not_in_use()?;
    folder.create()?;
    let _lock = folder.lock(LOCK)?;
    let identities = tasks.iter().map(identity).collect::<Result<Vec<_>, Error>>()?;
    let identity =
        json!({ "tasks": identities, "sampling": sampling, "temperature": temperature, "seed": seed });
    let outputs = open_outputs(config, &folder, resume, &identity)?;
    let saved = SavedRuns::open(folder.clone(), resume, &identity, false, on_event)?;
    let mut saved_run = saved.run(0, seed);

    let mut run = MultitaskRun::new(config, &tasks, resolved);
    let state = run.settings.state(model, &checkpoint);
    let RestoredState { state, progress, .. } =
        saved_run.restore_state(state, &checkpoint.device, on_event)?;
    run.progress = progress.unwrap_or(run.progress);
    let state = run.train(state, &mut saved_run, stop, on_event)?;

    let model = state.model.clone().valid();
    for (number, (task, model_config)) in tasks.iter().zip(model_configs).enumerate() {
        let (of_task, history) = (model.of_task(number), run.history(number));
        let runs = CellRuns::single(task, seed, of_task, model_config, history, stop);
        let runs = runs.or_else(|stopped| run.pause_between_steps(stopped, &state, &mut saved_run, stop))?;
        let result = GridResult { cell: &cells[number], runs, grid: None };
        write_output(task, &outputs[number], result, identities[number].clone())?;
    }
    let (sampling, temperature) = (*sampling, *temperature);
    let report = MultitaskReport { sampling, temperature, seed, epochs: run.progress.epochs };
    folder.write_json("multitask.json", &report)?;
    saved.remove()?;
    outputs.into_iter().try_for_each(OutputFolder::finish)?;
    Ok(report)
}

/// The initial model of all tasks, and the configuration of each task's model.
struct InitialModels {
    model: BertForSeveralTasks,
    configs: Vec<BertConfig>,
}

/// Returns the initial models, and reports notes on the data.
fn initial_models(
    tasks: &[ClassificationTask<'_>],
    resolved: &Resolved,
    seed: u64,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<InitialModels, Error> {
    let mut models: Option<InitialModels> = None;
    for task in tasks {
        let notes = task.sets().notes.iter().cloned();
        let batch = resolved.batch_warning(task.items());
        notes.chain(batch).for_each(|text| on_event(FinetuneEvent::Warning(text)));
        let InitialModel { model: of_task, config } = initial_model(task, seed, on_event)?;
        models = Some(match models {
            None => InitialModels { model: BertForSeveralTasks::new(of_task), configs: vec![config] },
            Some(InitialModels { model, mut configs }) => {
                configs.push(config);
                InitialModels { model: model.with_task(of_task), configs }
            }
        });
    }
    Ok(models.expect("there are two tasks or more"))
}

/// Opens the output folder of each task.
fn open_outputs(
    config: &MultitaskConfig,
    folder: &StagedFolder<'_>,
    resume: bool,
    identity: &Value,
) -> Result<Vec<OutputFolder>, Error> {
    // If the process was killed between the first task's report and the table, rewrite everything, provided that the
    // files belong to this run.
    let is_same_run = resume && SavedRuns::are_of(folder, identity, &mut |_| {})?;
    let open = if is_same_run { OutputFolder::reopen } else { OutputFolder::open };
    config.tasks.iter().map(|config| open(&config.output)).collect()
}

/// A multi-task training in progress, without its model and optimizer.
struct MultitaskRun<'a> {
    config: &'a MultitaskConfig,
    tasks: &'a [ClassificationTask<'a>],
    settings: TrainSettings<'a>,
    /// Training examples of each task.
    sizes: Vec<usize>,
    batch_sizes: Vec<usize>,
    epochs: u64,
    progress: Progress,
}

impl<'a> MultitaskRun<'a> {
    fn new(config: &'a MultitaskConfig, tasks: &'a [ClassificationTask<'a>], resolved: &Resolved) -> Self {
        let first = &config.tasks[0];
        let sizes: Vec<usize> = tasks.iter().map(TaskData::items).collect();
        let steps = num_train_steps(sizes.iter().sum(), resolved);
        Self {
            config,
            tasks,
            settings: TrainSettings::new(first, resolved, first.seeds[0], steps),
            batch_sizes: sizes.iter().map(|&size| resolved.batch_of(size)).collect(),
            epochs: resolved.num_train_epochs.ceil().max(1.0) as u64,
            progress: Progress::new(sizes.len()),
            sizes,
        }
    }

    fn steps(&self) -> u64 {
        self.settings.schedule.total_steps
    }

    /// Returns whether an epoch ends after the last finished step.
    fn ends_epoch(&self) -> bool {
        let (step, steps, epochs) = (self.progress.step, self.steps(), self.epochs);
        step == steps || step * epochs / steps > (step - 1) * epochs / steps
    }

    /// Takes all remaining steps.
    ///
    /// # Errors
    /// [`Error::NotFinite`], [`Error::Stopped`] after a checkpoint when a stop was requested, and errors of writing
    /// one.
    fn train(
        &mut self,
        mut state: TrainState<BertForSeveralTasks>,
        saved: &mut SavedRun<'_>,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<TrainState<BertForSeveralTasks>, Error> {
        let seed = self.settings.seed;
        let mut orders: Vec<SampleOrder> =
            self.sizes.iter().map(|&size| SampleOrder::new(seed, size)).collect();
        // A stop during the evaluation at the end of an epoch leaves the losses of the epoch.
        let has_losses = self.progress.losses.iter().any(|losses| !losses.is_empty());
        let mut evaluation_pending = has_losses && self.ends_epoch();
        while evaluation_pending || self.progress.step < self.steps() {
            if !evaluation_pending {
                state = self.step(state, &mut orders, on_event)?;
            }
            evaluation_pending = false;
            let epoch_ends = self.ends_epoch();
            if epoch_ends {
                match self.end_epoch(&state.model.clone().valid(), stop) {
                    Ok(tasks) => {
                        let epoch = (self.progress.step - 1) * self.epochs / self.steps() + 1;
                        on_event(FinetuneEvent::TasksEvaluated { epoch, tasks });
                    }
                    Err(stopped) => return self.pause_between_steps(stopped, &state, saved, stop),
                }
            }
            if self.progress.step < self.steps() {
                saved.pause(stop, epoch_ends, self.snapshot(&state))?;
            }
        }
        Ok(state)
    }

    /// Takes one step on a batch of one task.
    fn step(
        &mut self,
        state: TrainState<BertForSeveralTasks>,
        orders: &mut [SampleOrder],
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<TrainState<BertForSeveralTasks>, Error> {
        let MultitaskConfig { sampling, temperature, .. } = self.config;
        let done = self.progress.step;
        let power = sampling.power(*temperature, done * self.epochs / self.steps(), self.epochs);
        let number = task_of(&self.sizes, power, self.settings.seed, done);
        let (task, batch_size) = (&self.tasks[number], self.batch_sizes[number]);
        let items = orders[number].batch(self.progress.taken[number] * batch_size as u64, batch_size);
        let loss = |model: &BertForSeveralTasks, batch: &_, targets: usize, mode: Mode| {
            task.loss(&model.of_task(number), None, batch, targets, mode)
        };
        let (state, loss) = self.settings.step(state, done, task, &items, loss, on_event)?;
        self.progress.taken[number] += 1;
        self.progress.step += 1;
        self.progress.losses[number].push(loss);
        Ok(state)
    }

    fn snapshot<'s>(
        &'s self,
        state: &'s TrainState<BertForSeveralTasks>,
    ) -> RunSnapshot<'s, BertForSeveralTasks, Progress> {
        RunSnapshot { step: self.progress.step, progress: &self.progress, state, best: None }
    }

    /// Writes a checkpoint after an evaluation was stopped, and returns the error of the stop.
    fn pause_between_steps<T>(
        &self,
        stopped: StopRequested,
        state: &TrainState<BertForSeveralTasks>,
        saved: &mut SavedRun<'_>,
        stop: &StopFlag,
    ) -> Result<T, Error> {
        saved.pause(stop, true, self.snapshot(state))?;
        Err(stopped.after(self.progress.step))
    }

    /// Scores all tasks on dev and records the results.
    ///
    /// # Errors
    /// [`StopRequested`] when a stop is requested before all scores are known; nothing is recorded then.
    fn end_epoch(
        &mut self,
        model: &BertForSeveralTasks,
        stop: &StopFlag,
    ) -> Result<Vec<TaskEpoch>, StopRequested> {
        let mut scores = Vec::new();
        for (number, task) in self.tasks.iter().enumerate() {
            scores.push(task.answer_and_score(&model.of_task(number), Part::Dev, stop)?.scores);
        }
        let mut results = Vec::new();
        for (number, dev) in scores.into_iter().enumerate() {
            let losses = std::mem::take(&mut self.progress.losses[number]);
            let train_loss = (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64);
            let (task, steps) = (self.config.tasks[number].task.clone(), losses.len() as u64);
            results.push(TaskEpoch { task, steps, train_loss, dev });
        }
        self.progress.epochs.push(results.clone());
        Ok(results)
    }

    /// Returns a task's epochs in the form of a `finetune` report.
    fn history(&self, number: usize) -> Vec<EpochReport> {
        let mut step = 0;
        let epochs = self.progress.epochs.iter().map(|tasks| {
            let TaskEpoch { steps, train_loss, dev, .. } = tasks[number].clone();
            step += steps;
            let epoch = (step * self.batch_sizes[number] as u64) as f64 / self.sizes[number] as f64;
            EpochReport { step, epoch, train_loss, dev: Some(dev), held_out: None }
        });
        epochs.collect()
    }
}

impl Progress {
    fn new(tasks: usize) -> Self {
        Self { step: 0, taken: vec![0; tasks], losses: vec![Vec::new(); tasks], epochs: Vec::new() }
    }
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
