//! Loads a classifier from the folder of an adapter, or of fused ones, and from the encoder that it was trained on.

use std::path::{Path, PathBuf};

use bert_model::{
    BertConfig, BertForSequenceClassification, LoadPolicy, is_adapter_folder, is_fusion_folder,
    load_pretrained_classifier, read_adapter, read_fusion, read_pretrained_config,
};
use burn::tensor::Device;

use crate::checkpoint::resolve_model_folder;
use crate::error::{Error, FolderProblem};
use crate::text::Text;
use bert_storage::Locate;

/// The model of an adapter's folder; the encoder is `encoder`, else the one that the folder names.
///
/// # Errors
/// [`FolderProblem::NoEncoder`] when there is none there; when either cannot be read, or the two do not fit.
pub(super) fn load(
    folder: &Path,
    encoder: Option<&Path>,
    device: &Device,
) -> Result<(BertForSequenceClassification, BertConfig, Text), Error> {
    if is_fusion_folder(folder) {
        let fusion = read_fusion(folder)?;
        let encoder = resolve(folder, encoder, fusion.base.as_deref())?;
        let (model, config) = whole(folder, &encoder, None, device)?;
        return Ok((
            fusion.apply(model, config.attention_probs_dropout_prob)?,
            config,
            Text::open(&encoder)?,
        ));
    }
    let adapter = read_adapter(folder)?;
    let encoder = resolve(folder, encoder, adapter.base.as_deref())?;
    let names = adapter.label2id.as_ref().map(|labels| {
        let mut names: Vec<(usize, String)> = labels.iter().map(|(name, id)| (*id, name.clone())).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    });
    let (model, config) = whole(folder, &encoder, names, device)?;
    Ok((adapter.apply(model)?, config, Text::open(&encoder)?))
}

/// Refuses an encoder for a model that has its own.
///
/// # Errors
/// [`Error::Configuration`] naming the flag.
pub(super) fn check_encoder(folder: &Path, encoder: Option<&Path>) -> Result<(), Error> {
    match encoder.is_some() && !is_adapter_folder(folder) {
        true => Err(Error::Configuration {
            flag: "encoder",
            reason: "is for an adapter; the model is whole".into(),
        }),
        false => Ok(()),
    }
}

/// The encoder with a classifier of the shape that the folder's `config.json` says; without one, with the head's
/// labels.
fn whole(
    folder: &Path,
    encoder: &Path,
    names: Option<Vec<String>>,
    device: &Device,
) -> Result<(BertForSequenceClassification, BertConfig), Error> {
    let own = folder.join("config.json").is_file().then(|| read_pretrained_config(folder)).transpose()?;
    let config = |encoder: BertConfig| match (own, names) {
        (Some(own), _) => BertConfig {
            num_labels: own.num_labels,
            id2label: own.id2label,
            label2id: own.label2id,
            problem_type: own.problem_type,
            ..encoder
        },
        (None, Some(names)) => encoder.with_labels(&names),
        (None, None) => encoder,
    };
    let (model, config, _) = load_pretrained_classifier(encoder, config, LoadPolicy::FreshHeads, 0, device)?;
    Ok((model, config))
}

fn resolve(folder: &Path, encoder: Option<&Path>, base: Option<&str>) -> Result<PathBuf, Error> {
    let no_encoder = |base: String| Error::from(FolderProblem::NoEncoder(base).at(folder));
    let named = match (encoder, base) {
        (Some(encoder), _) => encoder,
        (None, Some(base)) if Path::new(base).is_dir() => Path::new(base),
        (None, Some(base)) => return Err(no_encoder(format!("{base}, which is not there"))),
        (None, None) => return Err(no_encoder("not named in it".to_string())),
    };
    resolve_model_folder(named, &mut |_| {})
}
