//! The model's configuration and the checkpoint that a run starts from.

use std::path::{Path, PathBuf};

use bert_inference::checkpoint::OPTIMIZER;
use bert_inference::encoder_record::weights_digest;
use bert_inference::{ModelFiles, resolve_model_folder};
use bert_model::{BertConfig, WeightsFiles};
use bert_storage::exists;

use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::initialization::named_model;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::events::PretrainEvent;

/// The model's configuration, and the weights that `--init-checkpoint` names.
pub(crate) struct StartingPoint {
    pub(crate) config: BertConfig,
    /// Folder of the weights; `None` for a fresh model.
    pub(crate) folder: Option<PathBuf>,
    /// Digest of the initial weights.
    pub(crate) weights_digest: Option<String>,
    /// Checkpoint whose moments the optimizer starts with; `None` for moments at zero.
    pub(crate) moments: Option<PathBuf>,
    /// Digest of the initial moments.
    pub(crate) moments_digest: Option<String>,
}

impl StartingPoint {
    /// Creates the starting point of a model without weights.
    fn fresh(config: BertConfig) -> Self {
        Self { config, folder: None, weights_digest: None, moments: None, moments_digest: None }
    }

    /// Reads the configuration and checks it against the data.
    ///
    /// # Errors
    /// Fails when the configuration or the weights cannot be read, or do not match the data.
    pub(crate) fn resolve(
        config: &PretrainConfig,
        loader: &DataLoader,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Self, Error> {
        let mut warn = |warning: String| on_event(PretrainEvent::Warning(warning));
        let mut tokenizer = None;
        let mut start = match &config.init_checkpoint {
            Some(path) => {
                let folder = resolve_model_folder(path, &mut |error| warn(error.to_string()))?;
                let files = ModelFiles::find(&folder)?;
                tokenizer = files.tokenizer;
                let digest = match WeightsFiles::find(&folder)? {
                    Some(_) => weights_digest(&folder)?,
                    None => String::new(),
                };
                Self { folder: Some(folder), weights_digest: Some(digest), ..Self::fresh(files.config) }
            }
            None => {
                let name = config.model.as_deref().unwrap_or_default();
                let config = named_model(name, loader.manifest().vocabulary.size, &mut warn)?;
                Self::fresh(config)
            }
        };
        if let Some(folder) = start.folder.as_ref().filter(|_| config.keep_moments) {
            start.moments_digest = Some(moments_digest(folder)?);
            start.moments = Some(folder.clone());
        }
        start.config.compute = config.precision().with(config.compute.kernels);
        loader.check_fits(&start.config, tokenizer.as_ref())?;
        Ok(start)
    }
}

/// Returns the digest of the moments in a checkpoint.
fn moments_digest(folder: &Path) -> Result<String, Error> {
    let path = folder.join(OPTIMIZER);
    if !exists(&path)? {
        let reason = format!(
            "{} has no {OPTIMIZER}; give `.init_checkpoint` the folder of a pre-training run, or leave `.keep_moments` \
             out",
            folder.display()
        );
        return Err(Error::option("keep_moments", reason));
    }
    bert_storage::digest_file(&path)
}
