//! Implements extractive question answering: predicts where in a text the answer begins and ends.

use std::path::Path;

use bert_model::{BertForQuestionAnswering, Mode, span_loss};
use bert_storage::digest_bytes;
use burn::tensor::Tensor;
use serde_json::{Map, Value, json};

use super::{Objective, TokenBatch};
use crate::encoding::questions::EncodedQuestions;
use crate::error::Error;
use crate::finetune::model::pretrained::{Opened, Setup};
use crate::finetune::objectives::datasets::{Purpose, Sets};
use crate::finetune::output::Output;
use crate::training::stop_flag::{StopFlag, StopRequested};
use bert_storage::Locate;
use bert_tasks::decode::answer_spans::{AnswerSettings, PredictedAnswer};
use bert_tasks::read::squad::{Question, read_questions};
use bert_tasks::score::squad_metrics::question_scores;
use bert_tasks::statistics::{SeedRun, SeedSummary, share_interval};
use bert_tasks::{Kind, Metric, Scores, TaskError, TaskProblem};

/// Questions as text and as tokens.
pub(in crate::finetune) struct Questions {
    questions: Vec<Question>,
    /// Whether some questions have no answer (SQuAD 2.0).
    version_2: bool,
    encoded: EncodedQuestions,
}

/// The objective of question answering.
pub(in crate::finetune) struct Spans<'a> {
    sets: Sets<'a, Questions>,
    answers: AnswerSettings,
}

impl<'a> Spans<'a> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// When a file is missing or invalid; [`TaskProblem::Unanswerable`] for a question without an answer in version
    /// 1.1.
    pub(in crate::finetune) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let version_2 = setup.config.task.spec().kind == Kind::Spans { version_2: true };
        let (windows, answers) = setup.config.question_settings()?.expect("a task of questions");
        let read = |path: &Path, purpose| -> Result<Vec<Question>, Error> {
            let questions = read_questions(path, purpose != Purpose::Predict)?;
            match questions.iter().find(|question| question.is_impossible && !version_2) {
                Some(Question { id, .. }) => {
                    Err(TaskError::from(TaskProblem::Unanswerable(id.clone()).located(path)).into())
                }
                None => Ok(questions),
            }
        };
        let set = |questions: Vec<Question>| Questions {
            encoded: EncodedQuestions::new(&questions, &setup.opened.text, windows),
            questions,
            version_2,
        };
        Ok(Self { sets: Sets::read(setup, read, set)?, answers })
    }
}

impl Questions {
    /// Returns exact match and F1 of one answer per question, in order.
    fn each_scored<'a>(&self, answers: impl Iterator<Item = &'a str>) -> Vec<(f64, f64)> {
        self.questions.iter().zip(answers).map(|(q, a)| question_scores(self.version_2, q, a)).collect()
    }

    /// Returns the means of exact match and F1.
    fn scores<'a>(&self, answers: impl Iterator<Item = &'a str>) -> Scores {
        let each = self.each_scored(answers);
        let mean = |of: fn(&(f64, f64)) -> f64| each.iter().map(of).sum::<f64>() / each.len() as f64;
        [(Metric::F1, mean(|each| each.1)), (Metric::ExactMatch, mean(|each| each.0))].into_iter().collect()
    }
}

fn texts(answers: &[PredictedAnswer]) -> impl Iterator<Item = &str> {
    answers.iter().map(|answer| answer.text.as_str())
}

impl Objective for Spans<'_> {
    type Model = BertForQuestionAnswering;
    type Set = Questions;
    /// Windows, with the start and end of the answer in each.
    type Batch = TokenBatch;
    /// One answer per question.
    type Answers = Vec<PredictedAnswer>;

    fn sets(&self) -> &Sets<'_, Questions> {
        &self.sets
    }

    /// Counts windows, not questions.
    fn items(&self) -> usize {
        self.sets.train.encoded.windows()
    }

    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> (TokenBatch, usize) {
        let encoded = &self.sets.train.encoded;
        let target = |&window: &usize| {
            let (start, end) = encoded.window(window).target;
            (start as i32, end as i32)
        };
        let (starts, ends) = items.iter().map(target).unzip();
        let padded = encoded.batch(items, encoded.padded_length(whole));
        (TokenBatch { padded, targets: [starts, ends] }, items.len())
    }

    fn loss(
        &self,
        model: &BertForQuestionAnswering,
        _frozen: Option<&Tensor<2>>,
        batch: &TokenBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let Setup { config, opened: Opened { device, .. }, .. } = self.setup();
        let input = batch.padded.input(device);
        let logits = match config.freeze_encoder {
            true => model.forward_frozen(input),
            false => model.forward(input, mode),
        };
        let [starts, ends] = batch.targets(device);
        span_loss(logits, starts, ends, targets as f64)
    }

    /// Loss of a uniform distribution over the tokens.
    fn guessing_loss(&self) -> f64 {
        (self.setup().max_seq_length as f64).ln()
    }

    fn answer(
        &self,
        model: &BertForQuestionAnswering,
        of: &Questions,
        stop: &StopFlag,
    ) -> Result<Vec<PredictedAnswer>, StopRequested> {
        of.encoded.answers(&of.questions, model, self.answers, &self.setup().opened.plain(), stop)
    }

    fn score(&self, of: &Questions, answers: &Vec<PredictedAnswer>) -> Scores {
        of.scores(texts(answers))
    }

    fn is_degenerate(&self, answers: &Vec<PredictedAnswer>) -> bool {
        answers.windows(2).all(|pair| pair[0].text == pair[1].text)
    }

    fn summary(&self, of: &Questions, runs: Vec<SeedRun>, answers: &[&Vec<PredictedAnswer>]) -> SeedSummary {
        // Baseline: always "no answer".
        let baseline = of.scores(std::iter::repeat(""));
        let f1 = |answers: &&Vec<PredictedAnswer>| -> Vec<(f64, f64)> {
            of.each_scored(texts(answers)).into_iter().map(|(_, f1)| (f1, 1.0)).collect()
        };
        let values = answers.iter().map(f1).collect();
        let summary = SeedSummary::new(self.setup().config.task, of.questions.len(), runs, baseline);
        SeedSummary { interval: Some(share_interval(Metric::F1, values)), ..summary }
    }

    fn digest(of: &Questions) -> String {
        let Questions { questions, version_2, .. } = of;
        // This text must not change: the digests in existing reports depend on it.
        let set = format!("QuestionSet {{ questions: {questions:?}, version_2: {version_2} }}");
        digest_bytes(set.as_bytes())
    }

    /// Writes the answers in the official format, with the n-best lists and the "no answer" scores.
    fn write(
        &self,
        output: &Output,
        stem: &str,
        of: &Questions,
        answers: &Vec<PredictedAnswer>,
    ) -> Result<(), Error> {
        let by_id = |value: &dyn Fn(&PredictedAnswer) -> Value| -> Value {
            let entries = of.questions.iter().zip(answers);
            Value::Object(entries.map(|(q, a)| (q.id.clone(), value(a))).collect::<Map<_, _>>())
        };
        let mut files = vec![
            ("predictions.json", by_id(&|answer| json!(answer.text))),
            ("nbest_predictions.json", by_id(&|answer| json!(answer.n_best))),
        ];
        if self.answers.null_threshold.is_some() {
            files.push(("null_odds.json", by_id(&|answer| json!(answer.null_score_difference))));
        }
        files.into_iter().try_for_each(|(name, json)| {
            output.write(&format!("{stem}{name}"), |out| {
                serde_json::to_writer_pretty(&mut *out, &json)?;
                writeln!(out)
            })
        })
    }
}
