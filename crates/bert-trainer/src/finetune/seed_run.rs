//! Trains one run of a fine-tuning: one seed, from the checkpoint to a scored model.

use bert_kernels::Compute;
use bert_model::Mode;
use burn::module::Module;
use burn::tensor::Device;

use super::config::{FinetuneConfig, Resolved, Selection};
use super::features::SampleOrder;
use super::objectives::{Objective, Part};
use super::saved::{Restored, RunState, SavedRun};
use crate::error::Error;
use crate::finetune::events::FinetuneEvent;
use crate::finetune::progress::EpochReport;
use crate::finetune::progress::Progress;
use crate::optimizer::AdamW;
use crate::schedule::Schedule;
use crate::stop::StopFlag;
use crate::tasks::Scores;
use crate::train_step::{MicroBatchLoss, StepReport, train_step};

/// What every run of a fine-tuning shares.
pub(super) struct Shared<'a, O> {
    /// The configuration.
    pub(super) config: &'a FinetuneConfig,
    /// Its defaults filled in.
    pub(super) resolved: &'a Resolved,
    /// What is learnt.
    pub(super) objective: &'a O,
    /// Layers of the model.
    pub(super) layers: usize,
    /// Device, with autodiff.
    pub(super) device: &'a Device,
    /// How models compute.
    pub(super) compute: Compute,
}

impl<O: Objective> Shared<'_, O> {
    /// By what states are chosen.
    fn chooses(&self) -> Part {
        if self.objective.has(Part::HeldOut) { Part::HeldOut } else { Part::Dev }
    }
}

impl RunState for Progress {
    fn step(&self) -> u64 {
        self.step
    }
}

/// A state of a run and what it says of a part.
struct State<O: Objective> {
    model: O::Model,
    scores: Scores,
    answers: O::Answers,
    epoch: f64,
}

/// A finished run.
pub(super) struct Finished<O: Objective> {
    /// The chosen state, without autodiff.
    pub(super) model: O::Model,
    /// Its scores on dev.
    pub(super) scores: Scores,
    /// Its answers to dev.
    pub(super) answers: O::Answers,
    /// Its scores on what is held out of train.
    pub(super) held_out: Option<Scores>,
    /// Epochs trained when it was reached.
    pub(super) epoch: f64,
    /// Whether `--patience` ended the run.
    pub(super) stopped_early: bool,
    /// Every epoch, in order.
    pub(super) history: Vec<EpochReport>,
}

/// Trains `model` from `seed`, or goes on where `saved` stands, and scores it.
///
/// # Errors
/// [`Error::NotFinite`], [`Error::Stopped`] after a checkpoint when a stop was asked for, and errors of writing one.
pub(super) fn run_seed<O: Objective>(
    shared: &Shared<'_, O>,
    seed: u64,
    model: O::Model,
    saved: &mut SavedRun<'_>,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<Finished<O>, Error> {
    let Shared { config, resolved, objective, layers, device, compute } = shared;
    let (batch_size, items) = (resolved.train_batch_size as u64, objective.items() as u64);
    let schedule = schedule(shared);
    let steps = schedule.total_steps;
    let optimizer = AdamW::new(config.optimizer(), &model).computing(*compute);
    let mut optimizer = config.with_layer_rates(optimizer, *layers);
    let Restored { mut model, progress: mut at, best } =
        saved.restore(model, &mut optimizer, device, tell)?;
    let mut best = best.map(|(model, epoch)| state(shared, model, epoch, shared.chooses()));
    let frozen = objective.frozen_outputs(&model.clone().valid());
    let mut order = SampleOrder::new(seed, objective.items());
    let mut stopped_early = false;

    while at.step < steps && !stopped_early {
        let batch = order.batch(at.step * batch_size, resolved.train_batch_size);
        let parts = micro_batches(&batch, config.gradient_accumulation_steps as usize);
        let micro_batches: Vec<O::Batch> = parts.into_iter().map(|items| objective.batch(items)).collect();
        let targets = micro_batches.iter().map(|batch| objective.targets(batch)).sum();
        let loss = |model: &O::Model, batch: &O::Batch, mode: Mode| MicroBatchLoss {
            total: objective.loss(model, frozen.as_ref(), batch, targets, mode),
            parts: vec![],
        };
        let learning_rate = schedule.learning_rate(at.step);
        let (updated, report) =
            train_step(model, &mut optimizer, &micro_batches, loss, learning_rate, (seed, at.step));
        model = updated;
        let report = report.map_err(|failure| not_finite(at.step + 1, &failure.report))?;
        at.step += 1;
        tell(FinetuneEvent::Step { seed, step: at.step, steps, loss: report.loss });
        at.losses.push(report.loss);
        let seen = at.step * batch_size;
        let last = at.step == steps;
        let epoch_ends = last || seen / items != (seen - batch_size) / items;
        if epoch_ends {
            let epoch = seen as f64 / items as f64;
            end_epoch(shared, &model, (seed, epoch, last), &mut at, &mut best, tell);
            stopped_early = !last && config.patience.is_some_and(|patience| at.waited >= patience);
        }
        if last || stopped_early {
            break;
        }
        let signal = stop.requested();
        if (epoch_ends && saved.is_due()) || signal.is_some() || stop.take_checkpoint_request() {
            saved.checkpoint(&model, &optimizer, &at, best.as_ref().map(|best| &best.model))?;
        }
        if let Some(signal) = signal {
            return Err(Error::Stopped { signal, step: at.step });
        }
    }
    let best = best.expect("the last step is evaluated");
    Ok(finished(shared, best, at, stopped_early))
}

/// Notes an epoch, and scores the state after it where that is asked for.
fn end_epoch<O: Objective>(
    shared: &Shared<'_, O>,
    model: &O::Model,
    (seed, epoch, last): (u64, f64, bool),
    at: &mut Progress,
    best: &mut Option<State<O>>,
    tell: &mut dyn FnMut(FinetuneEvent),
) {
    let train_loss = Some(at.losses.iter().sum::<f64>() / at.losses.len() as f64);
    at.losses.clear();
    let mut report = EpochReport { step: at.step, epoch, train_loss, dev: None, held_out: None };
    if last || shared.config.select == Selection::Best {
        let part = shared.chooses();
        let state = state(shared, model.clone().valid(), epoch, part);
        let (scores, held_out) = (state.scores.clone(), part == Part::HeldOut);
        tell(FinetuneEvent::Evaluated { seed, epoch, scores: scores.clone(), held_out });
        *(if held_out { &mut report.held_out } else { &mut report.dev }) = Some(scores);
        at.waited += 1;
        if best.as_ref().is_none_or(|best| is_better(shared, &state, best)) {
            (at.waited, at.best_epoch) = (0, Some(epoch));
            *best = Some(state);
        }
    }
    at.history.push(report);
}

/// The chosen state and what it does on dev, which with `--holdout` was not asked before.
fn finished<O: Objective>(
    shared: &Shared<'_, O>,
    best: State<O>,
    at: Progress,
    stopped_early: bool,
) -> Finished<O> {
    let held_out = (shared.chooses() == Part::HeldOut).then(|| best.scores.clone());
    let best = match held_out {
        Some(_) => state(shared, best.model, best.epoch, Part::Dev),
        None => best,
    };
    let State { model, scores, answers, epoch } = best;
    Finished { model, scores, answers, held_out, epoch, stopped_early, history: at.history }
}

/// By the task's main metric; an undefined score (NaN) never beats one that is there.
fn is_better<O: Objective>(shared: &Shared<'_, O>, state: &State<O>, best: &State<O>) -> bool {
    let primary = |state: &State<O>| state.scores.get(shared.config.task.spec().primary).unwrap_or(f64::NAN);
    primary(state) > primary(best) || (primary(best).is_nan() && !primary(state).is_nan())
}

/// A state, given without autodiff, and what it says of a part.
fn state<O: Objective>(shared: &Shared<'_, O>, model: O::Model, epoch: f64, part: Part) -> State<O> {
    let answers = shared.objective.answer(&model, part);
    let scores = shared.objective.score(part, &answers);
    State { model, scores, answers, epoch }
}

/// Cut into parts of nearly equal size, each padded for itself.
pub(super) fn micro_batches(items: &[usize], parts: usize) -> Vec<&[usize]> {
    let bounds: Vec<usize> = (0..=parts).map(|part| part * items.len() / parts).collect();
    bounds.windows(2).filter(|w| w[0] < w[1]).map(|w| &items[w[0]..w[1]]).collect()
}

fn schedule<O: Objective>(shared: &Shared<'_, O>) -> Schedule {
    let total_steps = num_train_steps(shared.objective.items(), shared.resolved);
    Schedule {
        kind: shared.config.schedule,
        peak: shared.resolved.learning_rate,
        total_steps,
        warmup_steps: (total_steps as f64 * shared.config.warmup_proportion) as u64,
    }
}

fn not_finite(step: u64, report: &StepReport) -> Error {
    Error::NotFinite { step, loss: report.loss, gradient_norm: report.gradient_norm }
}

/// Number of updates: epochs over the examples in batches, rounded down as in the reference, at least one.
pub fn num_train_steps(examples: usize, resolved: &Resolved) -> u64 {
    let steps = examples as f64 / resolved.train_batch_size as f64 * resolved.num_train_epochs;
    (steps as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finetune::adapter_options::AdapterSizes;
    use crate::precision::PrecisionChoice;

    #[test]
    fn step_counts_are_the_reference_s() {
        // int(n / batch * epochs), the table of the fine-tuning recipe.
        let steps = |n, train_batch_size, num_train_epochs| {
            let resolved = Resolved {
                num_train_epochs,
                train_batch_size,
                learning_rate: 1.0,
                max_seq_length: 128,
                precision: PrecisionChoice::F32,
                adapter: AdapterSizes::default(),
            };
            num_train_steps(n, &resolved)
        };
        assert_eq!(steps(2490, 32, 3.0), 233);
        assert_eq!(steps(3668, 32, 3.0), 343);
        assert_eq!(steps(67_349, 32, 3.0), 6313);
        assert_eq!(steps(5749, 16, 20.0), 7186);
        assert_eq!(steps(3, 32, 1.0), 1);
    }
}
