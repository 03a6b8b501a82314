//! Describes the computation of a fine-tuning: its settings, and digests of its weights and data.
//!
//! A fine-tuning resumes only if this description is unchanged. The digests of dev show whether two fine-tunings were
//! scored on the same examples.

use bert_data::DataSet;
use bert_inference::Error;
use bert_inference::model_dir::json_file::exists;
use bert_model::WeightsFiles;
use bert_storage::digest_file;
use serde_json::{Map, Value, json};

use crate::config::FinetuneConfig;
use crate::data::datasets::Part;
use crate::kinds::FinetuneTask;
use crate::model::adapters::read_adapters;
use crate::setup::Setup;

/// Flags that are not compared: paths, whose contents are compared by digest, and flags that do not affect a single
/// run.
pub const UNCOMPARED_FLAGS: [&str; 11] = [
    "seeds",
    "output",
    "predict",
    "data",
    "train_file",
    "dev_file",
    "test_file",
    "checkpoint",
    "fusion",
    "initialization_data",
    "forgetting_data",
];

/// Files of a model folder, except the weights, that affect the computation.
const MODEL_FILES: [&str; 5] =
    ["config.json", "bert_config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json"];

/// Returns the settings and digests that determine every run. The list of seeds is excluded: a run depends only on its
/// own seed.
pub(crate) fn identity<T: FinetuneTask>(task: &T) -> Result<Value, Error> {
    let Setup { config, checkpoint, .. } = task.setup();
    let mut settings = serde_json::to_value(config).expect("plain data");
    for flag in UNCOMPARED_FLAGS {
        settings.as_object_mut().expect("a configuration").remove(flag);
    }
    let mut model_files = Map::new();
    let mut paths = MODEL_FILES.map(|name| checkpoint.folder.join(name)).to_vec();
    if let Some(weights) = WeightsFiles::find(&checkpoint.folder)? {
        paths.extend(weights.files()?);
    }
    for path in paths {
        if exists(&path)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            model_files.insert(name, digest_file(&path)?.into());
        }
    }
    let adapters = read_adapters(&config.adapters.fusion)?.into_iter();
    let adapters =
        adapters.map(|saved| digest_file(&saved.folder.join("adapter.safetensors")).map_err(Error::from));
    let digest = |part| task.has(part).then(|| T::digest(task.part(part)));
    let mut identity = json!({
        "config": settings,
        "fusion": adapters.collect::<Result<Vec<String>, Error>>()?,
        "start": model_files,
        "initialization_data": initialization_data_digest(config)?,
        "train": T::digest(&task.sets().train),
        "held_out": digest(Part::HeldOut),
        "dev": digest(Part::Dev),
        "dev_mismatched": digest(Part::DevMismatched),
        "test": digest(Part::Test),
    });
    if let Some(data) = &config.forgetting_data {
        identity["forgetting_data"] = DataSet::open(data)?.manifest().shards_digest().into();
    }
    if checkpoint.records_defaults {
        identity["defaults"] = json!(checkpoint.defaults);
    }
    Ok(identity)
}

/// Returns the digest of the shards of `--initialization-data`.
fn initialization_data_digest(config: &FinetuneConfig) -> Result<Option<String>, Error> {
    let Some(data) = &config.initialization_data else { return Ok(None) };
    Ok(Some(DataSet::open(data)?.manifest().shards_digest()))
}
