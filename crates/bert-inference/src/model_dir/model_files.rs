//! [`ModelFiles`]: the configuration, the tokenizer and the description of a model folder, read together.

use std::path::Path;

use bert_model::{BertConfig, find_weights, read_pretrained_config};

use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;
use crate::model_dir::description::ModelDescription;

/// The files of a model folder except its weights, compared with each other. Every program reads a folder in this way.
pub struct ModelFiles<T = ModelTokenizer> {
    /// The model's configuration.
    pub config: BertConfig,
    /// The tokenizer.
    pub tokenizer: T,
    /// The training of the model.
    pub description: ModelDescription,
}

impl ModelFiles {
    /// Reads a folder with a tokenizer.
    ///
    /// # Errors
    /// Fails when a file is missing, cannot be read or is damaged; when a value is not supported or contradicts another
    /// one.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let config = read_pretrained_config(folder)?;
        // Weights of another framework often come without a tokenizer; the user learns about the weights first.
        let tokenizer = ModelTokenizer::open(folder).or_else(|error| find_weights(folder).and(Err(error)))?;
        let description = ModelDescription::read(folder, &config, Some(&tokenizer))?;
        Ok(Self { config, tokenizer, description })
    }
}

impl ModelFiles<Option<ModelTokenizer>> {
    /// Reads a folder that may lack a tokenizer.
    ///
    /// # Errors
    /// Fails as [`ModelFiles::open`] does.
    pub fn find(folder: &Path) -> Result<Self, Error> {
        let config = read_pretrained_config(folder)?;
        let tokenizer = ModelTokenizer::find(folder)?;
        let description = ModelDescription::read(folder, &config, tokenizer.as_ref())?;
        Ok(Self { config, tokenizer, description })
    }
}
