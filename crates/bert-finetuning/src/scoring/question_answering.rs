//! The scores of extractive question answering: exact match and F1.

use bert_inference::compute::stop_flag::{StopFlag, StopRequested};
use bert_model::BertForQuestionAnswering;
use bert_tasks::decode::answer_spans::PredictedAnswer;
use bert_tasks::score::squad_metrics::{QuestionScores, question_scores};
use bert_tasks::statistics::{Ratio, SeedRun, SeedSummary, ratio_interval};
use bert_tasks::{Metric, Scores};

use crate::data::TaskData;
use crate::data::question_answering::{QuestionAnswering, QuestionSet};
use crate::scoring::TaskScoring;

impl QuestionSet {
    /// Returns the scores of one answer per question, in order.
    fn answer_scores<'a>(&self, answers: impl Iterator<Item = &'a str>) -> Vec<QuestionScores> {
        let questions = self.questions.iter().zip(answers);
        questions.map(|(question, answer)| question_scores(self.version_2, question, answer)).collect()
    }

    /// Returns the means of exact match and F1.
    fn mean_scores<'a>(&self, answers: impl Iterator<Item = &'a str>) -> Scores {
        let each = self.answer_scores(answers);
        let mean =
            |score: fn(&QuestionScores) -> f64| each.iter().map(score).sum::<f64>() / each.len() as f64;
        let scores =
            [(Metric::F1, mean(|each| each.f1)), (Metric::ExactMatch, mean(|each| each.exact_match))];
        scores.into_iter().collect()
    }
}

fn texts(answers: &[PredictedAnswer]) -> impl Iterator<Item = &str> {
    answers.iter().map(|answer| answer.text.as_str())
}

impl TaskScoring for QuestionAnswering<'_> {
    /// One answer per question.
    type Answers = Vec<PredictedAnswer>;

    fn answer(
        &self,
        model: &BertForQuestionAnswering,
        set: &QuestionSet,
        stop: &StopFlag,
    ) -> Result<Vec<PredictedAnswer>, StopRequested> {
        let device = self.setup().checkpoint.inference_device();
        set.encoded.answers(&set.questions, model, self.answers, &device, stop)
    }

    fn score(&self, set: &QuestionSet, answers: &Vec<PredictedAnswer>) -> Scores {
        set.mean_scores(texts(answers))
    }

    fn is_degenerate(&self, answers: &Vec<PredictedAnswer>) -> bool {
        answers.windows(2).all(|pair| pair[0].text == pair[1].text)
    }

    fn summary(
        &self,
        set: &QuestionSet,
        runs: Vec<SeedRun>,
        answers: &[&Vec<PredictedAnswer>],
    ) -> SeedSummary {
        // Baseline: always "no answer".
        let baseline = set.mean_scores(std::iter::repeat(""));
        let f1 = |answers: &&Vec<PredictedAnswer>| -> Vec<Ratio> {
            let ratio = |scores: &QuestionScores| Ratio { numerator: scores.f1, denominator: 1.0 };
            set.answer_scores(texts(answers)).iter().map(ratio).collect()
        };
        let values = answers.iter().map(f1).collect();
        let summary = SeedSummary::new(&self.setup().config.task, set.questions.len(), runs, baseline);
        SeedSummary { interval: Some(ratio_interval(Metric::F1, values)), ..summary }
    }
}
