//! Trains one run of a fine-tuning: a single seed, from the checkpoint to a scored model.

use bert_model::Mode;
use burn::module::Module;
use burn::tensor::Tensor;

use crate::error::Error;
use crate::finetune::config::grid::Cell;
use crate::finetune::config::resolve::Resolved;
use crate::finetune::config::{FinetuneConfig, Selection};
use crate::finetune::events::FinetuneEvent;
use crate::finetune::model::pretrained::Opened;
use crate::finetune::objectives::{Answered, Objective, Part};
use crate::finetune::output::report::{EpochReport, RunReport};
use crate::finetune::run::resume::{Progress, SavedRun};
use crate::finetune::run::sample_order::SampleOrder;
use crate::training::adamw::AdamW;
use crate::training::lr_schedule::Schedule;
use crate::training::step::{MicroBatchLoss, NotFinite, StepReport, train_step};
use crate::training::stop_flag::{StopFlag, StopRequested};
use bert_tasks::Scores;

/// A state of a run and its answers to a part.
pub(crate) struct State<O: Objective> {
    /// The model, without autodiff.
    model: O::Model,
    scores: Scores,
    answers: O::Answers,
    /// Epochs trained at this state.
    epoch: f64,
}

impl<O: Objective> State<O> {
    /// Scores a model on a part.
    ///
    /// # Errors
    /// [`StopRequested`].
    pub(crate) fn new(
        objective: &O,
        model: O::Model,
        epoch: f64,
        part: Part,
        stop: &StopFlag,
    ) -> Result<Self, StopRequested> {
        let (answers, scores) = objective.scored(&model, part, stop)?;
        Ok(Self { model, scores, answers, epoch })
    }
}

/// The settings for training a model from a seed, shared by all objectives.
pub(crate) struct Training<'a> {
    /// The configuration.
    pub(crate) config: &'a FinetuneConfig,
    /// The seed.
    pub(crate) seed: u64,
    /// Number of steps and learning rates.
    pub(crate) schedule: Schedule,
}

impl<'a> Training<'a> {
    /// Creates the settings for `steps` steps.
    pub(crate) fn new(config: &'a FinetuneConfig, resolved: &Resolved, seed: u64, steps: u64) -> Self {
        let schedule = Schedule {
            kind: config.schedule,
            peak: resolved.learning_rate,
            total_steps: steps,
            warmup_steps: (steps as f64 * config.warmup_proportion) as u64,
        };
        Self { config, seed, schedule }
    }

    /// Returns the optimizer for a model.
    pub(crate) fn optimizer<M: Module>(&self, model: &M, opened: &Opened) -> AdamW {
        let optimizer = AdamW::new(self.config.optimizer(), model).with_compute(opened.compute);
        self.config.with_layer_rates(optimizer, opened.model.num_hidden_layers)
    }

    /// Takes one training step on some items of an objective, after `done` finished steps. `loss` receives a
    /// micro-batch and the number of targets in all of them.
    ///
    /// # Errors
    /// [`Error::NotFinite`].
    pub(crate) fn step<O: Objective, M: Module>(
        &self,
        done: u64,
        (model, optimizer): (M, &mut AdamW),
        (objective, items): (&O, &[usize]),
        loss: impl Fn(&M, &O::Batch, usize, Mode) -> Tensor<1>,
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<(M, f64), Error> {
        let (mut batches, mut targets, mut first_item) = (Vec::new(), 0, 0);
        for part in micro_batches(items, self.config.gradient_accumulation_steps as usize) {
            let (batch, of_batch) = objective.micro_batch(part, items);
            batches.push((batch, (first_item * objective.sequences_per_item()) as u64));
            targets += of_batch;
            first_item += part.len();
        }
        let loss = |model: &M, (batch, first_sequence): &(O::Batch, u64), mode: Mode| {
            let mode = mode.from_sequence(*first_sequence);
            MicroBatchLoss::new(loss(model, batch, targets, mode), vec![])
        };
        let (seed, rate) = (self.seed, self.schedule.learning_rate(done));
        let (model, report) = train_step(model, optimizer, &batches, loss, rate, StepId { seed, step: done });
        let step = done + 1;
        let StepReport { loss, .. } = report.map_err(|NotFinite { report }| {
            let StepReport { loss, gradient_norm, .. } = report;
            Error::NotFinite { step, loss, gradient_norm }
        })?;
        tell(FinetuneEvent::Step { seed, step, steps: self.schedule.total_steps, loss });
        Ok((model, loss))
    }
}

/// Returns the part that selects the best epoch: the held-out examples if there are any, else dev.
fn chooses<O: Objective>(objective: &O) -> Part {
    if objective.has(Part::HeldOut) { Part::HeldOut } else { Part::Dev }
}

/// Trains `model` from `seed` with the cell's settings, or continues from `saved`, and scores it.
///
/// # Errors
/// [`Error::NotFinite`], [`Error::Stopped`] after a checkpoint when a stop was requested, and errors of writing one.
pub(crate) fn run_seed<O: Objective>(
    (objective, cell): (&O, &Cell),
    seed: u64,
    model: O::Model,
    saved: &mut SavedRun<'_>,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<Scored<O>, Error> {
    let Cell { config, resolved } = cell;
    let opened = objective.setup().opened;
    let items = objective.items() as u64;
    let batch_size = resolved.batch_of(objective.items()) as u64;
    let steps = num_train_steps(objective.items(), resolved);
    let training = Training::new(config, resolved, seed, steps);
    let mut optimizer = training.optimizer(&model, opened);
    let (mut model, mut at, best) = saved.restore(model, &mut optimizer, &opened.device, tell)?;
    let restored = at.step;
    let best =
        best.map(|(model, epoch)| State::new(objective, model, epoch, chooses(objective), stop)).transpose();
    let mut best = best.map_err(|stopped| stopped.after(restored))?;
    let frozen = objective.frozen_outputs(&model.clone().valid(), stop);
    let frozen = frozen.map_err(|stopped| stopped.after(restored))?;
    let mut order = SampleOrder::new(seed, objective.items());
    let patience_is_over = |at: &Progress| config.patience.is_some_and(|patience| at.waited >= patience);
    let ends_epoch = |step: u64| {
        let seen = step * batch_size;
        step == steps || seen / items != (seen - batch_size) / items
    };
    // A stop during the evaluation at the end of an epoch leaves the losses of the epoch.
    let mut evaluation_pending = !at.losses.is_empty() && ends_epoch(at.step);
    let mut stopped_early = at.step < steps && patience_is_over(&at);

    while evaluation_pending || (at.step < steps && !stopped_early) {
        if !evaluation_pending {
            let batch = order.batch(at.step * batch_size, batch_size as usize);
            let loss_of = |model: &O::Model, batch: &O::Batch, targets: usize, mode: Mode| {
                objective.loss(model, frozen.as_ref(), batch, targets, mode)
            };
            let loss;
            (model, loss) =
                training.step(at.step, (model, &mut optimizer), (objective, &batch), loss_of, tell)?;
            at.step += 1;
            at.losses.push(loss);
        }
        evaluation_pending = false;
        let last = at.step == steps;
        let epoch_ends = ends_epoch(at.step);
        if epoch_ends {
            let epoch = (at.step * batch_size) as f64 / items as f64;
            let place = (seed, epoch, last);
            if let Err(stopped) =
                end_epoch((objective, config), &model, place, &mut at, &mut best, stop, tell)
            {
                let best = best.as_ref().map(|best| &best.model);
                saved.pause(stop, true, (at.step, &at), (&model, &optimizer), best)?;
                return Err(stopped.after(at.step));
            }
            stopped_early = !last && patience_is_over(&at);
        }
        if last || stopped_early {
            break;
        }
        let best = best.as_ref().map(|best| &best.model);
        saved.pause(stop, epoch_ends, (at.step, &at), (&model, &optimizer), best)?;
    }
    let best = best.expect("the last step is evaluated");
    let best_model = best.model.clone();
    // With `--holdout`, dev has not been scored yet.
    let scored = match chooses(objective) {
        Part::HeldOut => State::new(objective, best.model, best.epoch, Part::Dev, stop)
            .map(|state| (state, Some(best.scores))),
        _ => Ok((best, None)),
    };
    let course = Course { history: at.history.clone(), stopped_early, diverged: at.diverged };
    let done = scored.and_then(|(best, held_out)| reported(objective, seed, best, held_out, course, stop));
    match done {
        Ok(done) => Ok(done),
        Err(stopped) => {
            saved.pause(stop, true, (at.step, &at), (&model, &optimizer), Some(&best_model))?;
            Err(stopped.after(at.step))
        }
    }
}

/// A run has diverged if its training loss exceeds the loss of a uniform prediction by this factor.
const DIVERGED: f64 = 3.0;

/// Records an epoch, and scores the model after it if needed.
///
/// # Errors
/// [`StopRequested`] when a stop is requested before the scores are known; nothing is recorded then.
fn end_epoch<O: Objective>(
    (objective, config): (&O, &FinetuneConfig),
    model: &O::Model,
    (seed, epoch, last): (u64, f64, bool),
    at: &mut Progress,
    best: &mut Option<State<O>>,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<(), StopRequested> {
    let part = chooses(objective);
    let is_scored = last || config.select == Selection::Best;
    let scored = is_scored.then(|| State::new(objective, model.clone().valid(), epoch, part, stop));
    let scored = scored.transpose()?;
    let train_loss = at.losses.iter().sum::<f64>() / at.losses.len() as f64;
    at.losses.clear();
    let guessing = objective.guessing_loss();
    at.diverged = train_loss > DIVERGED * guessing;
    if at.diverged {
        tell(FinetuneEvent::Warning(format!(
            "seed {seed}, epoch {epoch:.1}: the training loss of {train_loss:.4} is far above the loss of random \
             guessing ({guessing:.4}): the run has diverged; use a lower --learning-rate or more warm-up"
        )));
    }
    let mut report =
        EpochReport { step: at.step, epoch, train_loss: Some(train_loss), dev: None, held_out: None };
    if let Some(state) = scored {
        let (scores, held_out) = (state.scores.clone(), part == Part::HeldOut);
        tell(FinetuneEvent::Evaluated { seed, epoch, scores: scores.clone(), held_out });
        *(if held_out { &mut report.held_out } else { &mut report.dev }) = Some(scores);
        at.waited += 1;
        let primary = |state: &State<O>| state.scores.get(config.task.spec().primary).unwrap_or(f64::NAN);
        if best.as_ref().is_none_or(|best| is_better(primary(&state), primary(best))) {
            (at.waited, at.best_epoch) = (0, Some(epoch));
            *best = Some(state);
        }
    }
    at.history.push(report);
    Ok(())
}

/// Returns whether `score` is better. Ties keep the earlier state, and an undefined score never beats a defined one.
pub(crate) fn is_better(score: f64, best: f64) -> bool {
    score > best || (best.is_nan() && !score.is_nan())
}

/// The report of a run, its answers and its model.
type Scored<O> = (RunReport, Answered<O>, <O as Objective>::Model);

/// The history of a run.
pub(crate) struct Course {
    /// The epochs.
    pub(crate) history: Vec<EpochReport>,
    /// Whether `--patience` ended the run.
    pub(crate) stopped_early: bool,
    /// Whether the loss ended far above the loss of a uniform prediction.
    pub(crate) diverged: bool,
}

/// Scores a finished run, given its state on dev, on every labelled part.
///
/// # Errors
/// [`StopRequested`].
pub(crate) fn reported<O: Objective>(
    objective: &O,
    seed: u64,
    State { model, scores: dev, answers, epoch }: State<O>,
    held_out: Option<Scores>,
    Course { history, stopped_early, diverged }: Course,
    stop: &StopFlag,
) -> Result<Scored<O>, StopRequested> {
    let (confusion, calibration) = (objective.confusion(&answers), objective.calibration(&answers));
    let mut answered = Answered::<O>::from([(Part::Dev, answers)]);
    let mut further = |part: Part| -> Result<Option<Scores>, StopRequested> {
        if !objective.has(part) {
            return Ok(None);
        }
        let (answers, scores) = objective.scored(&model, part, stop)?;
        answered.insert(part, answers);
        Ok(Some(scores))
    };
    let (dev_mismatched, test) = (further(Part::DevMismatched)?, further(Part::Test)?);
    let report = RunReport {
        seed,
        epoch,
        stopped_early,
        diverged,
        held_out,
        dev,
        dev_mismatched,
        test,
        confusion,
        calibration,
        history,
    };
    Ok((report, answered, model))
}

/// Splits a batch into parts of nearly equal size.
fn micro_batches(items: &[usize], parts: usize) -> Vec<&[usize]> {
    let bounds: Vec<usize> = (0..=parts).map(|part| part * items.len() / parts).collect();
    bounds.windows(2).filter(|w| w[0] < w[1]).map(|w| &items[w[0]..w[1]]).collect()
}

/// Returns the number of updates: epochs times examples divided by the batch size, rounded down as in the reference, at
/// least one. The batch is at most as large as the set.
pub fn num_train_steps(examples: usize, resolved: &Resolved) -> u64 {
    let steps = examples as f64 / resolved.batch_of(examples) as f64 * resolved.num_train_epochs;
    (steps as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::precision::PrecisionChoice;

    #[test]
    fn step_counts_are_the_reference_s() {
        // int(n / batch * epochs), as in the table of the fine-tuning recipe.
        let steps = |n, train_batch_size, num_train_epochs| {
            let resolved = Resolved {
                num_train_epochs,
                train_batch_size,
                learning_rate: 1.0,
                max_seq_length: 128,
                precision: PrecisionChoice::F32,
                adapter_reduction: None,
                lora_rank: None,
                lora_alpha: None,
            };
            num_train_steps(n, &resolved)
        };
        assert_eq!(steps(2490, 32, 3.0), 233);
        assert_eq!(steps(3668, 32, 3.0), 343);
        assert_eq!(steps(67_349, 32, 3.0), 6313);
        assert_eq!(steps(5749, 16, 20.0), 7186);
        assert_eq!(steps(40, 32, 0.1), 1);
        // The reference repeats a set that is smaller than a batch; here a step uses it once.
        assert_eq!((steps(3, 32, 1.0), steps(10, 32, 3.0)), (1, 3));
    }
}
