//! [`ModelDescription`]: the settings with which a model was trained. Every program that reads the folder of the model
//! uses them.
//!
//! Training and fine-tuning write the description to `model_description.json`. Most of its values are also in the files
//! that other libraries read: the length in `tokenizer_config.json` and `tokenizer.json`, labels and activation in
//! `config.json`. A shorter length in one of those files is used, and the user gets a remark; other contradictions are
//! errors. Folders of other programs need no `model_description.json`. Case and other settings of the tokenizer are in
//! the tokenizer files only.

mod agreement;
mod input_form;
mod json_object;
mod length;
mod output;
mod pooling;
mod standard_files;

use std::path::Path;

use bert_model::{BertConfig, DESCRIPTION};
use bert_tasks::{Error, Example, Kind, Task};
use serde::{Deserialize, Serialize};

use crate::compute::device::KernelChoice;
use crate::compute::precision::PrecisionChoice;
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::encoding::squad_args::SquadArgs;
use crate::error::mismatch;
use crate::model_dir::description::json_object::{JsonObject, MIN_LENGTH};

pub use length::{DefaultLength, EncodingLength};
pub use output::Activation;
pub use pooling::Pooling;

/// The description of a trained model: the settings of its training that affect its use. An unknown setting is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelDescription {
    /// Maximum number of tokens of an input in training, special tokens included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seq_length: Option<usize>,
    /// Number of position embeddings that were trained; the others have their initial values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trained_positions: Option<usize>,
    /// Task of the fine-tuning, with the columns of a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Flags of question answering.
    #[serde(skip_serializing_if = "bert_storage::is_default")]
    pub squad: SquadArgs,
    /// Precision of matrix products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<PrecisionChoice>,
    /// Kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<KernelChoice>,
    /// The pooling method of a sentence model: it computes one vector from the vectors of a text's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// Whether the vector of a text is divided by its Euclidean norm.
    #[serde(skip_serializing_if = "bert_storage::is_default")]
    pub normalize: bool,
    /// Modules of a sentence model that this workspace cannot compute.
    #[serde(skip)]
    pub other_modules: Vec<String>,
    /// Name of the prompt that a sentence model adds to every text.
    #[serde(skip)]
    pub default_prompt: Option<String>,
    /// A remark for the user if another file states a different length.
    #[serde(skip)]
    pub length_remark: Option<String>,
    /// Function of the logits of a classifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
}

impl ModelDescription {
    /// Reads the description of a model folder, from its own file and from the files of other libraries, and compares
    /// them with the model's configuration and tokenizer.
    ///
    /// # Errors
    /// Fails when a file cannot be read or is damaged, when a value is wrong or contradicts another one, or when the
    /// model has too few positions or lacks embeddings of some tokens.
    pub fn read(
        folder: &Path,
        model: &BertConfig,
        tokenizer: Option<&ModelTokenizer>,
    ) -> Result<Self, Error> {
        let positions = model.max_position_embeddings;
        if positions < MIN_LENGTH {
            let difference =
                format!("max_position_embeddings is {positions}, but must be at least {MIN_LENGTH}");
            return Err(mismatch(vec![difference]));
        }
        tokenizer.map_or(Ok(()), |tokenizer| tokenizer.check_fits(model))?;
        let config = JsonObject::read(folder, "config.json")?;
        let own = Self::from_own_file(&JsonObject::read(folder, DESCRIPTION)?, &config, model)?;
        Self { activation: Activation::from_config(&config, own.activation)?, ..own }
            .with_standard_files(folder, model, tokenizer)
    }

    /// Returns the tokenizer files of a model with this description.
    pub fn tokenizer_files<'a>(
        &self,
        tokenizer: &'a ModelTokenizer,
        model: &BertConfig,
    ) -> bert_model::FolderTokenizer<'a> {
        let positions = model.max_position_embeddings;
        let max_length = self.max_seq_length.unwrap_or(positions);
        bert_model::FolderTokenizer { description: Some(self.to_json()), ..tokenizer.files(max_length) }
    }

    /// Returns the content of the description's file.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_value(self).expect("a description has no map with other keys than texts");
        format!("{json:#}\n")
    }

    /// Returns the pooling method of a sentence model.
    ///
    /// # Errors
    /// Fails when the folder names none, or has modules that this workspace cannot compute.
    pub fn sentence_pooling(&self) -> Result<Pooling, Error> {
        let reason = match (self.pooling, self.other_modules.first()) {
            (Some(pooling), None) => return Ok(pooling),
            (_, Some(module)) => format!(
                "the model of sentences has {module}, which is not supported; mean and cls leave it out"
            ),
            (None, None) => "the model's folder names no pooling; choose mean or cls".to_string(),
        };
        Err(Error::option("pooling", reason))
    }

    /// Returns the pooling method of a sentence model that adds no prompt to texts.
    ///
    /// # Errors
    /// Fails as [`Self::sentence_pooling`] does, or when the model adds a prompt to every text.
    pub fn pooling_of_texts(&self) -> Result<Pooling, Error> {
        match &self.default_prompt {
            None => self.sentence_pooling(),
            Some(name) => Err(Error::option(
                "pooling",
                format!(
                    "the model of sentences adds the prompt {name} to every text, which is not supported; write it \
                     into the texts, and choose mean or cls"
                ),
            )),
        }
    }

    /// Returns whether question answering may find no answer.
    pub(crate) fn allows_no_answer(&self) -> bool {
        self.task.as_ref().is_some_and(|task| task.spec().kind == Kind::Spans { version_2: true })
    }

    /// Rejects a single text if the model was trained on pairs, and a pair if it was trained on single texts.
    pub(crate) fn check_form(&self, example: &Example) -> Result<(), Error> {
        let Some(task) = &self.task else { return Ok(()) };
        let spec = task.spec();
        let gives_labels = matches!(spec.kind, Kind::Classification | Kind::Regression { .. });
        let (found, expected) = match (spec.pair, example.text_b.is_some()) {
            (true, false) if gives_labels => (
                "missing",
                "the second text of a pair, as in training; with `.format tsv` separate the two by a tab",
            ),
            (false, true) if gives_labels => {
                ("there", "no second text: the model was trained on single texts")
            }
            _ => return Ok(()),
        };
        Err(Error::data(format!("\"text_b\" is {found}, expected {expected}")))
    }
}

#[cfg(test)]
mod tests;
