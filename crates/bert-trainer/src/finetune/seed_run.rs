//! One run of a fine-tuning: one seed, from the checkpoint to a scored classifier.

use bert_model::{BertForSequenceClassification, Mode, classification_loss, regression_loss};
use burn::module::Module;
use burn::tensor::{Device, Tensor, activation};
use serde::Serialize;

use super::FinetuneEvent;
use super::config::{FinetuneConfig, Resolved, Selection};
use super::features::{ClassificationBatch, Features, SampleOrder};
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
    /// Device, with autodiff.
    pub device: &'a Device,
}

/// An epoch of a run, or what was left of the last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochReport {
    /// Finished steps.
    pub step: u64,
    /// Epochs, `step * batch / examples`.
    pub epoch: f64,
    /// Mean training loss of its steps.
    pub train_loss: f64,
    /// Scores on dev after it, when they were taken (`--select last`: at the end only).
    pub dev: Option<Scores>,
}

/// A state of a run and what it does on dev.
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
    /// Epochs trained when it was reached.
    pub epoch: f64,
    /// Whether it gives one answer to everything.
    pub degenerate: bool,
    /// Every epoch, in order.
    pub history: Vec<EpochReport>,
}

/// Trains `model` from `seed` and scores it.
///
/// # Errors
/// [`Error::NotFinite`], and [`Error::Interrupted`] when a stop was asked for.
pub fn run_seed(
    shared: &Shared<'_>,
    seed: u64,
    model: BertForSequenceClassification,
    stop: &StopFlag,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<Finished, Error> {
    let Shared { config, resolved, train, device, .. } = shared;
    let (batch_size, examples) = (resolved.train_batch_size as u64, train.len() as u64);
    let schedule = schedule(shared);
    let steps = schedule.total_steps;
    let mut model = model;
    // A frozen encoder in evaluation mode gives the same pooled output every epoch: it is computed once.
    let pooled = config.freeze_encoder.then(|| pooled_outputs(&model.clone().valid(), train, device));
    let mut optimizer = AdamW::new(config.optimizer(), &model);
    let mut order = SampleOrder::new(seed, train.len());
    let mut best: Option<State> = None;
    let mut history: Vec<EpochReport> = Vec::new();
    let mut losses = Vec::new();

    for step in 0..steps {
        let batch = train.batch(order.batch(step * batch_size, resolved.train_batch_size));
        let loss = |model: &BertForSequenceClassification, batch: &ClassificationBatch, mode: Mode| {
            let logits = match &pooled {
                Some(table) => model.classify(table.clone().select(0, batch.rows(device)), mode),
                None => model.forward(batch.input(device), mode),
            };
            MicroBatchLoss { total: task_loss(shared, logits, batch), parts: vec![] }
        };
        let learning_rate = schedule.learning_rate(step);
        let (updated, report) =
            train_step(model, &mut optimizer, &[batch], loss, learning_rate, (seed, step));
        model = updated;
        let report = report.map_err(|failure| not_finite(step + 1, &failure.report))?;
        tell(FinetuneEvent::Step { seed, step: step + 1, steps, loss: report.loss });
        if let Some(signal) = stop.requested() {
            return Err(Error::Interrupted { signal });
        }
        losses.push(report.loss);
        let seen = (step + 1) * batch_size;
        let last = step + 1 == steps;
        if !last && seen / examples == (seen - batch_size) / examples {
            continue;
        }
        let epoch = seen as f64 / examples as f64;
        let train_loss = losses.iter().sum::<f64>() / losses.len() as f64;
        losses.clear();
        history.push(EpochReport { step: step + 1, epoch, train_loss, dev: None });
        if last || config.select == Selection::Best {
            let state = evaluate_state(shared, &model, epoch);
            tell(FinetuneEvent::Evaluated { seed, epoch, scores: state.scores.clone() });
            history.last_mut().expect("pushed above").dev = Some(state.scores.clone());
            if best.as_ref().is_none_or(|best| is_better(shared, &state, best)) {
                best = Some(state);
            }
        }
    }
    let State { model, scores, outputs, predictions, epoch } = best.expect("the last step is evaluated");
    let degenerate = is_degenerate(&predictions);
    Ok(Finished { model, scores, outputs, predictions, epoch, degenerate, history })
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

fn task_loss(shared: &Shared<'_>, logits: Tensor<2>, batch: &ClassificationBatch) -> Tensor<1> {
    let rows = batch.examples.len() as f64;
    match shared.config.task.spec().kind {
        Kind::Classification { .. } => classification_loss(logits, batch.classes(shared.device), rows),
        Kind::Regression { .. } => regression_loss(logits, batch.scores(shared.device), rows),
    }
}

fn evaluate_state(shared: &Shared<'_>, model: &BertForSequenceClassification, epoch: f64) -> State {
    let kind = shared.config.task.spec().kind;
    let model = model.clone().valid();
    let outputs = predict(&model, shared.dev, kind, shared.device);
    let predictions = decide(&outputs, kind);
    let scores = score(shared.config.task, &predictions, shared.dev_labels);
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
