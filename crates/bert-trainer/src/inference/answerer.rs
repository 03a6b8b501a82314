//! Answers questions on texts with the model of a question-answering folder.

use std::path::Path;

use bert_model::{
    Architecture, BertForQuestionAnswering, LoadPolicy, load_named_tensors, read_pretrained_config,
    read_pretrained_tensors,
};
use burn::tensor::Device;
use serde::Serialize;

use crate::device_name::DeviceName;
use crate::error::Error;
use crate::inference::model_folder::line_of;
use crate::inference::model_folder::trained_setting;
use crate::question_answering::answers::AnswerSettings;
use crate::question_answering::inputs::EncodedQuestions;
use crate::question_answering::squad::Question;
use crate::question_answering::windows::WindowSettings;
use crate::tasks::{Example, TaskError};
use crate::text::Text;

/// An answer from a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TextAnswer {
    /// Words of the text; empty where it has no answer.
    pub answer: String,
    /// Of the answer among the best ones, "no answer" included where the model was trained for it.
    pub probability: f64,
}

/// A model that answers questions.
pub struct Answerer {
    model: BertForQuestionAnswering,
    text: Text,
    windows: WindowSettings,
    answers: AnswerSettings,
    device: Device,
}

impl Answerer {
    /// Opens a model folder. Lengths, and whether there may be no answer, are those of the fine-tuning whose `model/`
    /// the folder is, else the defaults of `finetune --task squad`.
    ///
    /// # Errors
    /// When it cannot be read, or the model has not so many positions as `max_length`.
    pub fn open(folder: &Path, max_length: Option<usize>, device: DeviceName) -> Result<Self, Error> {
        let device = device.open()?;
        let config = read_pretrained_config(folder)?;
        let model = BertForQuestionAnswering::new(&config, 0, &device);
        let (model, _) = load_named_tensors(model, read_pretrained_tensors(folder)?, LoadPolicy::Exact)?;
        let text = Text::open(folder)?;
        let report = trained_setting(folder)?;
        let number =
            |flag: &str, default: usize| report["config"][flag].as_u64().map_or(default, |n| n as usize);
        let trained = report["resolved"]["max_seq_length"].as_u64().map_or(384, |length| length as usize);
        let max_seq_length = max_length.unwrap_or(trained.min(config.max_position_embeddings));
        text.check_fits(&config, max_seq_length)?;
        let version_2 = report["config"]["task"] == "squad2";
        let threshold = report["config"]["null_score_diff_threshold"].as_f64().unwrap_or(0.0);
        // Half of a short sequence at most.
        let max_query_length = number("max_query_length", 64).min(max_seq_length / 2 - 2);
        Ok(Self {
            model,
            text,
            windows: WindowSettings {
                max_seq_length,
                doc_stride: number("doc_stride", 128),
                max_query_length,
            },
            answers: AnswerSettings {
                n_best_size: number("n_best_size", 20),
                max_answer_length: number("max_answer_length", 30),
                null_threshold: version_2.then_some(threshold),
            },
            device,
        })
    }

    /// The answers to questions (`text_a`) on texts (`text_b`).
    ///
    /// # Errors
    /// [`TaskError::WrongValue`] for an example without a text.
    pub(super) fn answer(&self, path: &Path, examples: &[Example]) -> Result<Vec<TextAnswer>, TaskError> {
        let question = |example: &Example| match &example.text_b {
            Some(context) => Ok(Question {
                id: example.index.clone(),
                question: example.text_a.clone(),
                context: context.as_str().into(),
                answers: Vec::new(),
                is_impossible: false,
            }),
            None => Err(TaskError::WrongValue {
                path: path.into(),
                line: line_of(example),
                column: "text_b".to_string(),
                found: "missing",
                expected: "the text in which the answer to the question stands",
            }),
        };
        let questions = examples.iter().map(question).collect::<Result<Vec<Question>, _>>()?;
        let encoded = EncodedQuestions::new(&questions, &self.text, self.windows);
        let answered = encoded.answers(&questions, &self.model, self.answers, &self.device);
        let one = |answer: crate::question_answering::answers::PredictedAnswer| {
            let found = answer.n_best.iter().find(|candidate| candidate.text == answer.text);
            TextAnswer {
                probability: found.map_or(0.0, |candidate| candidate.probability),
                answer: answer.text,
            }
        };
        Ok(answered.into_iter().map(one).collect())
    }
}
