//! Defines the result of one run: its report, its answers and its model, and the comparison of scores.

use std::collections::BTreeMap;

use bert_inference::StopFlag;
use bert_tasks::{Calibration, Metric, Scores};
use bert_training::MaskedLmScores;
use serde::{Deserialize, Serialize};

use crate::data::datasets::Part;
use crate::kinds::{FinetuneTask, ScoredAnswers};

/// One epoch of a run; the last may be partial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Finished steps.
    pub step: u64,
    /// Epochs trained, `step * batch / examples`.
    pub epoch: f64,
    /// Mean training loss of the epoch's steps; `None` if it had no step, as can happen with several tasks.
    pub train_loss: Option<f64>,
    /// Scores on dev after the epoch, if evaluated (`--select last`: at the end only; `--holdout`: never).
    pub dev: Option<Scores>,
    /// Scores on the held-out part of train, if evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<Scores>,
    /// Masked-LM scores after the epoch, with `--forgetting-data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masked_lm: Option<MaskedLmScores>,
}

/// One run in the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The seed of the run.
    pub seed: u64,
    /// Epochs trained at the selected state.
    pub epoch: f64,
    /// Whether `--patience` ended the run before its last epoch.
    pub stopped_early: bool,
    /// Whether the run's training loss ended far above the loss of a uniform prediction.
    pub diverged: bool,
    /// Scores on the held-out part of train, which selected the state.
    pub held_out: Option<Scores>,
    /// Scores on dev.
    pub dev: Scores,
    /// Scores on the second dev set, if the task has one.
    pub dev_mismatched: Option<Scores>,
    /// Scores on test, if its labels are published.
    pub test: Option<Scores>,
    /// Confusion matrix on dev: rows are true classes, columns are predictions; `None` unless the task has classes.
    pub confusion: Option<Vec<Vec<u64>>>,
    /// Calibration on dev; `None` unless the task has classes.
    pub calibration: Option<Calibration>,
    /// Training loss and scores on dev for each epoch.
    pub history: Vec<EpochReport>,
}

impl RunReport {
    /// Returns the value of `metric` by which states, runs and cells are selected: on the held-out part of train if
    /// there is one, else on dev. It is NaN if the metric is missing.
    pub(crate) fn selection_score(&self, metric: Metric) -> f64 {
        self.held_out.as_ref().unwrap_or(&self.dev).get(metric).unwrap_or(f64::NAN)
    }

    /// Returns the scores on a part, if it was scored.
    pub(crate) fn scores(&self, part: Part) -> Option<&Scores> {
        match part {
            Part::HeldOut => self.held_out.as_ref(),
            Part::Dev => Some(&self.dev),
            Part::DevMismatched => self.dev_mismatched.as_ref(),
            Part::Test => self.test.as_ref(),
        }
    }
}

/// A finished run.
pub(crate) struct FinishedRun<T: FinetuneTask> {
    pub(crate) report: RunReport,
    pub(crate) answers: BTreeMap<Part, T::Answers>,
    /// The model without autodiff; `None` if another run is better and its model was dropped.
    pub(crate) model: Option<T::Model>,
}

/// A model and its answers to one part.
pub(crate) struct ScoredModel<T: FinetuneTask> {
    /// The model, without autodiff.
    pub(crate) model: T::Model,
    pub(crate) scored: ScoredAnswers<T::Answers>,
    /// Epochs trained.
    pub(crate) epoch: f64,
}

impl<T: FinetuneTask> ScoredModel<T> {
    /// Scores a model on a part.
    pub(crate) fn new(
        task: &T,
        model: T::Model,
        epoch: f64,
        part: Part,
        stop: &StopFlag,
    ) -> Result<Self, bert_inference::Error> {
        let scored = task.answer_and_score(&model, part, stop)?;
        Ok(Self { model, scored, epoch })
    }
}

impl<T: FinetuneTask> Clone for ScoredModel<T> {
    fn clone(&self) -> Self {
        Self { model: self.model.clone(), scored: self.scored.clone(), epoch: self.epoch }
    }
}

/// Returns whether `score` is better. Ties keep the earlier state, and an undefined score never beats a defined one.
pub(crate) fn is_better(score: f64, best: f64) -> bool {
    score > best || (best.is_nan() && !score.is_nan())
}
