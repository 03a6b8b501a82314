//! Tags every word of a text with the model of a token-classification folder.

use std::path::Path;

use bert_model::{
    Architecture, BertForTokenClassification, LoadPolicy, load_named_tensors, read_pretrained_config,
    read_pretrained_tensors,
};
use burn::tensor::Device;
use serde::Serialize;

use crate::device_name::DeviceName;
use crate::error::Error;
use crate::inference::model_folder::line_of;
use crate::inference::model_folder::trained_setting;
use crate::tasks::{Example, TaskError};
use crate::text::Text;
use crate::token_classification::conll::Sentence;
use crate::token_classification::entities::entities;
use crate::token_classification::inputs::EncodedSentences;

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
    model: BertForTokenClassification,
    text: Text,
    names: Vec<String>,
    max_length: usize,
    device: Device,
}

impl Tagger {
    /// Opens a model folder; the length is that of the fine-tuning whose `model/` the folder is, else the model's
    /// positions.
    ///
    /// # Errors
    /// When it cannot be read, or the model has not so many positions as `max_length`.
    pub fn open(folder: &Path, max_length: Option<usize>, device: DeviceName) -> Result<Self, Error> {
        let device = device.open()?;
        let config = read_pretrained_config(folder)?;
        let names = match &config.id2label {
            Some(names) => names.values().cloned().collect(),
            None => (0..config.num_labels).map(|class| format!("LABEL_{class}")).collect(),
        };
        let model = BertForTokenClassification::new(&config, 0, &device);
        let (model, _) = load_named_tensors(model, read_pretrained_tensors(folder)?, LoadPolicy::Exact)?;
        let text = Text::open(folder)?;
        let trained = trained_setting(folder)?["resolved"]["max_seq_length"].as_u64();
        let most = config.max_position_embeddings;
        let max_length = max_length.unwrap_or(trained.map_or(most, |length| (length as usize).min(most)));
        text.check_fits(&config, max_length)?;
        Ok(Self { model, text, names, max_length, device })
    }

    /// The tags of texts.
    ///
    /// # Errors
    /// [`TaskError::WrongValue`] for a pair.
    pub(super) fn answer(&self, path: &Path, examples: &[Example]) -> Result<Vec<TaggedText>, TaskError> {
        if let Some(pair) = examples.iter().find(|example| example.text_b.is_some()) {
            return Err(TaskError::WrongValue {
                path: path.into(),
                line: line_of(pair),
                column: "text_b".to_string(),
                found: "a second text",
                expected: "one text, whose words are tagged",
            });
        }
        let sentence = |example: &Example| Sentence {
            words: example.text_a.split_whitespace().map(String::from).collect(),
            tags: Vec::new(),
            line: line_of(example),
        };
        let sentences: Vec<Sentence> = examples.iter().map(sentence).collect();
        let encoded = EncodedSentences::new(&sentences, &self.text, self.max_length);
        let tags = encoded.tags(&sentences, &self.model, &self.names, &self.device);
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
