//! The scores of token classification: precision, recall and F1 of entities.

use std::slice;

use bert_inference::compute::stop_flag::{StopFlag, StopRequested};
use bert_model::BertForTokenClassification;
use bert_tasks::decode::entities::{EntityCounts, score_entities};
use bert_tasks::read::conll::Sentence;
use bert_tasks::statistics::{Ratio, SeedRun, SeedSummary, ratio_interval};
use bert_tasks::{Metric, Scores};

use crate::data::TaskData;
use crate::data::token_classification::{SentenceSet, TokenClassification};
use crate::scoring::TaskScoring;

impl TaskScoring for TokenClassification<'_> {
    /// The tags of every word in every sentence.
    type Answers = Vec<Vec<String>>;

    fn answer(
        &self,
        model: &BertForTokenClassification,
        set: &SentenceSet,
        stop: &StopFlag,
    ) -> Result<Vec<Vec<String>>, StopRequested> {
        let device = self.setup().checkpoint.inference_device();
        set.encoded.tags(&set.sentences, model, &self.names, &device, stop)
    }

    fn score(&self, set: &SentenceSet, answers: &Vec<Vec<String>>) -> Scores {
        let tags: Vec<Vec<String>> = set.sentences.iter().map(|sentence| sentence.tags.clone()).collect();
        let entities = score_entities(&tags, answers);
        let scores = [
            (Metric::F1, entities.f1()),
            (Metric::Precision, entities.precision()),
            (Metric::Recall, entities.recall()),
        ];
        scores.into_iter().collect()
    }

    fn is_degenerate(&self, answers: &Vec<Vec<String>>) -> bool {
        let mut tags = answers.iter().flatten();
        let first = tags.next();
        tags.all(|tag| Some(tag) == first)
    }

    fn summary(&self, set: &SentenceSet, runs: Vec<SeedRun>, answers: &[&Vec<Vec<String>>]) -> SeedSummary {
        let sentences = &set.sentences;
        let f1 = |(sentence, tags): (&Sentence, &Vec<String>)| {
            let EntityCounts { correct, predicted, actual } =
                score_entities(slice::from_ref(&sentence.tags), slice::from_ref(tags));
            Ratio { numerator: 2.0 * correct as f64, denominator: (predicted + actual) as f64 }
        };
        let values = answers.iter().map(|answers| sentences.iter().zip(answers.iter()).map(f1).collect());
        let interval = ratio_interval(Metric::F1, values.collect());
        let summary = SeedSummary::new(&self.setup().config.task, sentences.len(), runs, Scores::default());
        SeedSummary { interval: Some(interval), ..summary }
    }
}
