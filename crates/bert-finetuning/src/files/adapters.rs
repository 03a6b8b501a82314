//! Writes adapters, and reports the attention over the adapters of `--fusion`.

use std::fs;
use std::path::{Path, PathBuf};

use bert_inference::Features;
use bert_inference::encoder_record::{ENCODER, encoder_record};
use bert_inference::host_tensors::read;
use bert_model::{
    AdapterFolder, AdapterMetadata, BertConfig, BertForSequenceClassification, BertModel, save_fusion,
};
use bert_training::Error;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::files::folder::{MODEL, OutputFolder};
use crate::model::adapters::{FUSION_REGULARIZATION, read_adapters};
use crate::setup::{BaseCheckpoint, Setup};

/// The attention over fused adapters, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FusionReport {
    /// Names of the adapters.
    pub adapters: Vec<String>,
    /// Mean attention to each adapter over the tokens of dev, for each layer, with the best run's model.
    pub shares: Vec<Vec<f64>>,
    /// Regularization term in the loss of the best run's model.
    pub regularization: f64,
}

/// Writes a fine-tuned model into folders whose names begin with `prefix`. A full model or an adapter goes into
/// `model/`; a merged adapter also goes into `adapter/`. For a fusion, `model/` contains the attention, the head and
/// copies of the adapters' files.
pub(crate) fn save_with_adapters(
    output: &OutputFolder,
    prefix: &str,
    setup: Setup<'_>,
    model: &BertForSequenceClassification,
    model_config: &BertConfig,
) -> Result<(), Error> {
    let Setup { config, checkpoint, .. } = setup;
    let fused = read_adapters(&config.adapters.fusion)?;
    let adapter = config.adapter_config()?;
    if fused.is_empty() && adapter.is_none() {
        return output.save_model(prefix, model, model_config, setup);
    }
    let folder = &format!("{prefix}{}", if config.adapters.merge_lora { "adapter" } else { MODEL });
    let names = names(&fused);
    let BaseCheckpoint { folder: encoder, name: base, tokenizer, .. } = checkpoint;
    let name = if fused.is_empty() { config.task.spec().name } else { &names.join(",") };
    let origin = AdapterMetadata { name, base: &base.display().to_string() };
    let vocabulary = setup.description().tokenizer_files(tokenizer, model_config);
    let mut sink = output.sink(folder);
    sink(ENCODER, &encoder_record(encoder)?).map_err(Error::io("write", Path::new(ENCODER)))?;
    match adapter {
        Some(adapter) => adapter.save(&mut sink, model, model_config, origin, vocabulary)?,
        None => save_fusion(&mut sink, model, model_config, origin, vocabulary)?,
    }
    for (adapter, name) in fused.iter().zip(&names) {
        let folder = output.folder().inside(folder).inside("adapters").inside(name);
        folder.create()?;
        for file in ["adapter.safetensors", "adapter_config.json"] {
            let from = adapter.path.join(file);
            let bytes = fs::read(&from).map_err(Error::io("read", &from))?;
            folder.write_bytes(file, &bytes)?;
        }
    }
    if config.adapters.merge_lora {
        let mut merged = model.clone();
        merged.bert = merged.bert.with_lora_merged();
        output.save_model(prefix, &merged, model_config, setup)?;
    }
    Ok(())
}

/// Returns the names of adapters; empty where a folder records none.
fn names(adapters: &[AdapterFolder]) -> Vec<String> {
    adapters.iter().map(|adapter| adapter.name.clone().unwrap_or_default()).collect()
}

/// Returns the attention over the adapters, measured on the examples; `model` must be without autodiff.
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
        let mask = read(input.input_mask.clone().float())?;
        tokens += mask.iter().map(|&x| f64::from(x)).sum::<f64>();
        for (layer, shares) in model.fusion_shares(input).into_iter().enumerate() {
            if sums.len() == layer {
                sums.push(vec![0.0; adapters.len()]);
            }
            let shares = read(shares)?;
            for (row, &real) in shares.chunks(adapters.len()).zip(&mask) {
                for (sum, &share) in sums[layer].iter_mut().zip(row) {
                    *sum += f64::from(share * real);
                }
            }
        }
    }
    sums.iter_mut().flatten().for_each(|sum| *sum /= tokens);
    let distance =
        model.fusion_distance().map(read).transpose()?.map_or(0.0, |distance| f64::from(distance[0]));
    Ok(FusionReport { adapters, shares: sums, regularization: FUSION_REGULARIZATION * distance })
}
