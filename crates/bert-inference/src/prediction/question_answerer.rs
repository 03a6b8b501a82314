//! Answers questions on texts with the model of a question-answering folder.

use std::path::Path;

use bert_model::{BertForQuestionAnswering, LoadPolicy};
use bert_tasks::answer_spans::AnswerSettings;
use bert_tasks::windows::WindowSettings;
use bert_tasks::{Error, Example, Question};
use serde::Serialize;

use crate::compute::stop_flag::StopFlag;
use crate::encoding::model_tokenizer::check_segments;
use crate::encoding::questions::EncodedQuestions;
use crate::model_dir::loaded_model::{OpenedModel, line_of};
use crate::model_dir::model_options::ModelOptions;

/// An answer quoted from a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TextAnswer {
    /// The answer; empty if the text does not contain one.
    pub answer: String,
    /// The probability of the answer among the best candidates, including "no answer" if the model was trained for it.
    pub probability: f64,
}

/// A question-answering model.
pub struct Answerer {
    pub(crate) opened: OpenedModel<BertForQuestionAnswering>,
    windows: WindowSettings,
    answers: AnswerSettings,
}

impl Answerer {
    /// Opens a model folder. The lengths, and whether "no answer" is allowed, come from the model's description, or
    /// else from the defaults of `finetune --task squad`. If the sequence length differs from the length of the
    /// fine-tuning, or if a question would leave no room for the text, a question takes at most half of the sequence.
    ///
    /// # Errors
    /// Fails when the folder cannot be read, or when the model has one segment or fewer positions than `options` asks
    /// for.
    pub fn open(folder: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        let opened: OpenedModel<BertForQuestionAnswering> =
            OpenedModel::open(folder, options, 384, LoadPolicy::WithoutPooler)?;
        check_segments(&opened.config, true)?;
        let description = &opened.description;
        let length = opened.length.tokens;
        let mut windows = description.squad.windows(length);
        if description.max_seq_length != Some(length) || windows.max_query_length + 3 >= length {
            let half = (length / 2).saturating_sub(2).max(1);
            windows.max_query_length = windows.max_query_length.min(half);
        }
        let answers = description.squad.answers(description.allows_no_answer());
        Ok(Self { opened, windows, answers })
    }

    /// Returns the answers to questions (`text_a`) on texts (`text_b`).
    ///
    /// # Errors
    /// Fails when a question has no text; the error names `path` and the line. Also fails when the device fails.
    pub fn answer(&self, path: &Path, examples: &[Example]) -> Result<Vec<TextAnswer>, Error> {
        let question = |example: &Example| match &example.text_b {
            Some(context) => Ok(Question {
                id: example.index.clone(),
                question: example.text_a.clone(),
                context: context.as_str().into(),
                answers: Vec::new(),
                is_impossible: false,
            }),
            None => {
                let expected = "the text that contains the answer to the question";
                let problem = Error::data(format!("\"text_b\" is missing, expected {expected}"));
                Err(problem.at_line(path, line_of(example)))
            }
        };
        let questions = examples.iter().map(question).collect::<Result<Vec<Question>, _>>()?;
        let OpenedModel { model, text, device, .. } = &self.opened;
        let encoded = EncodedQuestions::new(&questions, text, self.windows);
        let answered = encoded.answers(&questions, model, self.answers, device, &StopFlag::new())?;
        let one = |answer: bert_tasks::answer_spans::PredictedAnswer| {
            let found = answer.n_best.iter().find(|candidate| candidate.text == answer.text);
            TextAnswer {
                probability: found.map_or(0.0, |candidate| candidate.probability),
                answer: answer.text,
            }
        };
        Ok(answered.into_iter().map(one).collect())
    }
}
