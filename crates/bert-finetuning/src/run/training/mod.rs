//! The loop of a training over epochs and steps: on one task, or on several tasks that share an encoder.

mod epochs;

use bert_inference::{Resolved, StopFlag};
use bert_model::Mode;
use bert_storage::Class;
use bert_training::{Error, ForgettingTest, MicroBatchLoss, after_step};
use burn::module::Module;
use burn::tensor::Tensor;

use crate::events::FinetuneEvent;
use crate::kinds::FinetuneTask;
use crate::run::resume::{Progress, RestoredState, RunSnapshot, SavedRun, TaskProgress};
use crate::run::run_report::ScoredModel;
use crate::run::sample_order::SampleOrder;
use crate::run::step::{StepBatches, TrainSettings, TrainState};
use crate::run::task_draw::TaskDraw;

/// A task of a training.
struct TrainedTask<'a, T> {
    task: &'a T,
    /// Training items in an epoch.
    items: usize,
    batch_size: usize,
    order: SampleOrder,
    /// The frozen encoder's outputs, if the head needs nothing else.
    frozen: Option<Tensor<2>>,
}

/// The number of epochs after a step, as a fraction of the step's number.
#[derive(Clone, Copy)]
struct EpochRate {
    numerator: u64,
    denominator: u64,
}

/// A training in progress, without its model and optimizer. The model `M` has the heads of all tasks.
pub(crate) struct Training<'a, T: FinetuneTask, M> {
    tasks: Vec<TrainedTask<'a, T>>,
    /// Returns the model of the task with a number.
    task_model: fn(&M, usize) -> T::Model,
    /// The draw of the task of each step; `None` with one task.
    draw: Option<TaskDraw>,
    settings: TrainSettings<'a>,
    epochs: EpochRate,
    progress: Progress,
    /// The best model so far, with one task.
    best: Option<ScoredModel<T>>,
    /// The test of `--forgetting-data`.
    pub(crate) forgetting: Option<ForgettingTest>,
}

impl<'a, T: FinetuneTask, M: Module> Training<'a, T, M> {
    /// Returns a training of one task.
    pub(crate) fn new(
        task: &'a T,
        settings: TrainSettings<'a>,
        resolved: &Resolved,
        task_model: fn(&M, usize) -> T::Model,
    ) -> Self {
        let trained = TrainedTask::new(task, settings.seed, resolved);
        Self {
            epochs: EpochRate { numerator: trained.batch_size as u64, denominator: trained.items as u64 },
            tasks: vec![trained],
            task_model,
            draw: None,
            settings,
            progress: Progress { tasks: vec![TaskProgress::default()], ..Progress::default() },
            best: None,
            forgetting: None,
        }
    }

    /// Returns a training of several tasks, of which `draw` selects one for each step.
    pub(crate) fn several(
        tasks: &'a [T],
        settings: TrainSettings<'a>,
        resolved: &Resolved,
        task_model: fn(&M, usize) -> T::Model,
        draw: TaskDraw,
    ) -> Self {
        let epochs = EpochRate { numerator: draw.epochs, denominator: settings.schedule.total_steps };
        let seed = settings.seed;
        let training = Self::new(&tasks[0], settings, resolved, task_model);
        Self {
            tasks: tasks.iter().map(|task| TrainedTask::new(task, seed, resolved)).collect(),
            progress: Progress { tasks: vec![TaskProgress::default(); tasks.len()], ..Progress::default() },
            draw: Some(draw),
            epochs,
            ..training
        }
    }

    /// Returns the state of the newest checkpoint, if there is one, else the given state, and computes what all steps
    /// share.
    ///
    /// # Errors
    /// Fails when the checkpoint cannot be read, or when a stop is requested.
    pub(crate) fn start(
        &mut self,
        state: TrainState<M>,
        saved: &SavedRun<'_>,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<TrainState<M>, Error> {
        let first = self.tasks[0].task;
        let restored = saved.restore(state, &first.setup().checkpoint.device, on_event)?;
        if let Some(progress) = &restored.progress {
            self.progress = progress.clone();
        }
        let done = self.progress.step;
        if let Some(epoch) = self.progress.best_epoch {
            let shape = (self.task_model)(&restored.state.model, 0);
            if let Some(best) = restored.best_model(shape)? {
                let best = ScoredModel::new(first, best, epoch, first.selection_part(), stop);
                self.best = Some(best.map_err(|error| after_step(error, done))?);
            }
        }
        let RestoredState { state, .. } = restored;
        let model = state.model.clone().valid();
        for (number, trained) in self.tasks.iter_mut().enumerate() {
            let frozen = trained.task.frozen_outputs(&(self.task_model)(&model, number), stop);
            trained.frozen = frozen.map_err(|error| after_step(error, done))?;
        }
        Ok(state)
    }

    /// Takes all remaining steps.
    ///
    /// # Errors
    /// Fails when the loss or gradient is not finite, when a checkpoint cannot be written, or when a stop is requested;
    /// before a stop, a checkpoint is written.
    pub(crate) fn train(
        &mut self,
        mut state: TrainState<M>,
        saved: &mut SavedRun<'_>,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<TrainState<M>, Error> {
        // A stop during the evaluation at the end of an epoch leaves the losses of the epoch.
        let has_losses = self.progress.tasks.iter().any(|task| !task.losses.is_empty());
        let mut evaluation_pending = has_losses && self.ends_epoch();
        while evaluation_pending || !self.is_over() {
            if !evaluation_pending {
                state = self.step(state, on_event)?;
            }
            evaluation_pending = false;
            let epoch_ends = self.ends_epoch();
            if epoch_ends {
                if let Err(stopped) = self.end_epoch(&state.model, stop, on_event) {
                    return self.pause(stopped, &state, saved, stop);
                }
                self.measure_forgetting(&state.model, on_event)?;
            }
            if !self.is_over() {
                saved.pause(stop, epoch_ends, self.snapshot(&state))?;
            }
        }
        Ok(state)
    }

    /// Takes one step on a batch of one task.
    fn step(
        &mut self,
        state: TrainState<M>,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<TrainState<M>, Error> {
        let done = self.progress.step;
        let sizes: Vec<usize> = self.tasks.iter().map(|task| task.items).collect();
        let number = match &self.draw {
            Some(draw) => draw.task(&sizes, self.epochs.at(done), self.settings.seed, done),
            None => 0,
        };
        let progress = &mut self.progress.tasks[number];
        let TrainedTask { task, batch_size, order, frozen, .. } = &mut self.tasks[number];
        let items = order.batch(progress.steps * *batch_size as u64, *batch_size);
        let task_model = self.task_model;
        let StepBatches { batches, targets } = self.settings.batches(*task, &items);
        let loss = |model: &M, (batch, first_sequence): &(T::Batch, u64), mode: Mode| {
            let mode = mode.from_sequence(*first_sequence);
            let loss = task.loss(&task_model(model, number), frozen.as_ref(), batch, targets, mode);
            MicroBatchLoss::new(loss, vec![])
        };
        let (state, loss) = self.settings.step(state, done, &batches, loss)?;
        progress.steps += 1;
        progress.losses.push(loss);
        self.progress.step += 1;
        let TrainSettings { cell, seed, ref schedule, .. } = self.settings;
        on_event(FinetuneEvent::Step { cell, seed, step: done + 1, steps: schedule.total_steps, loss });
        Ok(state)
    }

    fn is_last_step(&self) -> bool {
        self.progress.step == self.settings.schedule.total_steps
    }

    /// Returns whether an epoch ends after the last finished step.
    fn ends_epoch(&self) -> bool {
        let step = self.progress.step;
        self.is_last_step() || self.epochs.at(step) != self.epochs.at(step - 1)
    }

    fn is_patience_over(&self) -> bool {
        let patience = self.settings.config.patience;
        patience.is_some_and(|patience| self.progress.epochs_without_improvement >= patience)
    }

    /// Returns whether no further step is taken.
    fn is_over(&self) -> bool {
        self.is_last_step() || self.is_patience_over()
    }

    /// Returns the number of epochs trained on a task.
    fn epochs_of_task(&self, number: usize) -> f64 {
        let TrainedTask { items, batch_size, .. } = self.tasks[number];
        (self.progress.tasks[number].steps * batch_size as u64) as f64 / items as f64
    }

    fn snapshot<'s>(&'s self, state: &'s TrainState<M>) -> RunSnapshot<'s, M, T::Model> {
        let best = self.best.as_ref().map(|best| &best.model);
        RunSnapshot { progress: &self.progress, state, best }
    }

    /// Writes a checkpoint if an evaluation was stopped, and returns the error of the evaluation.
    pub(crate) fn pause<R>(
        &self,
        error: bert_inference::Error,
        state: &TrainState<M>,
        saved: &mut SavedRun<'_>,
        stop: &StopFlag,
    ) -> Result<R, Error> {
        if matches!(error.class(), Class::Stopped(_)) {
            saved.pause(stop, true, self.snapshot(state))?;
        }
        Err(after_step(error, self.progress.step))
    }
}

impl<'a, T: FinetuneTask> TrainedTask<'a, T> {
    fn new(task: &'a T, seed: u64, resolved: &Resolved) -> Self {
        let items = task.items();
        let batch_size = resolved.batch_of(items);
        Self { task, items, batch_size, order: SampleOrder::new(seed, items), frozen: None }
    }
}

impl EpochRate {
    /// Returns the number of whole epochs after a step.
    fn at(self, step: u64) -> u64 {
        step * self.numerator / self.denominator
    }
}
