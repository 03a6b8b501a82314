//! Tags every word of a text with the model of a token-classification folder.

use std::path::Path;

use bert_model::{BertForTokenClassification, LoadPolicy};
use serde::Serialize;

use crate::device_name::DeviceName;
use crate::error::Error;
use crate::inference::model_folder::{Tuned, class_names, line_of};
use crate::tasks::{Example, TaskError, TaskProblem};
use crate::token_classification::conll::Sentence;
use crate::token_classification::entities::entities;
use crate::token_classification::inputs::EncodedSentences;
use bert_storage::Locate;

/// The tags of a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaggedText {
    /// One for each word; words stand between blanks.
    pub tags: Vec<String>,
    /// The entities that they make.
    pub entities: Vec<NamedEntity>,
}

/// Some words of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedEntity {
    /// The kind, as `PER`.
    pub kind: String,
    /// The words.
    pub words: String,
}

/// A model that tags.
pub struct Tagger {
    tuned: Tuned<BertForTokenClassification>,
    names: Vec<String>,
}

impl Tagger {
    /// Opens a model folder; the length is that of the fine-tuning whose `model/` the folder is, else the model's
    /// positions.
    ///
    /// # Errors
    /// When it cannot be read, or the model has not so many positions as `max_length`.
    pub fn open(folder: &Path, max_length: Option<usize>, device: DeviceName) -> Result<Self, Error> {
        let tuned: Tuned<BertForTokenClassification> =
            Tuned::open(folder, max_length, usize::MAX, LoadPolicy::WithoutPooler, device)?;
        let names = class_names(&tuned.config);
        Ok(Self { tuned, names })
    }

    /// The tags of texts.
    ///
    /// # Errors
    /// [`TaskProblem::WrongValue`] for a pair.
    pub(super) fn answer(&self, path: &Path, examples: &[Example]) -> Result<Vec<TaggedText>, TaskError> {
        if let Some(pair) = examples.iter().find(|example| example.text_b.is_some()) {
            let (column, found) = ("text_b".to_string(), "a second text");
            let problem =
                TaskProblem::WrongValue { column, found, expected: "one text, whose words are tagged" };
            return Err(problem.at_line(path, line_of(pair)).into());
        }
        let sentence = |example: &Example| Sentence {
            words: example.text_a.split_whitespace().map(String::from).collect(),
            tags: Vec::new(),
            line: line_of(example),
        };
        let sentences: Vec<Sentence> = examples.iter().map(sentence).collect();
        let Tuned { model, text, device, max_length, .. } = &self.tuned;
        let encoded = EncodedSentences::new(&sentences, text, *max_length);
        let tags = encoded.tags(&sentences, model, &self.names, device);
        let tagged = sentences.into_iter().zip(tags).map(|(sentence, tags)| {
            let named = entities(&tags).into_iter().map(|entity| NamedEntity {
                words: sentence.words[entity.first..=entity.last].join(" "),
                kind: entity.kind,
            });
            TaggedText { entities: named.collect(), tags }
        });
        Ok(tagged.collect())
    }
}
