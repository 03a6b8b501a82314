//! Extractive question answering: windows of a text, the start and the end of an answer, exact match and F1.

use std::path::Path;

use bert_inference::{EncodedQuestions, StopFlag};
use bert_model::{BertForQuestionAnswering, Mode, span_loss};
use bert_storage::digest_bytes;
use bert_task_files::{ExampleFile, QuestionRules, read_questions};
use bert_tasks::answer_spans::{AnswerSettings, PredictedAnswer};
use bert_tasks::squad_metrics::{AnswerRules, QuestionScores, question_scores};
use bert_tasks::{Error, Kind, Metric, Question, Ratio, Scores, SeedRun, SeedSummary, ratio_interval};
use burn::tensor::Tensor;
use serde_json::{Map, Value, json};

use crate::data::datasets::{Part, Sets};
use crate::files::folder::OutputFolder;
use crate::kinds::{FinetuneTask, MicroBatch, TokenBatch};
use crate::setup::{BaseCheckpoint, Setup};

/// Questions as text and as tokens.
pub(crate) struct QuestionSet {
    pub(crate) questions: Vec<Question>,
    /// The rules by which answers are scored.
    pub(crate) rules: AnswerRules,
    pub(crate) encoded: EncodedQuestions,
}

/// A task that predicts where in a text the answer to a question begins and ends.
pub(crate) struct QuestionAnswering<'a> {
    sets: Sets<'a, QuestionSet>,
    pub(crate) answers: AnswerSettings,
}

impl<'a> QuestionAnswering<'a> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// Fails when a file is missing or invalid, or when a question in a SQuAD 1.1 file has no answer.
    pub(crate) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let version_2 = setup.config.task.spec().kind == Kind::Spans { version_2: true };
        let (windows, answers) = setup.config.question_settings()?.expect("a task of questions");
        let read = |path: &Path, labels, _| -> Result<ExampleFile<Question>, Error> {
            let skip_misplaced = setup.config.squad.skip_misplaced_answers;
            let file = read_questions(path, QuestionRules { labels, skip_misplaced })?;
            match file.examples.iter().find(|question| question.is_impossible && !version_2) {
                Some(Question { id, .. }) => Err(Error::data(format!(
                    "question {id} has no answer in its text: this is SQuAD 2.0, use `.task squad2`"
                ))
                .at(path)),
                None => Ok(file),
            }
        };
        let set = |questions: Vec<Question>| QuestionSet {
            encoded: EncodedQuestions::new(&questions, &setup.checkpoint.tokenizer, windows),
            rules: AnswerRules::new(version_2, &questions),
            questions,
        };
        let mut sets = Sets::read(setup, read, set)?;
        let by_character = sets.parts.iter().filter(|(_, set)| set.rules.by_character);
        let rule = |part: &Part| {
            format!(
                "F1 and exact match of {part} compare characters of ideographic answers, as the scripts of MLQA and CMRC 2018 do; \
                 SQuAD's script compares words between blanks"
            )
        };
        let rules: Vec<String> = by_character.map(|(part, _)| rule(part)).collect();
        sets.notes.extend(rules);
        Ok(Self { sets, answers })
    }
}

impl QuestionSet {
    /// Returns the scores of one answer per question, in order.
    fn answer_scores<'a>(&self, answers: impl Iterator<Item = &'a str>) -> Vec<QuestionScores> {
        let questions = self.questions.iter().zip(answers);
        questions.map(|(question, answer)| question_scores(self.rules, question, answer)).collect()
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

impl FinetuneTask for QuestionAnswering<'_> {
    type Set = QuestionSet;
    type Model = BertForQuestionAnswering;
    /// Windows, with the start and end of the answer in each.
    type Batch = TokenBatch;
    /// One answer per question.
    type Answers = Vec<PredictedAnswer>;

    fn sets(&self) -> &Sets<'_, QuestionSet> {
        &self.sets
    }

    /// Returns the number of windows, not of questions.
    fn items(&self) -> usize {
        self.sets.train.encoded.windows()
    }

    fn digest(set: &QuestionSet) -> String {
        let QuestionSet { questions, rules: AnswerRules { version_2, .. }, .. } = set;
        // This text must not change: the digests in existing reports depend on it.
        let set = format!("QuestionSet {{ questions: {questions:?}, version_2: {version_2} }}");
        digest_bytes(set.as_bytes())
    }

    fn micro_batch(&self, items: &[usize], whole: &[usize]) -> MicroBatch<TokenBatch> {
        let encoded = &self.sets().train.encoded;
        let target = |&window: &usize| {
            let (start, end) = encoded.window(window).target;
            (start as i32, end as i32)
        };
        let (starts, ends) = items.iter().map(target).unzip();
        let padded = encoded.batch(items, encoded.padded_length(whole));
        MicroBatch { batch: TokenBatch { padded, targets: [starts, ends] }, targets: items.len() }
    }

    fn loss(
        &self,
        model: &BertForQuestionAnswering,
        _frozen: Option<&Tensor<2>>,
        batch: &TokenBatch,
        targets: usize,
        mode: Mode,
    ) -> Tensor<1> {
        let Setup { config, checkpoint: BaseCheckpoint { device, .. }, .. } = self.setup();
        let input = batch.padded.input(device);
        let logits =
            if config.freeze_encoder { model.forward_frozen(input) } else { model.forward(input, mode) };
        let [starts, ends] = batch.targets(device);
        span_loss(logits, starts, ends, targets as f64)
    }

    /// Returns the loss of a uniform distribution over the tokens.
    fn uniform_loss(&self) -> f64 {
        (self.setup().max_seq_length as f64).ln()
    }

    fn answer(
        &self,
        model: &BertForQuestionAnswering,
        set: &QuestionSet,
        stop: &StopFlag,
    ) -> Result<Vec<PredictedAnswer>, bert_inference::Error> {
        let device = self.setup().checkpoint.inference_device();
        set.encoded.answers(&set.questions, model, self.answers, &device, stop)
    }

    fn score(&self, set: &QuestionSet, answers: &Vec<PredictedAnswer>) -> Scores {
        set.mean_scores(texts(answers))
    }

    fn is_degenerate(&self, set: &QuestionSet, answers: &Vec<PredictedAnswer>) -> bool {
        let differs = set.questions.windows(2).any(|pair| pair[0].answers != pair[1].answers);
        differs && answers.windows(2).all(|pair| pair[0].text == pair[1].text)
    }

    fn summary(
        &self,
        set: &QuestionSet,
        runs: Vec<SeedRun>,
        answers: &[&Vec<PredictedAnswer>],
    ) -> SeedSummary {
        // The baseline answers every question with "no answer".
        let baseline = set.mean_scores(std::iter::repeat(""));
        let f1 = |answers: &&Vec<PredictedAnswer>| -> Vec<Ratio> {
            let ratio = |scores: &QuestionScores| Ratio { numerator: scores.f1, denominator: 1.0 };
            set.answer_scores(texts(answers)).iter().map(ratio).collect()
        };
        let values = answers.iter().map(f1).collect();
        let summary = SeedSummary::new(&self.setup().config.task, set.questions.len(), runs, baseline);
        SeedSummary { interval: Some(ratio_interval(Metric::F1, values)), ..summary }
    }

    /// Writes the answers in the official format, with the n-best lists and the "no answer" scores.
    fn write_answers(
        &self,
        output: &OutputFolder,
        prefix: &str,
        set: &QuestionSet,
        answers: &Vec<PredictedAnswer>,
    ) -> Result<(), Error> {
        let write = |name: &str, value: fn(&PredictedAnswer) -> Value| {
            let entries = set.questions.iter().zip(answers);
            let by_id: Map<String, Value> = entries.map(|(q, a)| (q.id.clone(), value(a))).collect();
            output.write(&format!("{prefix}{name}"), |out| {
                serde_json::to_writer_pretty(&mut *out, &by_id)?;
                writeln!(out)
            })
        };
        write("predictions.json", |answer| json!(answer.text))?;
        write("nbest_predictions.json", |answer| json!(answer.n_best))?;
        if self.answers.null_threshold.is_some() {
            write("null_odds.json", |answer| json!(answer.null_score_difference))?;
        }
        Ok(())
    }
}
