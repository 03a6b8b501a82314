//! Opens BERT for a new model, and translation models in checkpoints.
//!
//! In addition to the files of every checkpoint, a checkpoint of a translation model has the vocabularies and
//! `translation.json`, which contains the sizes and the tokenizer settings. `model.safetensors` contains the
//! Transformer and BERT.

use std::path::Path;

use bert_inference::{DefaultLength, ModelFiles, ModelTokenizer};
use bert_model::{
    Architecture, BertConfig, BertModel, LoadPolicy, load_named_tensors, load_pretrained_weights,
    read_pretrained_tensors,
};
use bert_storage::Error;
use burn::module::Module;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::TranslationConfig;
use crate::model::transformer::TranslationModel;
use crate::text::tokenizers::{SavedSettings, Tokenizers};

const DESCRIPTION: &str = "translation.json";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    model: TranslationConfig,
    tokenizers: SavedSettings,
    /// The `config.json` of BERT.
    bert: Option<Map<String, Value>>,
}

/// A frozen BERT with its tokenizer.
pub(crate) struct FrozenBert {
    pub(crate) model: BertModel,
    pub(crate) config: BertConfig,
    pub(crate) tokenizer: ModelTokenizer,
}

impl FrozenBert {
    /// Loads the encoder of a model folder.
    pub(crate) fn open(folder: &Path, max_length: usize, device: &Device) -> Result<Self, Error> {
        let ModelFiles { config, tokenizer, description } = ModelFiles::open(folder)?;
        let default = DefaultLength::Trained(max_length);
        description.encoding_length(Some(max_length), default, &config)?;
        let fresh = BertModel::zeroed(&config, device);
        let (model, _) = load_pretrained_weights(fresh, folder, LoadPolicy::FreshHeads)?;
        Ok(Self { model: model.no_grad(), config, tokenizer })
    }
}

/// A translation model with its tokenizers.
pub(crate) struct SavedModel {
    /// The model.
    pub model: TranslationModel,
    /// The tokenizers of the model.
    pub tokenizers: Tokenizers,
}

/// Returns the files of a checkpoint that describe a model.
pub(crate) fn description_files(
    model: &TranslationConfig,
    bert: Option<&BertConfig>,
    tokenizers: &Tokenizers,
) -> Vec<(&'static str, Vec<u8>)> {
    let json = |config: &BertConfig| {
        serde_json::from_str(&config.to_json_string(BertModel::NAME))
            .expect("an object that was just written")
    };
    let description =
        Description { model: model.clone(), tokenizers: tokenizers.settings(), bert: bert.map(json) };
    let json = serde_json::to_vec_pretty(&description).expect("plain data");
    [(DESCRIPTION, json)].into_iter().chain(tokenizers.files()).collect()
}

impl SavedModel {
    /// Opens the translation model of a checkpoint's folder.
    ///
    /// # Errors
    /// Fails when the folder has no translation model, or when a file is damaged or does not fit the sizes in
    /// `translation.json`.
    pub(crate) fn open(folder: &Path, device: &Device) -> Result<Self, Error> {
        let not_ours = |reason: String| {
            Error::model(format!(
                "this is not a translation model ({DESCRIPTION}: {reason}); use a folder written by `bert translate \
                 train`"
            ))
            .at(folder)
        };
        let bytes = std::fs::read(folder.join(DESCRIPTION)).map_err(|error| not_ours(error.to_string()))?;
        let Description { model, tokenizers, bert } =
            serde_json::from_slice(&bytes).map_err(|error| not_ours(error.to_string()))?;
        model.validate().map_err(|error| not_ours(error.to_string()))?;
        let bert = bert.map(BertConfig::from_json).transpose()?;
        let tokenizers = Tokenizers::open(folder, &tokenizers)?;
        let zeroed = TranslationModel::zeroed(&model, bert.as_ref(), device);
        let (model, _) = load_named_tensors(zeroed, read_pretrained_tensors(folder)?, LoadPolicy::Exact)?;
        Ok(Self { model, tokenizers })
    }
}
