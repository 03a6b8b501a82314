//! Writes the answers of a fine-tuned folder to new texts as JSON Lines, in the order of the input and in bounded
//! memory.
//!
//! The folder's `config.json` says which head the model has: classes or scores, answers from a text, or tags of
//! words.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use super::answerer::Answerer;
use super::classifier::Classifier;
use super::model_folder::{architecture, check_encoder, line_of};
use super::tagger::Tagger;
use super::text_input::{STANDARD_INPUT, TextFormat, for_each_window};
use super::write_line;
use crate::device_name::DeviceName;
use crate::error::{Error, FolderProblem};
use crate::tasks::{Example, TaskError};
use bert_storage::Locate;

/// Texts that are held and sorted by length at a time.
const WINDOW: usize = 1024;

/// A model that answers, whatever its head.
pub enum Predictor {
    /// A class or a score of a text or a pair.
    Labels(Box<Classifier>),
    /// An answer to a question from a text.
    Answers(Box<Answerer>),
    /// A tag for every word.
    Tags(Box<Tagger>),
}

impl Predictor {
    /// Opens a model folder; see [`Classifier::open`] for the encoder of an adapter and for the length.
    ///
    /// # Errors
    /// [`FolderProblem::NoHead`] when the folder has none that answers texts; when it cannot be read.
    pub fn open(
        folder: &Path,
        encoder: Option<&Path>,
        max_length: Option<usize>,
        device: DeviceName,
    ) -> Result<Self, Error> {
        check_encoder(folder, encoder)?;
        match architecture(folder)?.as_deref() {
            Some("BertForQuestionAnswering") => {
                Ok(Self::Answers(Box::new(Answerer::open(folder, max_length, device)?)))
            }
            Some("BertForTokenClassification") => {
                Ok(Self::Tags(Box::new(Tagger::open(folder, max_length, device)?)))
            }
            Some("BertForMultipleChoice") => {
                let head = "head that answers single texts";
                let hint = "a model of choices answers its task's files: finetune --predict";
                Err(FolderProblem::NoHead { head, hint }.at(folder).into())
            }
            _ => Ok(Self::Labels(Box::new(Classifier::open(folder, encoder, max_length, device)?))),
        }
    }

    /// The answers to examples, each as JSON to put beside its text.
    ///
    /// # Errors
    /// [`WrongValue`](crate::tasks::TaskProblem::WrongValue) for an example that the head has no use for.
    fn answer(&self, path: &Path, examples: &[Example]) -> Result<Vec<serde_json::Value>, TaskError> {
        fn json<T: Serialize>(answers: Vec<T>) -> Vec<serde_json::Value> {
            answers.into_iter().map(|answer| serde_json::to_value(answer).expect("plain data")).collect()
        }
        Ok(match self {
            Self::Labels(classifier) => json(classifier.answer(examples)),
            Self::Answers(answerer) => json(answerer.answer(path, examples)?),
            Self::Tags(tagger) => json(tagger.answer(path, examples)?),
        })
    }
}

/// One line of the output.
#[derive(Serialize)]
struct Row<'a> {
    line: u64,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_b: Option<&'a str>,
    #[serde(flatten)]
    answer: &'a serde_json::Value,
}

/// Writes the answer to every text of `input` (a file, or `-`) to `out`, one JSON object a line; gives their number.
///
/// # Errors
/// Bad input with its line, after the answers to the windows before it were written; [`Error::Results`].
pub fn predict_file(
    predictor: &Predictor,
    input: &Path,
    format: Option<TextFormat>,
    out: &mut dyn Write,
) -> Result<u64, Error> {
    let format = format.unwrap_or_else(|| TextFormat::of(input));
    let named = if input.as_os_str() == STANDARD_INPUT { Path::new("standard input") } else { input };
    let mut count = 0;
    for_each_window(input, WINDOW, |line, text| format.example(line, text), &mut |window| {
        for (example, answer) in window.iter().zip(predictor.answer(named, window)?) {
            let (text, text_b) = (example.text_a.as_str(), example.text_b.as_deref());
            let row = Row { line: line_of(example), text, text_b, answer: &answer };
            write_line(out, &row)?;
        }
        count += window.len() as u64;
        out.flush().map_err(Error::Results)
    })?;
    Ok(count)
}
