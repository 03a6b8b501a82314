//! Tags every word of a text with a token-classification model.

use std::path::Path;

use bert_model::{BertForTokenClassification, LoadPolicy};
use bert_tasks::entities::{Entity, entities};
use bert_tasks::{Error, Example, Sentence, is_entity_tag};
use serde::Serialize;

use crate::compute::stop_flag::StopFlag;
use crate::encoding::sentences::EncodedSentences;
use crate::model_dir::loaded_model::{OpenedModel, class_names, line_of};
use crate::model_dir::model_options::ModelOptions;

/// The tags of a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaggedText {
    /// One tag per word; spaces separate words.
    pub tags: Vec<String>,
    /// The entities in the tags; `None` if the tags follow no known scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entities: Option<Vec<NamedEntity>>,
    /// Number of words at the end that were cut off because the text is too long; their tag is `O`.
    #[serde(skip_serializing_if = "bert_storage::is_default")]
    pub words_not_read: usize,
}

impl TaggedText {
    /// Returns the tags of words, with their entities if the tags follow a scheme.
    pub(super) fn new<W: AsRef<str>>(
        words: &[W],
        tags: Vec<String>,
        has_scheme: bool,
        words_not_read: usize,
    ) -> Self {
        let named = |Entity { kind, first, last }: Entity| {
            let words: Vec<&str> = words[first..=last].iter().map(AsRef::as_ref).collect();
            NamedEntity { kind, words: words.join(" ") }
        };
        let entities = has_scheme.then(|| entities(&tags).into_iter().map(named).collect());
        Self { tags, entities, words_not_read }
    }
}

/// A named entity.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NamedEntity {
    /// The entity type, such as `PER`.
    pub kind: String,
    /// The words.
    pub words: String,
}

/// A token-classification model.
pub struct Tagger {
    pub(crate) opened: OpenedModel<BertForTokenClassification>,
    names: Vec<String>,
}

impl Tagger {
    /// Opens a model folder; the length comes from the model's description, or else is the number of positions.
    ///
    /// # Errors
    /// Fails when the folder cannot be read, or the model has fewer positions than `options` asks for.
    pub fn open(folder: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        let opened: OpenedModel<BertForTokenClassification> =
            OpenedModel::open(folder, options, usize::MAX, LoadPolicy::WithoutPooler)?;
        let names = class_names(&opened.config);
        Ok(Self { opened, names })
    }

    /// Returns the tags of texts.
    ///
    /// # Errors
    /// Fails when an example is a pair; the error names `path` and the line. Also fails when the device fails.
    pub fn answer(&self, path: &Path, examples: &[Example]) -> Result<Vec<TaggedText>, Error> {
        if let Some(pair) = examples.iter().find(|example| example.text_b.is_some()) {
            let text = "\"text_b\" is a second text, expected one text, whose words are tagged";
            return Err(Error::data(text).at_line(path, line_of(pair)));
        }
        let sentence = |example: &Example| Sentence {
            words: example.text_a.split_whitespace().map(String::from).collect(),
            tags: Vec::new(),
            line: line_of(example),
            document: None,
        };
        let sentences: Vec<Sentence> = examples.iter().map(sentence).collect();
        let OpenedModel { model, text, device, length, .. } = &self.opened;
        let encoded = EncodedSentences::new(&sentences, text, length.tokens);
        let tags = encoded.tags(&sentences, model, &self.names, device, &StopFlag::new())?;
        let has_scheme = self.names.iter().all(|tag| is_entity_tag(tag));
        let tagged = sentences.into_iter().zip(tags).enumerate().map(|(at, (sentence, tags))| {
            let not_read = encoded.beyond(at, sentence.words.len());
            TaggedText::new(&sentence.words, tags, has_scheme, not_read)
        });
        Ok(tagged.collect())
    }
}
