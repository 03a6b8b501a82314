//! Trains one encoder on several tasks at once, with a classifier for each task.
//!
//! Every step trains on a batch of one task, which is drawn at random. `--sampling` determines the probabilities from
//! the sizes of the tasks, and the draw depends only on the seed and the step. So a resumed run draws the same tasks.
//! The number of steps in an epoch is the number of batches in the combined examples of all tasks.

use std::path::{Path, PathBuf};

use bert_inference::{Resolved, StopFlag};
use bert_model::{BertConfig, BertForSequenceClassification, BertForSeveralTasks};
use bert_storage::{Disk, LOCK, OutputLock, StagedFolder, exists};
use bert_tasks::Task;
use bert_training::{Error, Resume, check, check_value, nothing_to_resume};
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::flag_values::Choices;
use crate::config::grid::{Cell, TuningDefaults};
use crate::config::resolve::{gives_labels, reject_first};
use crate::config::{FinetuneConfig, Selection, grid};
use crate::data::text_hashes::{ComparedTexts, SharedTexts};
use crate::events::{FinetuneEvent, TaskEpoch};
use crate::files::folder::OutputFolder;
use crate::finetune::{check_device, with_selected_device};
use crate::kinds::FinetuneTask;
use crate::kinds::classification::Classification;
use crate::output::write_output;
use crate::run::fingerprint::identity;
use crate::run::grid_search::{CellRuns, InitialModel, initial_model};
use crate::run::resume::{RunStart, SavedRuns, saved_identity};
use crate::run::step::{TrainSettings, num_train_steps};
pub use crate::run::training::Sampling;
use crate::run::training::{TaskDraw, Training};
use crate::setup::{BaseCheckpoint, Setup, with_length};

/// A task of a multi-task run, which classifies or scores a text or a pair.
type ClassificationTask<'a> = Classification<'a, BertForSequenceClassification>;

/// The report `multitask.json`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
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

/// Trains one encoder on all tasks; each task gets a folder in `output` like the output folder of `finetune`. With
/// `resume`, continues a stopped or killed run in `output`.
///
/// # Errors
/// Fails when an option does not support several tasks, or as [`finetune`](crate::finetune::finetune) does.
pub fn multitask(
    config: &MultitaskConfig,
    resume: Resume,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<MultitaskReport, Error> {
    let resume = resume == Resume::Yes;
    config.check()?;
    let MultitaskConfig { tasks, sampling, temperature, output } = config;
    let configs = resolved_tasks(tasks, on_event)?;
    let seed = configs[0].seeds[0];
    let saved = if resume { saved_identity(output)? } else { None };
    let first = saved.as_ref().map(|identity| &identity["tasks"][0]);
    let checkpoint = BaseCheckpoint::open(&configs[0], first, on_event)?;
    let cells = configs.iter().map(|config| Ok(grid::cells(config, &checkpoint.defaults, None)?.remove(0)));
    let cells = cells.collect::<Result<Vec<Cell>, Error>>()?;
    let resolved = &cells[0].resolved;
    on_event(FinetuneEvent::Defaults(checkpoint.chosen_defaults(&configs[0], None)));
    let tasks = read_tasks(&cells, &checkpoint)?;
    let InitialModels { model, configs: model_configs } = initial_models(&tasks, resolved, seed, on_event)?;
    let (folder, _lock) = locked_folder(output, resume)?;
    let identities = tasks.iter().map(identity).collect::<Result<Vec<_>, Error>>()?;
    let identity =
        json!({ "tasks": identities, "sampling": sampling, "temperature": temperature, "seed": seed });
    let outputs = open_outputs(config, &folder, resume, &identity)?;
    let start = RunStart { identity: &identity, checkpoint: &checkpoint.name };
    let saved = SavedRuns::open(folder.clone(), resume, &start, false, on_event)?;
    let mut saved_run = saved.run(0, seed);

    for (task, cell) in tasks.iter().zip(&cells) {
        check_device(task, std::slice::from_ref(cell), on_event)?;
    }
    let items = tasks.iter().map(FinetuneTask::items).sum();
    let settings = TrainSettings::new(&configs[0], resolved, seed, num_train_steps(items, resolved));
    let state = settings.state(model, &checkpoint);
    let epochs = resolved.num_train_epochs.ceil().max(1.0) as u64;
    let draw = TaskDraw { sampling: *sampling, temperature: *temperature, epochs };
    let mut training = Training::new(&tasks, settings, resolved, BertForSeveralTasks::single, Some(draw));
    let state = training.start(state, &saved_run, stop, on_event)?;
    let state = training.train(state, &mut saved_run, stop, on_event)?;

    for (number, (task, model_config)) in tasks.iter().zip(model_configs).enumerate() {
        let run = training.finish(number, &state.model, stop);
        let run = run.or_else(|error| training.pause(error, &state, &mut saved_run, stop))?;
        let runs = CellRuns::single(&cells[number], run, model_config);
        let mut identity = identities[number].clone();
        identity["together"] = together(config).into();
        write_output(task, &outputs[number], runs, &saved, identity)?;
    }
    let report = MultitaskReport {
        sampling: *sampling,
        temperature: *temperature,
        seed,
        epochs: training.task_epochs(),
    };
    folder.write_json("multitask.json", &report)?;
    saved.remove()?;
    outputs.into_iter().try_for_each(OutputFolder::finish)?;
    Ok(report)
}

/// Reads the examples of all tasks.
fn read_tasks<'a>(
    cells: &'a [Cell],
    checkpoint: &'a BaseCheckpoint,
) -> Result<Vec<ClassificationTask<'a>>, Error> {
    let read = |Cell { config, resolved }: &'a Cell| {
        Classification::read(Setup { config, checkpoint, max_seq_length: resolved.max_seq_length })
    };
    let mut tasks = cells.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
    let shared: Vec<Vec<SharedTexts>> = tasks.iter().map(|task| shared_with_others(task, &tasks)).collect();
    for (task, shared) in tasks.iter_mut().zip(shared) {
        task.add_shared_texts(shared)?;
    }
    Ok(tasks)
}

/// Returns the texts that the scored sets of a task share with the training sets of the others.
fn shared_with_others(task: &ClassificationTask<'_>, all: &[ClassificationTask<'_>]) -> Vec<SharedTexts> {
    let mut found = Vec::new();
    for other in all.iter().filter(|other| other.task() != task.task()) {
        let name = format!("the training set of {}", other.task());
        let texts = ComparedTexts::new(name, &other.sets().train.examples);
        let shared = task.sets().parts.iter().map(|(part, set)| texts.shared_with(*part, &set.examples));
        found.extend(shared.filter(|shared| shared.with_shared_text > 0));
    }
    found
}

/// Creates and locks the output folder. With `resume` it must exist.
fn locked_folder(output: &Path, resume: bool) -> Result<(StagedFolder<'static>, OutputLock), Error> {
    if resume && !exists(output)? {
        return Err(nothing_to_resume(output));
    }
    let folder = StagedFolder::new(&Disk, output);
    folder.check_not_in_use()?;
    folder.create()?;
    let lock = folder.lock(LOCK)?;
    Ok((folder, lock))
}

/// Returns the tasks that train one encoder and their sampling, which affect the scores of each task.
fn together(config: &MultitaskConfig) -> String {
    let MultitaskConfig { tasks, sampling, temperature, .. } = config;
    let names: Vec<&str> = tasks.iter().map(|config| config.task.spec().name).collect();
    let sampling = match sampling {
        Sampling::Proportional => "proportional".to_string(),
        Sampling::Annealed => "annealed".to_string(),
        Sampling::Temperature => format!("temperature {temperature}"),
    };
    format!("{} (sampling: {sampling})", names.join(", "))
}

/// Returns the configurations with the fastest device in place of `--device auto`, the same for all tasks, and with
/// the maximum sequence length of [`with_length`].
fn resolved_tasks(
    tasks: &[FinetuneConfig],
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<Vec<FinetuneConfig>, Error> {
    let compute = with_selected_device(&tasks[0], on_event)?.compute;
    let mut notes = Vec::new();
    let resolved =
        tasks.iter().map(|task| with_length(FinetuneConfig { compute, ..task.clone() }, &mut notes));
    let resolved = resolved.collect::<Result<_, Error>>()?;
    notes.dedup();
    notes.into_iter().for_each(|note| on_event(FinetuneEvent::Warning(note)));
    Ok(resolved)
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
        let InitialModel { model: task_model, config } = initial_model(task, seed, on_event)?;
        models = Some(match models {
            None => InitialModels { model: BertForSeveralTasks::new(task_model), configs: vec![config] },
            Some(InitialModels { model, mut configs }) => {
                configs.push(config);
                InitialModels { model: model.with_task(task_model), configs }
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
    // If the process was killed after the first task's report and before `multitask.json` was complete, rewrite
    // everything, provided that the files belong to this run.
    let is_same_run = resume && SavedRuns::are_of(folder, identity, &mut |_| {})?;
    let open = if is_same_run { OutputFolder::reopen } else { OutputFolder::open };
    config.tasks.iter().map(|config| open(&config.output)).collect()
}

/// The configuration of a multi-task run.
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
    /// Fails when an option is invalid or does not support several tasks; the error names the flag.
    pub fn check(&self) -> Result<(), Error> {
        let temperature = self.temperature;
        let is_valid = temperature.is_finite() && temperature >= 1.0;
        check_value(is_valid, "temperature", temperature, "at least 1")?;
        for (at, config) in self.tasks.iter().enumerate() {
            if !config.gives_labels() || config.is_table() {
                let tasks = Task::ALL.into_iter().filter(gives_labels);
                let names: Vec<String> = tasks.map(|task| task.to_string()).collect();
                let reason =
                    format!("{} cannot be trained with other tasks; use {}", config.task, names.join(", "));
                return Err(Error::option("tasks", reason));
            }
            let is_new = self.tasks[..at].iter().all(|other| other.task != config.task);
            check(is_new, "tasks", "must differ from each other")?;
            let given = [
                ("adapter", config.adapters.adapter.is_some()),
                ("fusion", !config.adapters.fusion.is_empty()),
                ("freeze_encoder", config.freeze_encoder),
                // A grid holds out a share by default, so this check comes first.
                ("learning_rate", has_several(&config.learning_rate)),
                ("train_batch_size", has_several(&config.train_batch_size)),
                ("num_train_epochs", has_several(&config.num_train_epochs)),
                ("holdout", config.held_out_share().is_some()),
                ("patience", config.patience.is_some()),
                ("predict", config.predict.is_some()),
                ("forgetting_data", config.forgetting_data.is_some()),
                ("keep_seeds", config.keep_seeds),
                ("seeds", config.seeds.len() > 1),
            ];
            reject_first(&given, "works with one task only")?;
            let last = config.select == Selection::Last;
            check(last, "select", "is last: the best epoch differs between tasks")?;
            grid::cells(config, &TuningDefaults::published(config), None)?;
        }
        check(self.tasks.len() > 1, "tasks", "must be two or more")
    }
}
