//! A model with its scores, and the comparison of scores.

use bert_inference::StopFlag;

use crate::data::datasets::Part;
use crate::kinds::{FinetuneTask, ScoredAnswers};

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
