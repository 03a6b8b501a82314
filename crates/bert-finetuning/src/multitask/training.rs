//! The loop of a multi-task training over epochs and steps.

use bert_inference::Error;
use bert_inference::compute::stop_flag::{StopFlag, StopRequested};
use bert_inference::model_dir::resolved::Resolved;
use bert_model::{BertForSequenceClassification, BertForSeveralTasks, Mode};
use burn::module::Module;
use serde::{Deserialize, Serialize};

use crate::data::TaskData;
use crate::data::classification::Classification;
use crate::data::datasets::Part;
use crate::events::{FinetuneEvent, TaskEpoch};
use crate::model::TaskModel;
use crate::multitask::config::MultitaskConfig;
use crate::multitask::sampling::task_of;
use crate::run::resume::{RunSnapshot, SavedRun};
use crate::run::run_report::EpochReport;
use crate::run::sample_order::SampleOrder;
use crate::run::step::{TrainSettings, TrainState, num_train_steps};
use crate::scoring::TaskScoring;

/// The progress of training, without weights and moments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Finished steps.
    step: u64,
    /// Batches taken from each task.
    taken: Vec<u64>,
    /// Losses of each task's steps since the last epoch.
    losses: Vec<Vec<f64>>,
    /// Results of all tasks after each epoch.
    pub(super) epochs: Vec<Vec<TaskEpoch>>,
}

impl Progress {
    fn new(tasks: usize) -> Self {
        Self { step: 0, taken: vec![0; tasks], losses: vec![Vec::new(); tasks], epochs: Vec::new() }
    }
}

/// A task of the training: one that classifies or scores a text or a pair.
pub(super) type ClassificationTask<'a> = Classification<'a, BertForSequenceClassification>;

/// A multi-task training in progress, without its model and optimizer.
pub(super) struct MultitaskRun<'a> {
    config: &'a MultitaskConfig,
    tasks: &'a [ClassificationTask<'a>],
    pub(super) settings: TrainSettings<'a>,
    /// Training examples of each task.
    sizes: Vec<usize>,
    batch_sizes: Vec<usize>,
    epochs: u64,
    pub(super) progress: Progress,
}

impl<'a> MultitaskRun<'a> {
    pub(super) fn new(
        config: &'a MultitaskConfig,
        tasks: &'a [ClassificationTask<'a>],
        resolved: &Resolved,
    ) -> Self {
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
    pub(super) fn train(
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
    pub(super) fn pause_between_steps<T>(
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
    pub(super) fn history(&self, number: usize) -> Vec<EpochReport> {
        let mut step = 0;
        let epochs = self.progress.epochs.iter().map(|tasks| {
            let TaskEpoch { steps, train_loss, dev, .. } = tasks[number].clone();
            step += steps;
            let epoch = (step * self.batch_sizes[number] as u64) as f64 / self.sizes[number] as f64;
            EpochReport { step, epoch, train_loss, dev: Some(dev), held_out: None, masked_lm: None }
        });
        epochs.collect()
    }
}
