//! Implements the objective of question answering: where in a text the answer begins and ends.

use std::collections::{BTreeMap, HashMap};

use bert_model::{BertConfig, BertForQuestionAnswering, Mode, span_loss};
use bert_storage::digest_bytes;
use burn::tensor::Tensor;
use serde_json::{Map, Value, json};

use super::Objective;
use super::Part;
use crate::error::Error;
use crate::finetune::output::Output;
use crate::finetune::questions::QuestionSettings;
use crate::finetune::setup::Setup;
use crate::finetune::subset::{TrainingParts, divide};
use crate::host::int_vector;
use crate::padding::PaddedBatch;
use crate::question_answering::answers::PredictedAnswer;
use crate::question_answering::inputs::EncodedQuestions;
use crate::question_answering::metrics::{question_scores, score_answers};
use crate::question_answering::squad::{Question, QuestionSet, read_questions};
use crate::significance::mean_interval;
use crate::tasks::{Kind, Metric, Scores, SeedRun, SeedSummary, Split, TaskError};

/// Questions as the file has them and as the model sees them.
struct Questions {
    set: QuestionSet,
    encoded: EncodedQuestions,
}

impl Questions {
    fn new(set: QuestionSet, setup: Setup<'_>, settings: &QuestionSettings) -> Self {
        Self { encoded: EncodedQuestions::new(&set.questions, setup.text, settings.windows), set }
    }

    fn digest(&self) -> String {
        digest_bytes(format!("{:?}", self.set).as_bytes())
    }
}

/// Some windows and where in each the answer begins and ends.
pub(in crate::finetune) struct SpanBatch {
    padded: PaddedBatch,
    starts: Vec<i32>,
    ends: Vec<i32>,
}

/// A task of questions on texts.
pub(in crate::finetune) struct Spans<'a> {
    setup: Setup<'a>,
    settings: QuestionSettings,
    train: Questions,
    training: TrainingParts,
    parts: BTreeMap<Part, Questions>,
    to_predict: Option<Questions>,
}

impl<'a> Spans<'a> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// When one of them is missing or bad; [`TaskError::Unanswerable`] for a question without an answer in version 1.1.
    pub(in crate::finetune) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let version_2 = setup.config.task.spec().kind == Kind::Spans { version_2: true };
        let settings = setup.config.question_settings()?.expect("a task of questions");
        let read = |path: &std::path::Path, has_answers| -> Result<QuestionSet, Error> {
            let set = read_questions(path, has_answers)?;
            match set.questions.iter().find(|question| question.is_impossible && !version_2) {
                Some(Question { id, .. }) => {
                    Err(TaskError::Unanswerable { path: path.into(), id: id.clone() }.into())
                }
                None => Ok(QuestionSet { version_2, ..set }),
            }
        };
        let questions = |set| Questions::new(set, setup, &settings);
        let all = read(&setup.needed_file(Split::Train)?.path, true)?;
        let (train, held_out, training) = divide(setup.config, all.questions)?;
        let set = |questions| QuestionSet { questions, version_2 };
        let mut parts = BTreeMap::new();
        if training.held_out > 0 {
            parts.insert(Part::HeldOut, questions(set(held_out)));
        }
        parts.insert(Part::Dev, questions(read(&setup.needed_file(Split::Dev)?.path, true)?));
        if let Some(file) = setup.labelled_file(Split::Test)? {
            parts.insert(Part::Test, questions(read(&file.path, true)?));
        }
        let to_predict = setup.config.predict.as_ref().map(|path| read(path, false)).transpose()?;
        Ok(Self {
            train: questions(set(train)),
            training,
            parts,
            to_predict: to_predict.map(questions),
            settings,
            setup,
        })
    }

    /// The answer to every question.
    fn answers(&self, model: &BertForQuestionAnswering, of: &Questions) -> Vec<PredictedAnswer> {
        of.encoded.answers(&of.set.questions, model, self.settings.answers, &self.setup.plain())
    }

    /// Writes answers in the official form, with what else speaks for or against them.
    fn write(
        &self,
        output: &Output<'_>,
        stem: &str,
        of: &Questions,
        answers: &[PredictedAnswer],
    ) -> Result<(), Error> {
        let by_id = |value: &dyn Fn(&PredictedAnswer) -> Value| -> Value {
            let entries = of.set.questions.iter().zip(answers);
            Value::Object(entries.map(|(q, a)| (q.id.clone(), value(a))).collect::<Map<_, _>>())
        };
        let mut files = vec![
            ("predictions.json", by_id(&|answer| json!(answer.text))),
            ("nbest_predictions.json", by_id(&|answer| json!(answer.n_best))),
        ];
        if self.settings.answers.null_threshold.is_some() {
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

impl Objective for Spans<'_> {
    type Model = BertForQuestionAnswering;
    type Batch = SpanBatch;
    /// One for each question.
    type Answers = Vec<PredictedAnswer>;

    fn model_config(&self, checkpoint: BertConfig) -> BertConfig {
        checkpoint
    }

    /// Windows, not questions.
    fn items(&self) -> usize {
        self.train.encoded.windows()
    }

    fn training(&self) -> TrainingParts {
        self.training
    }

    fn batch(&self, items: &[usize]) -> SpanBatch {
        let target = |&window: &usize| {
            let (start, end) = self.train.encoded.window(window).target;
            (start as i32, end as i32)
        };
        let (starts, ends) = items.iter().map(target).unzip();
        SpanBatch { padded: self.train.encoded.batch(items), starts, ends }
    }

    fn targets(&self, batch: &SpanBatch) -> usize {
        batch.starts.len()
    }

    fn loss(
        &self,
        model: &BertForQuestionAnswering,
        _frozen: Option<&Tensor<2>>,
        batch: &SpanBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let device = self.setup.device;
        let input = batch.padded.input(device);
        let logits = match self.setup.config.freeze_encoder {
            true => model.forward_frozen(input),
            false => model.forward(input, mode),
        };
        span_loss(logits, int_vector(&batch.starts, device), int_vector(&batch.ends, device), targets as f64)
    }

    fn has(&self, part: Part) -> bool {
        self.parts.contains_key(&part)
    }

    fn answer(&self, model: &BertForQuestionAnswering, part: Part) -> Vec<PredictedAnswer> {
        self.answers(model, &self.parts[&part])
    }

    fn score(&self, part: Part, answers: &Vec<PredictedAnswer>) -> Scores {
        let set = &self.parts[&part].set;
        let answers: HashMap<&str, &str> =
            set.questions.iter().zip(answers).map(|(q, a)| (q.id.as_str(), a.text.as_str())).collect();
        let all = score_answers(set, &answers).all;
        [(Metric::F1, all.f1 / 100.0), (Metric::ExactMatch, all.exact / 100.0)].into_iter().collect()
    }

    fn is_degenerate(&self, answers: &Vec<PredictedAnswer>) -> bool {
        answers.windows(2).all(|pair| pair[0].text == pair[1].text)
    }

    fn summary(&self, part: Part, runs: Vec<SeedRun>, answers: &[&Vec<PredictedAnswer>]) -> SeedSummary {
        let set = &self.parts[&part].set;
        // One answer that is right where there is none.
        let nothing: HashMap<&str, &str> = set.questions.iter().map(|q| (q.id.as_str(), "")).collect();
        let nothing = score_answers(set, &nothing).all;
        let baseline =
            [(Metric::F1, nothing.f1 / 100.0), (Metric::ExactMatch, nothing.exact / 100.0)].into_iter();
        let f1 = |answers: &&Vec<PredictedAnswer>| -> Vec<f64> {
            let questions = set.questions.iter().zip(answers.iter());
            questions.map(|(q, a)| question_scores(set.version_2, q, &a.text).1).collect()
        };
        let values: Vec<Vec<f64>> = answers.iter().map(f1).collect();
        let task = self.setup.config.task;
        let summary = SeedSummary::new(task, set.questions.len(), runs, baseline.collect());
        SeedSummary { interval: Some(mean_interval(Metric::F1, values)), ..summary }
    }

    fn train_digest(&self) -> String {
        self.train.digest()
    }

    fn digest(&self, part: Part) -> Option<String> {
        self.parts.get(&part).map(Questions::digest)
    }

    fn write_dev(&self, output: &Output<'_>, runs: &[(u64, &Vec<PredictedAnswer>)]) -> Result<(), Error> {
        let dev = &self.parts[&Part::Dev];
        runs.iter()
            .try_for_each(|(seed, answers)| self.write(output, &format!("seed-{seed}/dev_"), dev, answers))
    }

    fn write_predictions(&self, output: &Output<'_>, model: &BertForQuestionAnswering) -> Result<(), Error> {
        let Some(questions) = &self.to_predict else { return Ok(()) };
        self.write(output, "", questions, &self.answers(model, questions))
    }

    fn save_model(
        &self,
        output: &Output<'_>,
        model: &BertForQuestionAnswering,
        model_config: &BertConfig,
    ) -> Result<(), Error> {
        output.save_model("model", model, model_config, self.setup.text)
    }
}
