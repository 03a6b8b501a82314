//! One run of a fine-tuning: one seed, from the checkpoint to a scored classifier.

use bert_model::{BertForSequenceClassification, Mode, classification_loss, regression_loss};
use burn::module::Module;
use burn::tensor::{Device, Tensor, activation};
use serde::{Deserialize, Serialize};

use super::FinetuneEvent;
use super::config::{FinetuneConfig, Resolved, Selection};
use super::features::{ClassificationBatch, Features, SampleOrder};
use super::saved::{Restored, SavedRun};
use crate::error::Error;
use crate::host::{int_vector, values};
use crate::optimizer::AdamW;
use crate::schedule::Schedule;
use crate::stop::StopFlag;
use crate::tasks::{Kind, Label, Scores, is_degenerate, score};
use crate::train_step::{MicroBatchLoss, StepReport, train_step};

const EVAL_BATCH: usize = 64;

/// What every run of a fine-tuning shares.
pub struct Shared<'a> {
    /// The configuration.
    pub config: &'a FinetuneConfig,
    /// Its defaults filled in.
    pub resolved: &'a Resolved,
    /// Training examples.
    pub train: &'a Features,
    /// Dev examples.
    pub dev: &'a Features,
    /// Labels of the dev examples.
    pub dev_labels: &'a [Label],
    /// What is held out of train to choose by, with its labels; without it dev chooses.
    pub held_out: Option<(&'a Features, &'a [Label])>,
    /// Device, with autodiff.
    pub device: &'a Device,
}

/// An epoch of a run, or what was left of the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Finished steps.
    pub step: u64,
    /// Epochs, `step * batch / examples`.
    pub epoch: f64,
    /// Mean training loss of its steps.
    pub train_loss: f64,
    /// Scores on dev after it, when they were taken (`--select last`: at the end only; `--holdout`: never).
    pub dev: Option<Scores>,
    /// Scores on what is held out of train, when they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<Scores>,
}

/// Where a run stands: all that is not in weights and moments.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Finished steps.
    pub(super) step: u64,
    /// Losses of the steps since the last epoch.
    losses: Vec<f64>,
    /// Finished epochs.
    history: Vec<EpochReport>,
    /// Epochs since the best.
    waited: u64,
    /// Epochs until the best state, once there is one.
    pub(super) best_epoch: Option<f64>,
}

/// A state of a run and what it does on the set by which it is chosen.
struct State {
    model: BertForSequenceClassification,
    scores: Scores,
    outputs: Vec<Vec<f32>>,
    predictions: Vec<Label>,
    epoch: f64,
}

/// A finished run.
pub struct Finished {
    /// The chosen state, without autodiff.
    pub model: BertForSequenceClassification,
    /// Its scores on dev.
    pub scores: Scores,
    /// Its outputs on dev: probabilities, or the score.
    pub outputs: Vec<Vec<f32>>,
    /// Its predictions on dev.
    pub predictions: Vec<Label>,
    /// Its scores on what is held out of train.
    pub held_out: Option<Scores>,
    /// Epochs trained when it was reached.
    pub epoch: f64,
    /// Whether `--patience` ended the run.
    pub stopped_early: bool,
    /// Whether it gives one answer to everything.
    pub degenerate: bool,
    /// Every epoch, in order.
    pub history: Vec<EpochReport>,
}

/// Trains `model` from `seed`, or goes on where `saved` stands, and scores it.
///
/// # Errors
/// [`Error::NotFinite`], [`Error::Stopped`] after a checkpoint when a stop was asked for, and errors of writing one.
pub(super) fn run_seed(
    shared: &Shared<'_>,
    seed: u64,
    model: BertForSequenceClassification,
    saved: &mut SavedRun<'_>,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<Finished, Error> {
    let Shared { config, resolved, train, device, .. } = shared;
    let (batch_size, examples) = (resolved.train_batch_size as u64, train.len() as u64);
    let schedule = schedule(shared);
    let steps = schedule.total_steps;
    let mut optimizer = AdamW::new(config.optimizer(), &model);
    let Restored { mut model, progress: mut at, best } =
        saved.restore(model, &mut optimizer, device, tell)?;
    let mut best = best.map(|(model, epoch)| evaluate_state(shared, model, epoch));
    // A frozen encoder in evaluation mode gives the same pooled output every epoch: it is computed once.
    let pooled = config.freeze_encoder.then(|| pooled_outputs(&model.clone().valid(), train, device));
    let mut order = SampleOrder::new(seed, train.len());
    let mut stopped_early = false;

    while at.step < steps && !stopped_early {
        let batch = order.batch(at.step * batch_size, resolved.train_batch_size);
        let micro_batches = train.micro_batches(&batch, config.gradient_accumulation_steps as usize);
        let loss = |model: &BertForSequenceClassification, batch: &ClassificationBatch, mode: Mode| {
            let logits = match &pooled {
                Some(table) => model.classify(table.clone().select(0, batch.rows(device)), mode),
                None => model.forward(batch.input(device), mode),
            };
            MicroBatchLoss { total: task_loss(shared, logits, batch, batch_size as f64), parts: vec![] }
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
        let epoch_ends = last || seen / examples != (seen - batch_size) / examples;
        if epoch_ends {
            let epoch = seen as f64 / examples as f64;
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
    Ok(Finished { stopped_early, history: at.history, ..finished(shared, best) })
}

/// Notes an epoch, and scores the state after it where that is asked for.
fn end_epoch(
    shared: &Shared<'_>,
    model: &BertForSequenceClassification,
    (seed, epoch, last): (u64, f64, bool),
    at: &mut Progress,
    best: &mut Option<State>,
    tell: &mut dyn FnMut(FinetuneEvent),
) {
    let train_loss = at.losses.iter().sum::<f64>() / at.losses.len() as f64;
    at.losses.clear();
    let mut report = EpochReport { step: at.step, epoch, train_loss, dev: None, held_out: None };
    if last || shared.config.select == Selection::Best {
        let state = evaluate_state(shared, model.clone().valid(), epoch);
        let (scores, held_out) = (state.scores.clone(), shared.held_out.is_some());
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
fn finished(shared: &Shared<'_>, best: State) -> Finished {
    let held_out = shared.held_out.map(|_| best.scores.clone());
    let best = match held_out {
        Some(_) => scored(shared, best.model, best.epoch, (shared.dev, shared.dev_labels)),
        None => best,
    };
    let State { model, scores, outputs, predictions, epoch } = best;
    let degenerate = is_degenerate(&predictions);
    let (stopped_early, history) = (false, Vec::new());
    Finished { model, scores, outputs, predictions, held_out, epoch, stopped_early, degenerate, history }
}

/// By the task's main metric; an undefined score (NaN) never beats one that is there.
fn is_better(shared: &Shared<'_>, state: &State, best: &State) -> bool {
    let primary = |state: &State| state.scores.get(shared.config.task.spec().primary).unwrap_or(f64::NAN);
    primary(state) > primary(best) || (primary(best).is_nan() && !primary(state).is_nan())
}

fn schedule(shared: &Shared<'_>) -> Schedule {
    let total_steps = num_train_steps(shared.train.len(), shared.resolved);
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

/// The batch's share of the loss of a step over `rows` examples.
fn task_loss(shared: &Shared<'_>, logits: Tensor<2>, batch: &ClassificationBatch, rows: f64) -> Tensor<1> {
    match shared.config.task.spec().kind {
        Kind::Classification { .. } => classification_loss(logits, batch.classes(shared.device), rows),
        Kind::Regression { .. } => regression_loss(logits, batch.scores(shared.device), rows),
    }
}

/// A state, given without autodiff, and what it does on the set that chooses.
fn evaluate_state(shared: &Shared<'_>, model: BertForSequenceClassification, epoch: f64) -> State {
    scored(shared, model, epoch, shared.held_out.unwrap_or((shared.dev, shared.dev_labels)))
}

fn scored(
    shared: &Shared<'_>,
    model: BertForSequenceClassification,
    epoch: f64,
    (features, labels): (&Features, &[Label]),
) -> State {
    let kind = shared.config.task.spec().kind;
    let outputs = predict(&model, features, kind, shared.device);
    let predictions = decide(&outputs, kind);
    let scores = score(shared.config.task, &predictions, labels);
    State { model, scores, outputs, predictions, epoch }
}

/// Class probabilities of every example in order; for a regression the score.
pub fn predict(
    model: &BertForSequenceClassification,
    features: &Features,
    kind: Kind,
    device: &Device,
) -> Vec<Vec<f32>> {
    let device = device.clone().inner();
    let mut rows = vec![Vec::new(); features.len()];
    for examples in features.by_length(EVAL_BATCH) {
        let batch = features.batch(examples);
        let logits = model.forward(batch.input(&device), Mode::Eval);
        let outputs = match kind {
            Kind::Classification { .. } => activation::softmax(logits, 1),
            Kind::Regression { .. } => logits,
        };
        let [_, width] = outputs.dims();
        for (&example, row) in batch.examples.iter().zip(values(outputs).chunks(width)) {
            rows[example] = row.to_vec();
        }
    }
    rows
}

/// The prediction of each row: the most probable class (of equals the lowest), or the score.
pub fn decide(rows: &[Vec<f32>], kind: Kind) -> Vec<Label> {
    let class = |row: &Vec<f32>| {
        let better = |best: usize, i: usize| if row[i] > row[best] { i } else { best };
        Label::Class((1..row.len()).fold(0, better))
    };
    match kind {
        Kind::Classification { .. } => rows.iter().map(class).collect(),
        Kind::Regression { .. } => rows.iter().map(|row| Label::Score(row[0])).collect(),
    }
}

/// The pooled output of every example, `[examples, hidden]`, on the training device.
fn pooled_outputs(model: &BertForSequenceClassification, features: &Features, device: &Device) -> Tensor<2> {
    let plain = device.clone().inner();
    let mut parts = Vec::new();
    let mut place = vec![0i32; features.len()];
    let mut done = 0;
    for examples in features.by_length(EVAL_BATCH) {
        let batch = features.batch(examples);
        for &example in &batch.examples {
            place[example] = done;
            done += 1;
        }
        parts.push(model.pooled(batch.input(&plain)));
    }
    let rows = int_vector(&place, &plain);
    Tensor::cat(parts, 0).select(0, rows).autodiff()
}

#[cfg(test)]
mod tests {
    use super::super::adapter::AdapterSizes;
    use super::*;
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

    #[test]
    fn ties_go_to_the_lowest_class() {
        let kind = Kind::Classification { labels: &["a", "b", "c"] };
        let rows = [vec![0.4, 0.4, 0.2], vec![0.1, 0.2, 0.7]];
        assert_eq!(decide(&rows, kind), [Label::Class(0), Label::Class(2)]);
    }
}
