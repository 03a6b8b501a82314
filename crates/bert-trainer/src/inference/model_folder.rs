//! Opens a fine-tuned folder: its model, and what it says of itself, the report of its fine-tuning among it. The folder
//! of an adapter, or of fused ones, goes onto the encoder that it was trained on.

use std::path::Path;

use bert_kernels::Compute;
use bert_model::{
    Architecture, BertConfig, BertForSequenceClassification, LoadPolicy, is_adapter_folder, is_fusion_folder,
    load_pretrained, read_adapter, read_fusion, read_pretrained_config,
};
use bert_storage::Locate;
use burn::tensor::Device;
use serde_json::Value;

use super::trained::{ModelOptions, Trained};
use crate::checkpoint::resolve_model_folder;
use crate::error::{Error, FolderProblem};
use crate::json_file::read_json;
use crate::tasks::Example;
use crate::text::Text;

/// The class of `transformers` that the folder's `config.json` names.
pub(super) fn architecture(folder: &Path) -> Result<Option<String>, Error> {
    let path = folder.join("config.json");
    if !path.exists() {
        return Ok(None);
    }
    Ok(read_json(&path)?["architectures"][0].as_str().map(String::from))
}

/// A tuned model of a folder that has all of it, with what its texts need.
pub(super) struct Tuned<M> {
    pub(super) model: M,
    pub(super) config: BertConfig,
    pub(super) text: Text,
    pub(super) device: Device,
    /// The fine-tuning that made it.
    pub(super) trained: Trained,
    /// The longest sequence.
    pub(super) max_length: usize,
}

impl<M: Architecture> Tuned<M> {
    /// Opens a folder. Its length is the one of `options`, else that of its fine-tuning, else `default`; the last two as
    /// far as the model has positions.
    ///
    /// # Errors
    /// When it cannot be read, or the model has not so many positions as `options` asks for.
    pub(super) fn open(folder: &Path, options: ModelOptions<'_>, default: usize) -> Result<Self, Error> {
        let device = options.device.open()?;
        let trained = Trained::of(folder)?;
        let compute = trained.compute(options)?;
        let computing = |config| BertConfig { compute, ..config };
        let (model, config, _) = load_pretrained(folder, computing, LoadPolicy::Exact, 0, &device)?;
        let text = Text::open(folder)?;
        let max_length = longest(&trained.report, options.max_length, default, &config);
        text.check_fits(&config, max_length)?;
        Ok(Self { model, config, text, device, trained, max_length })
    }
}

/// The longest sequence: `asked`, else that of a fine-tuning with this report, else `default`; the last two as far as the
/// model has positions.
pub(super) fn longest(report: &Value, asked: Option<usize>, default: usize, model: &BertConfig) -> usize {
    let trained = report["resolved"]["max_seq_length"].as_u64().map_or(default, |length| length as usize);
    asked.unwrap_or(trained.min(model.max_position_embeddings))
}

/// The names of a model's classes, in the order of their numbers.
pub(super) fn class_names(config: &BertConfig) -> Vec<String> {
    match &config.id2label {
        Some(names) => names.values().cloned().collect(),
        None => (0..config.num_labels).map(|class| format!("LABEL_{class}")).collect(),
    }
}

/// The line of an example that was read from a file of new texts.
pub(super) fn line_of(example: &Example) -> u64 {
    example.index.parse().expect("a number of ours")
}

/// `report.json` of the fine-tuning whose `model/` the folder is; null for another folder.
pub(super) fn trained_setting(folder: &Path) -> Result<Value, Error> {
    let report = folder.with_file_name("report.json");
    match folder.file_name().is_some_and(|name| name == "model") && report.is_file() {
        true => read_json(&report),
        false => Ok(Value::Null),
    }
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

/// The model of an adapter's folder; the encoder is `encoder`, else the one that the folder names.
///
/// # Errors
/// [`FolderProblem::NoEncoder`] when there is none there; when either cannot be read, or the two do not fit.
pub(super) fn load_adapted(
    folder: &Path,
    encoder: Option<&Path>,
    (compute, device): (Compute, &Device),
) -> Result<(BertForSequenceClassification, BertConfig, Text), Error> {
    let computer = (compute, device);
    if is_fusion_folder(folder) {
        let fusion = read_fusion(folder)?;
        let (model, config, text) = base_model(folder, encoder, fusion.base.as_deref(), None, computer)?;
        return Ok((fusion.apply(model, config.attention_probs_dropout_prob)?, config, text));
    }
    let adapter = read_adapter(folder)?;
    let names = adapter.label2id.as_ref().map(|labels| {
        let mut names: Vec<(usize, String)> = labels.iter().map(|(name, id)| (*id, name.clone())).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    });
    let (model, config, text) = base_model(folder, encoder, adapter.base.as_deref(), names, computer)?;
    Ok((adapter.apply(model)?, config, text))
}

/// What an adapter goes onto: the encoder with a classifier of the shape that the folder's `config.json` says; without
/// one, with the head's labels.
fn base_model(
    folder: &Path,
    encoder: Option<&Path>,
    base: Option<&str>,
    names: Option<Vec<String>>,
    (compute, device): (Compute, &Device),
) -> Result<(BertForSequenceClassification, BertConfig, Text), Error> {
    let no_encoder = |base: String| Error::from(FolderProblem::NoEncoder(base).at(folder));
    let named = match (encoder, base) {
        (Some(encoder), _) => encoder,
        (None, Some(base)) if Path::new(base).is_dir() => Path::new(base),
        (None, Some(base)) => return Err(no_encoder(format!("{base}, which is not there"))),
        (None, None) => return Err(no_encoder("not named in it".to_string())),
    };
    let encoder = resolve_model_folder(named, &mut |_| {})?;
    let own = folder.join("config.json").is_file().then(|| read_pretrained_config(folder)).transpose()?;
    let with_labels = |encoder: BertConfig| match (own, names) {
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
    let config = |encoder| BertConfig { compute, ..with_labels(encoder) };
    let (model, config, _) = load_pretrained(&encoder, config, LoadPolicy::FreshHeads, 0, device)?;
    Ok((model, config, Text::open(&encoder)?))
}
