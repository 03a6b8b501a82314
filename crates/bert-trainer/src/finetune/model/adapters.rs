//! Implements `finetune --adapter`, which adds an adapter to the model, and `--fusion`, which trains an attention over
//! several trained adapters: builds the models, counts the trained parameters and writes the folders.
//!
//! Only the adapters in the encoder are trained. The encoder stays in training mode, so it applies dropout as in a full
//! fine-tuning; the `adapters` library does the same.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use bert_model::{
    AdapterFolder, AdapterMetadata, Architecture, BertConfig, BertForSequenceClassification, BertModel,
    is_adapter_parameter, is_fusion_parameter, named_parameters, read_adapter, save_adapter, save_fusion,
};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::compute::host_tensors::values;
use crate::encoding::examples::Features;
use crate::error::Error;
use crate::finetune::config::FinetuneConfig;
use crate::finetune::config::resolve::check;
use crate::finetune::model::pretrained::{Opened, Setup};
use crate::finetune::output::Output;
use crate::inference::model_folder::{ENCODER, record_of_encoder};
use crate::run_dir::json_file::exists;

/// The number of trained parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainedParameters {
    /// Trained parameters.
    pub trained: usize,
    /// All parameters of the model, including adapter and head.
    pub all: usize,
    /// `trained / all`
    pub share: f64,
}

impl TrainedParameters {
    pub(crate) fn new<M: Architecture>(config: &FinetuneConfig, model: &M, layers: usize) -> Self {
        let learns = |name: &str| match (config.freeze_encoder, config.adapter) {
            (false, None) if !config.fusion.is_empty() => {
                !name.starts_with("bert.") || is_fusion_parameter(name)
            }
            (false, None) => config.layer_learns(name, layers),
            (true, _) => !name.starts_with("bert."),
            (false, Some(_)) => !name.starts_with("bert.") || is_adapter_parameter(name),
        };
        let (mut trained, mut all) = (0, 0);
        for (name, _, shape) in named_parameters(model) {
            let size = shape.iter().product::<usize>();
            all += size;
            trained += if learns(&name) { size } else { 0 };
        }
        Self { trained, all, share: trained as f64 / all as f64 }
    }
}

impl fmt::Display for TrainedParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trained, all, share } = self;
        write!(f, "{trained} of {all} ({:.2} %)", 100.0 * share)
    }
}

/// Weight of the fusion regularizer (the distance between each layer's value matrix and the identity) in the loss; same
/// value as the `adapters` library.
pub(crate) const REGULARIZATION: f64 = 0.01;

/// The attention over fused adapters, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FusionReport {
    /// Names of the adapters.
    pub adapters: Vec<String>,
    /// Mean attention to each adapter over the tokens of dev, for each layer, with the best run's model.
    pub shares: Vec<Vec<f64>>,
    /// Regularization term in the loss of the best run's model.
    pub regularization: f64,
}

/// Reads the adapters of `--fusion`. For an output folder of a fine-tuning, reads the adapter of its best run.
///
/// # Errors
/// When an adapter cannot be read, or two have the same name.
pub(crate) fn read_adapters(folders: &[PathBuf]) -> Result<Vec<(PathBuf, AdapterFolder)>, Error> {
    let mut adapters: Vec<(PathBuf, AdapterFolder)> = Vec::new();
    for folder in folders {
        let inside = folder.join("model");
        let path = if exists(&inside.join("adapter_config.json"))? { inside } else { folder.clone() };
        let adapter = read_adapter(&path)?;
        let name = adapter.name.as_deref().unwrap_or("lora");
        let reason = format!("{}: two adapters have the name {name}; rename one folder", path.display());
        let is_new = adapters.iter().all(|(_, other)| other.name != adapter.name);
        check(is_new, "fusion", &reason)?;
        adapters.push((path, adapter));
    }
    Ok(adapters)
}

fn names(adapters: &[(PathBuf, AdapterFolder)]) -> Vec<String> {
    adapters.iter().map(|(_, adapter)| adapter.name.clone().unwrap_or_default()).collect()
}

/// Returns the model with a new adapter, or with the adapters of `--fusion` and a new attention over them, if
/// requested. `fresh` names the tensors that the checkpoint lacks.
///
/// # Errors
/// When the adapters do not fit the model.
pub(crate) fn attached(
    Setup { config, opened, .. }: Setup<'_>,
    model: BertForSequenceClassification,
    fresh: &[&String],
    seed: u64,
) -> Result<BertForSequenceClassification, Error> {
    let adapter = config.adapter_config()?;
    if adapter.is_none() && config.fusion.is_empty() {
        return Ok(model);
    }
    let flag = if config.fusion.is_empty() { "adapter" } else { "fusion" };
    let reason = format!("the checkpoint has no {fresh:?}, and an adapter folder cannot store them");
    check(fresh.is_empty(), flag, &reason)?;
    if let Some(adapter) = adapter {
        return Ok(model.with_adapter(adapter, seed)?);
    }
    let folders = read_adapters(&config.fusion)?.into_iter().map(|(_, adapter)| adapter);
    let folders: Vec<AdapterFolder> = folders.collect();
    Ok(model.with_fusion(&folders, opened.model.attention_probs_dropout_prob, seed)?)
}

/// Writes the fine-tuned model. A full model or an adapter goes into `model/`; a merged adapter also into `adapter/`.
/// For a fusion, `model/` contains the attention, the head and copies of the adapters' files.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn save(
    output: &Output,
    Setup { config, opened: Opened { text, start, start_name, .. }, .. }: Setup<'_>,
    model: &BertForSequenceClassification,
    model_config: &BertConfig,
) -> Result<(), Error> {
    let whole = "model";
    let base = start_name.display().to_string();
    let vocabulary = text.files(model_config.max_position_embeddings);
    let record = |folder: &str| {
        let bytes = record_of_encoder(start)?;
        let written = output.sink(folder)(ENCODER, &bytes);
        written.map_err(|source| Error::io(Path::new(ENCODER), source))
    };
    if !config.fusion.is_empty() {
        record(whole)?;
        let adapters = read_adapters(&config.fusion)?;
        save_fusion(&mut output.sink(whole), model, model_config, &names(&adapters), &base, vocabulary)?;
        for (path, adapter) in &adapters {
            let name = adapter.name.as_deref().unwrap_or_default();
            let folder = output.folder().inside("model/adapters").inside(name);
            folder.create()?;
            for file in ["adapter.safetensors", "adapter_config.json"] {
                let from = path.join(file);
                let bytes = fs::read(&from).map_err(|e| Error::io(&from, e))?;
                folder.write_bytes(file, &bytes)?;
            }
        }
        return Ok(());
    }
    let Some(adapter) = config.adapter_config()? else {
        return output.save_model(whole, model, model_config, text);
    };
    let folder = if config.merge_lora { "adapter" } else { whole };
    let origin = AdapterMetadata { name: config.task.spec().name, base: &base };
    record(folder)?;
    save_adapter(&mut output.sink(folder), model, model_config, adapter, origin, vocabulary)?;
    match config.merge_lora {
        true => output.save_model(whole, &model.clone().with_lora_merged(), model_config, text),
        false => Ok(()),
    }
}

/// Measures the attention over the adapters on the examples; `model` must be without autodiff.
///
/// # Errors
/// When an adapter cannot be read.
pub(crate) fn fusion_report(
    folders: &[PathBuf],
    model: &BertModel,
    features: &Features,
    device: &Device,
) -> Result<FusionReport, Error> {
    let adapters = names(&read_adapters(folders)?);
    let mut sums: Vec<Vec<f64>> = Vec::new();
    let mut tokens = 0.0;
    for examples in features.by_length(64) {
        let batch = features.batch(examples);
        let input = batch.input(device);
        let mask = values(input.input_mask.clone().float());
        tokens += mask.iter().map(|&x| f64::from(x)).sum::<f64>();
        for (layer, shares) in model.fusion_shares(input).into_iter().enumerate() {
            if sums.len() == layer {
                sums.push(vec![0.0; adapters.len()]);
            }
            let shares = values(shares);
            for (row, &real) in shares.chunks(adapters.len()).zip(&mask) {
                for (sum, &share) in sums[layer].iter_mut().zip(row) {
                    *sum += f64::from(share * real);
                }
            }
        }
    }
    sums.iter_mut().flatten().for_each(|sum| *sum /= tokens);
    let distance = model.fusion_distance().map_or(0.0, |distance| f64::from(values(distance)[0]));
    Ok(FusionReport { adapters, shares: sums, regularization: REGULARIZATION * distance })
}
