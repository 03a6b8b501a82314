//! Writes the answers of a fine-tuned folder to new texts as JSON Lines, in the order of the input and in bounded
//! memory.
//!
//! The folder's `config.json` says which head the model has: classes or scores, answers from a text, or tags of
//! words.

use std::io::Write;
use std::path::Path;

use bert_storage::Locate;
use serde::Serialize;
use serde_json::Value;

use super::answerer::{Answerer, TextAnswer};
use super::classifier::{Answer, Classifier};
use super::model_folder::{architecture, check_encoder, line_of};
use super::tagger::{TaggedText, Tagger};
use super::text_input::{NewTexts, Window};
use super::trained::ModelOptions;
use super::write_line;
use crate::error::{Error, FolderProblem};
use crate::tasks::{Example, Task, TaskError};

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
    pub fn open(folder: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        check_encoder(folder, options.encoder)?;
        match architecture(folder)?.as_deref() {
            Some("BertForQuestionAnswering") => Ok(Self::Answers(Box::new(Answerer::open(folder, options)?))),
            Some("BertForTokenClassification") => Ok(Self::Tags(Box::new(Tagger::open(folder, options)?))),
            Some("BertForMultipleChoice") => {
                let head = "head that answers single texts";
                let hint = "a model of choices answers its task's files: finetune --predict";
                Err(FolderProblem::NoHead { head, hint }.at(folder).into())
            }
            _ => Ok(Self::Labels(Box::new(Classifier::open(folder, options)?))),
        }
    }

    /// The task that the model was trained on, where it is known.
    fn task(&self) -> Option<Task> {
        match self {
            Self::Labels(classifier) => classifier.trained.task(),
            Self::Answers(_) | Self::Tags(_) => None,
        }
    }

    /// The answers to examples, in their order.
    ///
    /// # Errors
    /// [`WrongValue`](crate::tasks::TaskProblem::WrongValue) for an example that the head has no use for.
    fn answer(&self, path: &Path, examples: &[Example]) -> Result<Vec<Said>, TaskError> {
        Ok(match self {
            Self::Labels(classifier) => {
                classifier.check_forms(path, examples)?;
                classifier.answer(examples).into_iter().map(Said::Label).collect()
            }
            Self::Answers(answerer) => {
                answerer.answer(path, examples)?.into_iter().map(Said::Answer).collect()
            }
            Self::Tags(tagger) => tagger.answer(path, examples)?.into_iter().map(Said::Tags).collect(),
        })
    }
}

/// What a model says of an example, to put beside its text.
#[derive(Serialize)]
#[serde(untagged)]
enum Said {
    Label(Answer),
    Answer(TextAnswer),
    Tags(TaggedText),
}

/// One line of the output.
#[derive(Serialize)]
struct Row<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_b: Option<&'a str>,
    #[serde(flatten)]
    answer: &'a Said,
}

/// Writes the answer to every text to `out`, one JSON object a line; gives their number.
///
/// # Errors
/// Bad input with its line, after the answers to the windows before it were written; [`Error::Results`].
pub fn predict_file(predictor: &Predictor, texts: &NewTexts<'_>, out: &mut dyn Write) -> Result<u64, Error> {
    let mut count = 0;
    texts.for_each_window(predictor.task(), WINDOW, &mut |Window { examples, ids }| {
        let answers = predictor.answer(texts.path(), examples)?;
        for ((example, answer), id) in examples.iter().zip(&answers).zip(ids) {
            let (text, text_b) = (example.text_a.as_str(), example.text_b.as_deref());
            let row = Row { line: line_of(example), id: id.as_ref(), text, text_b, answer };
            write_line(out, &row)?;
        }
        count += examples.len() as u64;
        out.flush().map_err(Error::Results)
    })?;
    Ok(count)
}
