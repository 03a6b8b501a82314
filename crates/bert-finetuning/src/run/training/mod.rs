//! The training loop over epochs and steps, on one task or on several tasks that share an encoder. Random streams keyed
//! by the seed determine the order of the examples in each epoch and the task of each step.

mod epochs;

use bert_inference::{Resolved, StopFlag};
use bert_model::Mode;
use bert_random::{Domain, Random, Stream};
use bert_storage::Class;
use bert_training::{Error, ForgettingTest, MicroBatchLoss, after_step};
use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::events::FinetuneEvent;
use crate::kinds::FinetuneTask;
use crate::run::resume::{Progress, RestoredState, RunSnapshot, SavedRun, TaskProgress};
use crate::run::run_report::ScoredModel;
use crate::run::step::{StepBatches, TrainSettings, TrainState};

/// A task of a run.
struct TrainedTask<'a, T> {
    task: &'a T,
    /// Training items in an epoch.
    items: usize,
    batch_size: usize,
    order: SampleOrder,
    /// The frozen encoder's outputs, if the head needs nothing else.
    frozen: Option<Tensor<2>>,
}

/// The ratio by which the number of a step is multiplied to obtain the number of epochs.
#[derive(Clone, Copy)]
struct EpochRate {
    numerator: u64,
    denominator: u64,
}

/// A run in progress, without its model and optimizer. The model `M` has the heads of all tasks.
pub(crate) struct Training<'a, T: FinetuneTask, M> {
    tasks: Vec<TrainedTask<'a, T>>,
    /// Function that returns the model of the task with this index.
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
    /// Returns a run that has not taken any step. If there are several tasks, `draw` selects one for each step.
    pub(crate) fn new(
        tasks: &'a [T],
        settings: TrainSettings<'a>,
        resolved: &Resolved,
        task_model: fn(&M, usize) -> T::Model,
        draw: Option<TaskDraw>,
    ) -> Self {
        let new = |task| TrainedTask::new(task, settings.seed, resolved);
        let trained: Vec<TrainedTask<'a, T>> = tasks.iter().map(new).collect();
        let epochs = match &draw {
            Some(draw) => EpochRate { numerator: draw.epochs, denominator: settings.schedule.total_steps },
            None => {
                EpochRate { numerator: trained[0].batch_size as u64, denominator: trained[0].items as u64 }
            }
        };
        Self {
            tasks: trained,
            task_model,
            draw,
            settings,
            epochs,
            progress: Progress { tasks: vec![TaskProgress::default(); tasks.len()], ..Progress::default() },
            best: None,
            forgetting: None,
        }
    }

    /// Returns the state of the newest checkpoint, if there is one, else the given state. Computes the outputs of
    /// frozen encoders, which all steps share.
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
        // If a stop interrupted the evaluation at the end of an epoch, the progress still has the losses of this epoch.
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

/// The order of training examples: every epoch is a permutation keyed by (seed, epoch).
pub(crate) struct SampleOrder {
    seed: u64,
    examples: usize,
    current: Option<(u64, Vec<usize>)>,
}

impl SampleOrder {
    /// Creates the order for a run over `examples` examples.
    pub(crate) fn new(seed: u64, examples: usize) -> Self {
        Self { seed, examples, current: None }
    }

    /// Returns the examples at positions `start..start + size` of the run; a batch may cross into the next epoch.
    pub(crate) fn batch(&mut self, start: u64, size: usize) -> Vec<usize> {
        (start..start + size as u64).map(|index| self.at(index)).collect()
    }

    fn at(&mut self, index: u64) -> usize {
        let epoch = index / self.examples as u64;
        let position = index % self.examples as u64;
        if self.current.as_ref().is_none_or(|(of, _)| *of != epoch) {
            let mut order: Vec<usize> = (0..self.examples).collect();
            Stream::new(self.seed, Domain::FinetuneOrder, &[epoch]).shuffle(&mut order);
            self.current = Some((epoch, order));
        }
        self.current.as_ref().expect("set above").1[position as usize]
    }
}

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

/// The draw of the task of each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskDraw {
    pub(crate) sampling: Sampling,
    /// The temperature of [`Sampling::Temperature`].
    pub(crate) temperature: f64,
    /// Number of epochs.
    pub(crate) epochs: u64,
}

impl TaskDraw {
    /// Returns the index of the task of step `step`, which is in epoch `epoch`; both count from 0.
    pub(crate) fn task(self, sizes: &[usize], epoch: u64, seed: u64, step: u64) -> usize {
        drawn_task(sizes, self.sampling.power(self.temperature, epoch, self.epochs), seed, step)
    }
}

/// Returns the task of a step: the first whose cumulative probability exceeds the draw.
fn drawn_task(sizes: &[usize], power: f64, seed: u64, step: u64) -> usize {
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
    fn every_epoch_has_every_example_once() {
        let mut order = SampleOrder::new(3, 10);
        let all = order.batch(0, 30);
        for epoch in all.chunks(10) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert_ne!(all[..10], all[10..20]);
        let mut again = SampleOrder::new(3, 10);
        assert_eq!(again.batch(8, 5), all[8..13]);
    }

    #[test]
    fn tasks_are_drawn_by_a_power_of_their_size() {
        let sizes = [9000, 1000];
        let share = |power: f64| {
            let first = (0..4000).filter(|&step| drawn_task(&sizes, power, 7, step) == 0).count();
            first as f64 / 4000.0
        };
        // Four standard errors are .019, .027 and .032.
        assert!((share(1.0) - 0.9).abs() < 0.02, "{}", share(1.0));
        assert!((share(0.5) - 0.75).abs() < 0.03, "{}", share(0.5));
        assert!((share(0.0) - 0.5).abs() < 0.032, "{}", share(0.0));
        assert_eq!(drawn_task(&sizes, 1.0, 7, 3), drawn_task(&sizes, 1.0, 7, 3));
        let powers: Vec<f64> = (0..3).map(|epoch| Sampling::Annealed.power(2.0, epoch, 3)).collect();
        assert!(powers.iter().zip([1.0, 0.6, 0.2]).all(|(a, b)| (a - b).abs() < 1e-12), "{powers:?}");
        assert_eq!(Sampling::Temperature.power(4.0, 1, 3), 0.25);
        assert_eq!(Sampling::Annealed.power(2.0, 0, 1), 1.0);
    }
}
