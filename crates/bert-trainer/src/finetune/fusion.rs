//! Implements `finetune --fusion`: puts trained adapters into one frozen encoder and trains an attention over them.

use std::path::{Path, PathBuf};

use bert_model::{
    AdapterFolder, BertConfig, BertForSequenceClassification, BertModel, read_adapter, save_fusion,
};
use bert_storage::StagedFolder;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::config::FinetuneConfig;
use super::features::Features;
use super::output::Output;
use crate::error::Error;
use crate::finetune::setup::Setup;
use crate::host::values;
use crate::tasks::Kind;

/// The weight of the distance between each layer's value matrix and the identity in the loss; that of the library.
pub(super) const REGULARIZATION: f64 = 0.01;

/// What the attention over fused adapters came to, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FusionReport {
    /// The adapters.
    pub adapters: Vec<String>,
    /// Of each layer, the mean share of each adapter over the tokens of dev, by the best run's model.
    pub shares: Vec<Vec<f64>>,
    /// What the regularizer adds to the loss of the best run's model.
    pub regularization: f64,
}

impl FinetuneConfig {
    /// Checks the flags of a fusion against the others.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming the flag.
    pub(super) fn check_fusion(&self) -> Result<(), Error> {
        if self.fusion.is_empty() {
            return Ok(());
        }
        let refuse = |reason: &str| Err(Error::Configuration { flag: "fusion", reason: reason.to_string() });
        let spec = self.task.spec();
        let labels = matches!(spec.kind, Kind::Classification { .. } | Kind::Regression { .. });
        if !labels || spec.choices > 0 {
            return refuse("is for tasks that give a text or a pair a class or a score");
        }
        if self.fusion.len() < 2 {
            return refuse("needs two adapters or more");
        }
        if self.random_init {
            return refuse("does not go with --random-init: its adapters belong to the checkpoint");
        }
        Ok(())
    }
}

/// The adapters of `--fusion`; of a fine-tuning's output folder, that of its best run.
///
/// # Errors
/// When one cannot be read, or two have one name.
pub(super) fn read_adapters(folders: &[PathBuf]) -> Result<Vec<(PathBuf, AdapterFolder)>, Error> {
    let mut adapters: Vec<(PathBuf, AdapterFolder)> = Vec::new();
    for folder in folders {
        let inside = folder.join("model");
        let path = if inside.join("adapter_config.json").exists() { inside } else { folder.clone() };
        let adapter = read_adapter(&path)?;
        if adapters.iter().any(|(_, other)| other.name == adapter.name) {
            let name = adapter.name.as_deref().unwrap_or("lora");
            let reason = format!("{}: another adapter has the name {name}, too", path.display());
            return Err(Error::Configuration { flag: "fusion", reason });
        }
        adapters.push((path, adapter));
    }
    Ok(adapters)
}

fn names(adapters: &[(PathBuf, AdapterFolder)]) -> Vec<String> {
    adapters.iter().map(|(_, adapter)| adapter.name.clone().unwrap_or_default()).collect()
}

/// The model with the adapters of `--fusion` and a fresh attention over them.
///
/// # Errors
/// When the adapters do not fit the model.
pub(super) fn fused(
    setup: Setup<'_>,
    model: BertForSequenceClassification,
    seed: u64,
) -> Result<BertForSequenceClassification, Error> {
    let adapters = read_adapters(&setup.config.fusion)?;
    let folders: Vec<AdapterFolder> = adapters.into_iter().map(|(_, adapter)| adapter).collect();
    let config = BertConfig::read(setup.start.join("config.json"))?;
    Ok(model.with_fusion(&folders, config.attention_probs_dropout_prob, seed)?)
}

/// Writes the attention and the head into `model/`, and beside them the adapters' own files.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn save(
    output: &Output<'_>,
    setup: Setup<'_>,
    model: &BertForSequenceClassification,
    model_config: &BertConfig,
) -> Result<(), Error> {
    let adapters = read_adapters(&setup.config.fusion)?;
    let base = setup.start.display().to_string();
    let vocabulary = setup.text.files(model_config.max_position_embeddings);
    save_fusion(&mut output.sink("model"), model, model_config, &names(&adapters), &base, vocabulary)?;
    for (path, adapter) in &adapters {
        let name = adapter.name.as_deref().unwrap_or_default();
        let folder = output.folder().inside("model/adapters").inside(name);
        folder.create()?;
        for file in ["adapter.safetensors", "adapter_config.json"] {
            copy(&path.join(file), &folder, file)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &StagedFolder<'_>, name: &str) -> Result<(), Error> {
    let bytes = std::fs::read(from).map_err(|e| Error::io(from, e))?;
    to.write_bytes(name, &bytes)?;
    Ok(())
}

/// The attention over the adapters on the examples; `model` without autodiff.
///
/// # Errors
/// When an adapter cannot be read.
pub(super) fn report(
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
