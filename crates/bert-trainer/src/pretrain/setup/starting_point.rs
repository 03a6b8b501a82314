//! The model's configuration and the checkpoint that a run starts from.

use std::path::PathBuf;

use bert_model::{BertConfig, WEIGHTS};

use crate::data_loader::DataLoader;
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;
use crate::initialization::named_model;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::events::PretrainEvent;
use crate::run_dir::json_file::exists;
use crate::run_dir::model_folder::resolve_model_folder;

/// The model's configuration, and the weights that `--init-checkpoint` names.
pub(crate) struct StartingPoint {
    pub(crate) config: BertConfig,
    /// Folder of the weights; `None` for a fresh model.
    pub(crate) folder: Option<PathBuf>,
    /// Digest of these weights.
    pub(crate) weights_digest: Option<String>,
}

impl StartingPoint {
    /// Reads the configuration and checks it against the data.
    ///
    /// # Errors
    /// When the configuration or the weights cannot be read, or do not match the data.
    pub(crate) fn resolve(
        config: &PretrainConfig,
        loader: &DataLoader,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Self, Error> {
        let mut warn = |warning: String| on_event(PretrainEvent::Warning(warning));
        let mut start = match &config.init_checkpoint {
            Some(path) => {
                let folder = resolve_model_folder(path, &mut |error| warn(error.to_string()))?;
                let config = BertConfig::read(folder.join("config.json"))?;
                let weights = folder.join(WEIGHTS);
                let digest =
                    if exists(&weights)? { bert_storage::digest_file(&weights)? } else { String::new() };
                Self { config, folder: Some(folder), weights_digest: Some(digest) }
            }
            None => {
                let name = config.model.as_deref().unwrap_or_default();
                let config = named_model(name, loader.manifest().vocabulary.size, &mut warn)?;
                Self { config, folder: None, weights_digest: None }
            }
        };
        start.config.compute = config.precision().with(config.compute.kernels);
        let tokenizer = start.folder.as_deref().map(ModelTokenizer::find).transpose()?.flatten();
        loader.check_fits(&start.config, tokenizer.as_ref())?;
        Ok(start)
    }
}
