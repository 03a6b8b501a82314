//! Writes a fine-tuned model's predictions for new texts as JSON Lines, in the order of the input and with bounded
//! memory.
//!
//! The head is read from the folder's `config.json`: classification or regression, question answering, or token
//! classification.

pub(crate) mod classifier;
pub(crate) mod question_answerer;
mod seeds;
pub(crate) mod token_tagger;

use std::io::Write;
use std::path::Path;

use bert_tasks::{Example, InputText, Task, TextSource, Truncation, Window};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, no_head, results_not_written};
use crate::model_dir::description::EncodingLength;
use crate::model_dir::json_file::write_line;
use crate::model_dir::loaded_model::{architecture, check_encoder, line_of};
use crate::model_dir::model_options::ModelOptions;
use crate::model_dir::seed_models::{SeedModel, seed_models};
use crate::prediction::classifier::Classifier;
use crate::prediction::question_answerer::Answerer;
use crate::prediction::seeds::{Answered, Output, combine};
use crate::prediction::token_tagger::Tagger;

/// Number of texts in memory, which are sorted by length.
const WINDOW: usize = 1024;

/// A model for predictions, with any head, or the models of all seeds of a fine-tuning.
pub struct Predictor {
    /// One model, or one for each seed.
    heads: Vec<Head>,
}

enum Head {
    /// Predicts a class or a score for a text or a pair.
    Labels(Box<Classifier>),
    /// Answers a question from a text.
    Answers(Box<Answerer>),
    /// Predicts a tag for every word.
    Tags(Box<Tagger>),
}

impl Predictor {
    /// Opens a model folder; see [`Classifier::open`] for an adapter's encoder and for the length.
    ///
    /// # Errors
    /// Fails when the folder cannot be read or has no head for texts.
    pub fn open(folder: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        Ok(Self { heads: vec![Head::open(folder, options)?] })
    }

    /// Opens the models of all seeds in the output folder of `finetune --keep-seeds`. All of them are in memory, and
    /// their answers to a text are combined.
    ///
    /// # Errors
    /// Fails as [`seed_models`] and [`Self::open`] do.
    pub fn open_seeds(output: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        let open = |SeedModel { folder, .. }: SeedModel| Head::open(&folder, options);
        Ok(Self { heads: seed_models(output)?.into_iter().map(open).collect::<Result<_, Error>>()? })
    }

    /// Returns the task that a classifier was trained on, if known; `None` for other heads.
    fn task(&self) -> Option<Task> {
        match &self.heads[0] {
            Head::Labels(classifier) => classifier.opened.description.task.clone(),
            Head::Answers(_) | Head::Tags(_) => None,
        }
    }

    /// Returns the maximum length of an input.
    pub fn length(&self) -> &EncodingLength {
        match &self.heads[0] {
            Head::Labels(classifier) => &classifier.opened.length,
            Head::Answers(answerer) => &answerer.opened.length,
            Head::Tags(tagger) => &tagger.opened.length,
        }
    }

    /// Returns whether special tokens in a text are read as plain text.
    pub fn splits_special_tokens(&self) -> bool {
        let tokenizer = match &self.heads[0] {
            Head::Labels(classifier) => &classifier.opened.text,
            Head::Answers(answerer) => &answerer.opened.text,
            Head::Tags(tagger) => &tagger.opened.text,
        };
        tokenizer.settings.split_special_tokens
    }

    /// Returns the answers to examples, in order, and counts the texts that are cut.
    ///
    /// # Errors
    /// Fails when an example does not fit the head; the error names the line. Also fails when the device fails.
    fn answer(
        &self,
        path: &Path,
        examples: &[Example],
        truncation: &mut Truncation,
    ) -> Result<Vec<Answered>, Error> {
        let (first, others) = self.heads.split_first().expect("there is a model");
        let mut by_seed = vec![first.answer(path, examples, truncation)?];
        for head in others {
            // The models of all seeds cut the same texts.
            by_seed.push(head.answer(path, examples, &mut Truncation::default())?);
        }
        if let [outputs] = &mut by_seed[..] {
            let single = |output| Answered { output, agreement: None };
            return Ok(outputs.drain(..).map(single).collect());
        }
        let combined = examples.iter().enumerate().map(|(at, example)| {
            let outputs: Vec<&Output> = by_seed.iter().map(|outputs| &outputs[at]).collect();
            combine(example, &outputs)
        });
        Ok(combined.collect())
    }
}

impl Head {
    fn open(folder: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        check_encoder(folder, options.encoder)?;
        match architecture(folder)?.as_deref() {
            Some("BertForQuestionAnswering") => Ok(Self::Answers(Box::new(Answerer::open(folder, options)?))),
            Some("BertForTokenClassification") => Ok(Self::Tags(Box::new(Tagger::open(folder, options)?))),
            Some("BertForMultipleChoice") => {
                let head = "head that answers single texts";
                let hint = "use finetune `.predict` for the files of a multiple-choice task";
                Err(no_head(head, hint).at(folder))
            }
            _ => Ok(Self::Labels(Box::new(Classifier::open(folder, options)?))),
        }
    }

    fn answer(
        &self,
        path: &Path,
        examples: &[Example],
        truncation: &mut Truncation,
    ) -> Result<Vec<Output>, Error> {
        Ok(match self {
            Self::Labels(classifier) => {
                classifier.check_forms(path, examples)?;
                let features = classifier.encode(examples);
                *truncation += features.truncation();
                classifier.answer_features(&features)?.into_iter().map(Output::Label).collect()
            }
            Self::Answers(answerer) => {
                answerer.answer(path, examples)?.into_iter().map(Output::Answer).collect()
            }
            Self::Tags(tagger) => {
                let tagged = tagger.answer(path, examples)?;
                tagged.iter().for_each(|text| {
                    truncation.add(text.tags.len(), text.tags.len() - text.words_not_read);
                });
                tagged.into_iter().map(Output::Tags).collect()
            }
        })
    }
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
    answer: &'a Answered,
}

/// The number of predictions, and of the texts that were cut for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Predictions {
    /// Number of texts.
    pub count: u64,
    /// Cut texts.
    pub truncation: Truncation,
}

/// Writes the answer to every text to `out`, one JSON object per line; returns the counts of the texts. For token
/// classification, the lengths of cut texts are counted in words.
///
/// # Errors
/// Fails when the input is invalid; the error names the line, and the answers to earlier windows have been written.
/// Also fails when the device fails, or when the results cannot be written.
pub fn predict(
    predictor: &Predictor,
    texts: &dyn TextSource,
    out: &mut dyn Write,
) -> Result<Predictions, Error> {
    let mut predictions = Predictions::default();
    for window in texts.windows(predictor.task().as_ref(), WINDOW)? {
        predictions.write(predictor, texts.name(), &window?, out)?;
    }
    Ok(predictions)
}

/// Writes the answers to texts in memory, as [`predict`] does; the line of a text is its position in the input, from
/// 1. A text with a second text is a pair.
///
/// # Errors
/// Fails when a text does not fit the head; the error names its position. Also fails when the device fails, or when
/// the results cannot be written.
pub fn predict_texts<'a>(
    predictor: &Predictor,
    texts: impl IntoIterator<Item = InputText<'a>>,
    out: &mut dyn Write,
) -> Result<Predictions, Error> {
    let example = |(number, InputText { first, second }): (usize, InputText<'_>)| Example {
        index: (number + 1).to_string(),
        text_b: second.map(str::to_string),
        ..Example::from_text(first)
    };
    let examples: Vec<Example> = texts.into_iter().enumerate().map(example).collect();
    predict(predictor, &examples, out)
}

impl Predictions {
    /// Writes the answers to the examples of a window and counts them.
    fn write(
        &mut self,
        predictor: &Predictor,
        path: &Path,
        Window { examples, ids }: &Window,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let answers = predictor.answer(path, examples, &mut self.truncation)?;
        for ((example, answer), id) in examples.iter().zip(&answers).zip(ids) {
            let text = example.text_a.as_str();
            let text_b = example.text_b.as_deref();
            let row = Row { line: line_of(example), id: id.as_ref(), text, text_b, answer };
            write_line(out, &row)?;
        }
        self.count += examples.len() as u64;
        out.flush().map_err(results_not_written)
    }
}
