//! The scores of a fine-tuned model: predicts the labelled parts of a task and compares the predictions with the
//! labels.

pub(crate) mod classification;
pub(crate) mod question_answering;
pub(crate) mod token_classification;

use std::collections::BTreeMap;

use bert_inference::compute::stop_flag::{StopFlag, StopRequested};
use bert_tasks::Scores;
use bert_tasks::statistics::{Calibration, SeedRun, SeedSummary};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::data::datasets::Part;
use crate::model::TaskModel;

/// A run's answers to every labelled part except the held-out examples.
pub(crate) type PartAnswers<T> = BTreeMap<Part, <T as TaskScoring>::Answers>;

/// A model's answers to a part, and their scores.
#[derive(Clone)]
pub(crate) struct ScoredAnswers<A> {
    pub(crate) answers: A,
    pub(crate) scores: Scores,
}

/// The answers and scores of a task's models.
pub(crate) trait TaskScoring: TaskModel {
    /// A model's answers to a set.
    type Answers: Clone + Serialize + DeserializeOwned;

    /// Returns the answers of a model without autodiff.
    fn answer(
        &self,
        model: &Self::Model,
        set: &Self::Set,
        stop: &StopFlag,
    ) -> Result<Self::Answers, StopRequested>;

    /// Returns the scores of answers.
    fn score(&self, set: &Self::Set, answers: &Self::Answers) -> Scores;

    /// Returns the answers of a model without autodiff to a part, and their scores.
    fn answer_and_score(
        &self,
        model: &Self::Model,
        part: Part,
        stop: &StopFlag,
    ) -> Result<ScoredAnswers<Self::Answers>, StopRequested> {
        let answers = self.answer(model, self.part(part), stop)?;
        let scores = self.score(self.part(part), &answers);
        Ok(ScoredAnswers { answers, scores })
    }

    /// Returns whether all answers are the same.
    fn is_degenerate(&self, answers: &Self::Answers) -> bool;

    /// Returns a further remark on a run's scores on dev, for the report.
    fn remark(&self, _dev: &Self::Answers) -> Option<String> {
        None
    }

    /// Returns the confusion matrix on dev: rows are true classes, columns are predictions.
    fn confusion(&self, _dev: &Self::Answers) -> Option<Vec<Vec<u64>>> {
        None
    }

    /// Returns the calibration on dev.
    fn calibration(&self, _dev: &Self::Answers) -> Option<Calibration> {
        None
    }

    /// Returns the summary of the runs' scores on a set; `answers` has the answers of each run.
    fn summary(&self, set: &Self::Set, runs: Vec<SeedRun>, answers: &[&Self::Answers]) -> SeedSummary;
}
