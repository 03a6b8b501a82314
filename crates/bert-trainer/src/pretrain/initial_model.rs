//! The model that a pre-training run starts with.

use std::path::{Path, PathBuf};

use bert_data::{DataSet, Nsp};
use bert_model::{Architecture, BertConfig, BertForPreTraining, WEIGHTS};
use burn::tensor::Device;

use super::events::PretrainEvent;
use crate::data_loader::DataLoader;
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;
use crate::initialization::pretrained_heads::{Heads, Pretrained, load_pretraining};
use crate::initialization::{FreshWeights, InitializationChoice, named_model};
use crate::pretrain::config::PretrainConfig;
use crate::run_dir::json_file::exists;
use crate::run_dir::model_folder::resolve_model_folder;
use crate::training::stop_flag::StopFlag;

/// Returns the initial weights of a run: from the folder `start`, from `fresh`, or from [`fresh_weights`].
pub(crate) fn initial_model(
    config: &PretrainConfig,
    (data, model): (&DataSet, &BertConfig),
    (start, fresh): (Option<&Path>, Option<&FreshWeights>),
    device: &Device,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<BertForPreTraining, Error> {
    if let Some(path) = start {
        let heads = match (config.fresh_heads, data.manifest().config.nsp) {
            (true, _) => Heads::None,
            (false, Nsp::Off) => Heads::MaskedLm,
            (false, _) => Heads::Both,
        };
        let hint = "--fresh-heads initializes missing heads at random; data made with --nsp off needs no pooler and \
                    no next-sentence head";
        let Pretrained { model, fresh } = load_pretraining(model, path, heads, hint, config.seed, device)?;
        if !fresh.is_empty() {
            on_event(PretrainEvent::Warning(format!(
                "not in the checkpoint, so initialized at random: {fresh:?}"
            )));
        }
        return Ok(model);
    }
    let counted;
    let fresh = match fresh {
        Some(fresh) => fresh,
        None => {
            counted = fresh_weights(config, data, model, stop, on_event)?;
            &counted
        }
    };
    Ok(BertForPreTraining::initialized(model, fresh.initialization(), config.seed, device)?)
}

/// Returns the model's configuration, checked against the data, and the folder and digest of the initial weights, if
/// any.
pub(crate) fn model_config(
    config: &PretrainConfig,
    loader: &DataLoader,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<(BertConfig, Option<PathBuf>, Option<String>), Error> {
    let (mut model, start, digest) = match &config.init_checkpoint {
        Some(path) => {
            let mut warn = |error: &Error| on_event(PretrainEvent::Warning(error.to_string()));
            let folder = resolve_model_folder(path, &mut warn)?;
            let model = BertConfig::read(folder.join("config.json"))?;
            let weights = folder.join(WEIGHTS);
            let digest = if exists(&weights)? { bert_storage::digest_file(&weights)? } else { String::new() };
            (model, Some(folder), Some(digest))
        }
        None => {
            let name = config.model.as_deref().unwrap_or_default();
            let mut note = |note: String| on_event(PretrainEvent::Warning(note));
            (named_model(name, loader.manifest().vocabulary.size, &mut note)?, None, None)
        }
    };
    model.compute = config.precision().with(config.kernels);
    let text_of_start = start.as_deref().map(ModelTokenizer::find).transpose()?.flatten();
    loader.check_fits(&model, text_of_start.as_ref())?;
    Ok((model, start, digest))
}

/// Selects the initial weights of a run without a checkpoint, and counts the text if they require it.
///
/// # Errors
/// [`Error::Stopped`]; when a shard cannot be read or does not match the manifest.
pub(super) fn fresh_weights(
    config: &PretrainConfig,
    data: &DataSet,
    model: &BertConfig,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<FreshWeights, Error> {
    let choice = config.initialization().unwrap_or_default();
    if choice == InitializationChoice::Bigram {
        on_event(PretrainEvent::Counting);
    }
    FreshWeights::new_unless_stopped(choice, data, model, config.seed, stop)
}
