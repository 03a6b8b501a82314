//! The scores of classification, regression and multiple choice.

use bert_inference::compute::stop_flag::{StopFlag, StopRequested};
use bert_inference::encoding::classifier::{decide, predict_unless_stopped};
use bert_tasks::statistics::{Calibration, SeedRun, SeedSummary, calibration};
use bert_tasks::{Kind, Label, Scores, confusion, is_degenerate, majority_baseline, score};
use serde::{Deserialize, Serialize};

use crate::data::TaskData;
use crate::data::classification::{Classification, LabelledExamples};
use crate::data::datasets::Part;
use crate::model::classification::AdapterSupport;
use crate::scoring::TaskScoring;

/// A model's predictions for labelled examples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LabelAnswers {
    pub(crate) labels: Vec<Label>,
    /// Class probabilities, or the score.
    pub(crate) outputs: Vec<Vec<f32>>,
}

impl<M: AdapterSupport> TaskScoring for Classification<'_, M> {
    type Answers = LabelAnswers;

    fn answer(
        &self,
        model: &M,
        set: &LabelledExamples,
        stop: &StopFlag,
    ) -> Result<LabelAnswers, StopRequested> {
        let (model, device) = (self.with_original_scale(model), self.setup().checkpoint.inference_device());
        let outputs = predict_unless_stopped(&model, &set.features, self.kind(), &device, stop)?;
        Ok(LabelAnswers { labels: decide(&outputs, self.kind()), outputs })
    }

    fn score(&self, set: &LabelledExamples, answers: &LabelAnswers) -> Scores {
        score(self.task(), &answers.labels, &set.labels)
    }

    fn is_degenerate(&self, answers: &LabelAnswers) -> bool {
        is_degenerate(&answers.labels)
    }

    /// Returns a remark on scores outside the range to which prediction files clip them.
    fn remark(&self, dev: &LabelAnswers) -> Option<String> {
        let Kind::Regression { min, max } = self.kind() else { return None };
        let is_outside =
            |label: &&Label| matches!(label, Label::Score(score) if !(min..=max).contains(score));
        let (outside, all) = (dev.labels.iter().filter(is_outside).count(), dev.labels.len());
        (2 * outside > all).then(|| {
            format!(
                "{outside} of {all} predictions on dev are outside the range of the labels, {min} to {max}; files of \
                 predictions clip them"
            )
        })
    }

    fn confusion(&self, dev: &LabelAnswers) -> Option<Vec<Vec<u64>>> {
        confusion(self.task(), &dev.labels, &self.part(Part::Dev).labels)
    }

    fn calibration(&self, dev: &LabelAnswers) -> Option<Calibration> {
        calibration(&self.part(Part::Dev).labels, &dev.labels, &dev.outputs)
    }

    fn summary(&self, set: &LabelledExamples, runs: Vec<SeedRun>, answers: &[&LabelAnswers]) -> SeedSummary {
        let majority = majority_baseline(self.task(), &set.labels);
        let answers: Vec<&[Label]> = answers.iter().map(|answers| answers.labels.as_slice()).collect();
        let summary = SeedSummary::new(self.task(), set.examples.len(), runs, majority);
        summary.with_interval(&set.labels, &answers)
    }
}
