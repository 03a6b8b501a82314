//! Plans the fine-tunings of an experiment: one for each checkpoint, setting and task.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bert_finetuning::{FinetuneConfig, MultitaskConfig, Sampling, Seeds, check};
use bert_inference::{DefaultLength, DeviceName, ModelDescription, ModelFiles};
use bert_model::BertConfig;
use bert_storage::Error;
use bert_task_files::{LabelUse, find_split, read_examples};
use bert_tasks::{Example, Split, Task};

use super::args::Args;
use super::definition::{Experiment, Setting};
use crate::commands::hub::pinned_start;
use crate::commands::training::finetune_flags::{for_task, parse_flags};
use crate::commands::{model_folder, selected_device};

/// A checkpoint of the experiment.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// The path as given.
    pub(super) given: PathBuf,
    /// The path of the model that the runs start from, with the commit of a model of the Hub.
    start: PathBuf,
    /// The model folder.
    pub(super) folder: PathBuf,
    /// The configuration of the model.
    config: BertConfig,
    /// The description of the model.
    description: ModelDescription,
}

/// The work for one output folder.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A fine-tuning on one task.
    Single(Box<FinetuneConfig>),
    /// A multi-task fine-tuning: several tasks with one encoder.
    Together(Box<MultitaskConfig>),
}

/// One planned run.
#[derive(Clone, Debug)]
pub(super) struct PlannedRun {
    /// The index of the checkpoint, from 0.
    pub(super) model: usize,
    /// The name of the setting.
    pub(super) setting: String,
    pub(super) work: Work,
}

impl PlannedRun {
    /// Returns the output folder.
    pub(super) fn output(&self) -> &Path {
        match &self.work {
            Work::Single(config) => &config.output,
            Work::Together(config) => &config.output,
        }
    }

    /// Returns the configuration of each of its tasks.
    pub(super) fn configs(&self) -> &[FinetuneConfig] {
        match &self.work {
            Work::Single(config) => std::slice::from_ref(&**config),
            Work::Together(config) => &config.tasks,
        }
    }

    /// Returns whether the run is complete.
    pub(super) fn is_finished(&self) -> bool {
        let last = match &self.work {
            Work::Single(_) => "report.json",
            Work::Together(_) => "multitask.json",
        };
        self.output().join(last).exists()
    }
}

/// The planner of an experiment.
pub(super) struct Planner<'a> {
    pub(super) args: &'a Args,
    pub(super) experiment: &'a Experiment,
    /// The data folder.
    data: &'a Path,
    /// The output folder.
    pub(super) output: &'a Path,
    pub(super) models: Vec<Model>,
    /// Remarks on the plan.
    pub(super) notes: Vec<String>,
    /// The device of all runs, once it is selected.
    device: Option<DeviceName>,
}

impl<'a> Planner<'a> {
    /// Creates a planner and opens the checkpoints that the flags name.
    ///
    /// # Errors
    /// Fails when a checkpoint cannot be opened, or when `--data` or `--output` is not given.
    pub(super) fn new(args: &'a Args, experiment: &'a Experiment) -> anyhow::Result<Self> {
        let missing = |flag| {
            let reason = format!("is required for the experiment {}", experiment.name);
            Error::option(flag, reason)
        };
        let data = args.data.as_deref().ok_or_else(|| missing("data"))?;
        let output = args.output.as_deref().ok_or_else(|| missing("output"))?;
        let models = args.checkpoint.iter().map(|given| {
            let start = pinned_start(given, output, args.run.quiet)?;
            let folder = model_folder(&start)?;
            let ModelFiles { config, description, .. } = ModelFiles::open(&folder)?;
            Ok(Model { given: given.clone(), start, folder, config, description })
        });
        let models = models.collect::<anyhow::Result<_>>()?;
        Ok(Self { args, experiment, data, output, models, notes: Vec::new(), device: None })
    }

    /// Returns the tasks of a setting.
    pub(super) fn tasks(&self, setting: &Setting) -> Vec<Task> {
        let tasks = if setting.tasks.is_empty() { &self.experiment.tasks } else { &setting.tasks };
        let is_chosen = |task: &&Task| {
            self.args.tasks.is_empty() || !setting.tasks.is_empty() || self.args.tasks.contains(task)
        };
        tasks.iter().filter(is_chosen).cloned().collect()
    }

    /// Returns the planned runs of all settings. With `by_seed`, each seed has its own run, so that the model of
    /// every seed is saved.
    ///
    /// # Errors
    /// Fails when a flag is invalid, or a task file is missing.
    pub(super) fn plan(&mut self, by_seed: bool) -> anyhow::Result<Vec<PlannedRun>> {
        let tasks = &self.experiment.tasks;
        if let Some(other) = self.args.tasks.iter().find(|task| !tasks.contains(task)) {
            let known: Vec<String> = tasks.iter().map(ToString::to_string).collect();
            let reason =
                format!("{other} is not a task of this experiment; its tasks are {}", known.join(", "));
            return Err(Error::option("tasks", reason).into());
        }
        let mut plan = Vec::new();
        for model in 0..self.models.len() {
            for setting in &self.experiment.settings {
                let seeds = if setting.once { &self.args.seeds[..1] } else { &self.args.seeds[..] };
                match setting.together {
                    Some(_) if self.tasks(setting).len() < 2 => {
                        self.note(format!("{} is left out: it needs two tasks or more", setting.name));
                    }
                    Some(sampling) => {
                        let runs = seeds.iter().map(|&seed| self.together(model, setting, sampling, seed));
                        plan.extend(runs.collect::<anyhow::Result<Vec<_>>>()?);
                    }
                    None => plan.extend(self.singles(model, setting, seeds, by_seed)?),
                }
            }
        }
        Ok(plan)
    }

    /// Returns the runs of a setting: one for each task, or with `by_seed` one for each task and seed.
    fn singles(
        &mut self,
        model: usize,
        setting: &Setting,
        seeds: &[u64],
        by_seed: bool,
    ) -> anyhow::Result<Vec<PlannedRun>> {
        let chunk = if by_seed { 1 } else { seeds.len() };
        let mut runs = Vec::new();
        for task in self.tasks(setting) {
            for seeds in seeds.chunks(chunk) {
                let seed = if by_seed { format!("-seed-{}", seeds[0]) } else { String::new() };
                let folder = self.folder(&format!("{task}-{}{seed}", setting.name), model);
                let config = self.config(&task, model, setting, seeds, &folder)?;
                check(&config)?;
                let work = Work::Single(Box::new(config));
                runs.push(PlannedRun { model, setting: setting.name.clone(), work });
            }
        }
        Ok(runs)
    }

    /// Returns the multi-task run of all tasks with one seed.
    fn together(
        &mut self,
        model: usize,
        setting: &Setting,
        sampling: Sampling,
        seed: u64,
    ) -> anyhow::Result<PlannedRun> {
        let output = self.folder(&format!("{}-seed-{seed}", setting.name), model);
        let tasks = self.tasks(setting).into_iter();
        let configs =
            tasks.map(|task| self.config(&task, model, setting, &[seed], &output.join(task.to_string())));
        let tasks = configs.collect::<anyhow::Result<Vec<_>>>()?;
        let config = MultitaskConfig { tasks, sampling, temperature: 2.0, output };
        config.check()?;
        Ok(PlannedRun { model, setting: setting.name.clone(), work: Work::Together(Box::new(config)) })
    }

    /// Returns the output folder of a run of this checkpoint.
    pub(super) fn folder(&self, name: &str, model: usize) -> PathBuf {
        match self.models.len() {
            1 => self.output.join(name),
            _ => self.output.join(format!("{name}-{}", model + 1)),
        }
    }

    /// Returns the configuration of a fine-tuning: the flags of the setting, then the flags of the command line.
    pub(super) fn config(
        &mut self,
        task: &Task,
        model: usize,
        setting: &Setting,
        seeds: &[u64],
        output: &Path,
    ) -> anyhow::Result<FinetuneConfig> {
        let seeds = Seeds(seeds.to_vec());
        let own: Vec<String> =
            setting.flags.split_whitespace().map(|flag| self.filled(flag, model)).collect();
        let flags = parse_flags(&[("--seeds", &seeds.to_string())], &own, &self.args.flags)?;
        let Model { start, config: encoder, description, .. } = self.models[model].clone();
        let data = self.data_of(task)?;
        let mut config = for_task(&flags, task.clone(), &data, &start, output);
        config.output = output.to_owned();
        let device = match self.device {
            Some(device) => device,
            None => selected_device(config.compute.device)?,
        };
        self.device = Some(device);
        config.compute.device = device;
        config.max_train_examples = self.args.max_train_examples.or(config.max_train_examples);
        let longest = task.spec().defaults.max_seq_length;
        let default = DefaultLength::Task(longest);
        if let Some(remark) = description.encoding_length(config.max_seq_length, default, &encoder)?.remark {
            self.note(format!("{task} with {}: {remark}", start.display()));
        }
        Ok(config)
    }

    /// Adds a remark, once.
    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Returns a flag in which `{NAME}` is replaced by the folder of that name.
    fn filled(&self, flag: &str, model: usize) -> String {
        let mut parts = flag.split('{');
        let mut filled = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let (name, rest) = part.split_once('}').unwrap_or((part, ""));
            filled += &self.folder(name, model).to_string_lossy();
            filled += rest;
        }
        filled
    }

    /// Returns the folder with the files of a task: the data folder, or one of its subfolders.
    fn data_of(&self, task: &Task) -> anyhow::Result<PathBuf> {
        let lower_case = task.spec().folder.to_ascii_lowercase();
        let inside = ["glue", "GLUE", lower_case.as_str()].map(|name| self.data.join(name));
        let has = |folder: &&PathBuf| {
            [Split::Train, Split::Dev].iter().all(|&split| find_split(task, folder, split).is_ok())
        };
        let folders = [self.data.to_owned()].into_iter().chain(inside).collect::<Vec<_>>();
        if let Some(found) = folders.iter().find(has) {
            return Ok(found.clone());
        }
        find_split(task, self.data, Split::Train)?;
        find_split(task, self.data, Split::Dev)?;
        Ok(self.data.to_owned())
    }
}

/// Returns the folders of a plan with the scores of a setting on a task.
pub(super) fn folders_of(plan: &[PlannedRun], model: usize, setting: &str, task: &Task) -> Vec<PathBuf> {
    let runs = plan.iter().filter(|run| run.model == model && run.setting == setting);
    let configs = runs.flat_map(PlannedRun::configs).filter(|config| config.task == *task);
    configs.map(|config| config.output.clone()).collect()
}

/// Returns the number of training examples of a configuration.
///
/// # Errors
/// Fails when the training file cannot be read.
pub(super) fn train_examples(config: &FinetuneConfig) -> anyhow::Result<usize> {
    let data = config.data.as_deref().context("a data folder")?;
    let file = find_split(&config.task, data, Split::Train)?;
    let read = read_labelled(config, &file.path)?;
    Ok(config.max_train_examples.map_or(read.len(), |most| most.min(read.len())))
}

/// Returns the labelled examples of a file of a configuration's task.
///
/// # Errors
/// Fails when the file cannot be read.
pub(super) fn read_labelled(
    config: &FinetuneConfig,
    path: &Path,
) -> Result<Vec<Example>, bert_inference::Error> {
    let labels = LabelUse::for_labelled(config.skip_unlabelled);
    Ok(read_examples(&config.task, path, labels)?.examples)
}
