//! Describes the computation of a fine-tuning: its settings, and digests of its weights and data.
//!
//! A fine-tuning resumes only if this description is unchanged. The digests of dev show whether two fine-tunings were
//! scored on the same examples.

use bert_data::DataSet;
use bert_storage::{digest_bytes, digest_file};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::finetune::config::FinetuneConfig;
use crate::finetune::model::adapters::read_adapters;
use crate::finetune::model::pretrained::Setup;
use crate::finetune::objectives::{Objective, Part};
use crate::run_dir::identity::differences;
use crate::run_dir::json_file::exists;
use crate::run_dir::report_file::ReportFile;

/// Flags that are paths or do not affect a single run. The contents of the paths are compared by digest.
const PLACES: [&str; 10] = [
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
];

/// Files of a model folder that affect the computation.
const START: [&str; 5] =
    ["model.safetensors", "config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json"];

/// Returns the settings and digests that determine every run. The list of seeds is excluded: a run depends only on its
/// own seed.
///
/// # Errors
/// When a file of the checkpoint cannot be read.
pub(crate) fn identity<O: Objective>(objective: &O) -> Result<Value, Error> {
    let Setup { config, opened, .. } = objective.setup();
    let mut settings = serde_json::to_value(config).expect("plain data");
    for place in PLACES {
        settings.as_object_mut().expect("a configuration").remove(place);
    }
    let mut start = Map::new();
    for name in START {
        let path = opened.start.join(name);
        if exists(&path)? {
            start.insert(name.to_string(), digest_file(&path)?.into());
        }
    }
    let adapters = read_adapters(&config.fusion)?.into_iter();
    let adapters =
        adapters.map(|(path, _)| digest_file(&path.join("adapter.safetensors")).map_err(Error::from));
    let digest = |part| objective.has(part).then(|| O::digest(objective.part(part)));
    Ok(json!({
        "config": settings,
        "fusion": adapters.collect::<Result<Vec<String>, Error>>()?,
        "start": start,
        "initialization_data": counted_text(config)?,
        "train": O::digest(&objective.sets().train),
        "held_out": digest(Part::HeldOut),
        "dev": digest(Part::Dev),
        "dev_mismatched": digest(Part::DevMismatched),
        "test": digest(Part::Test),
    }))
}

/// Returns the digest of the shards of `--initialization-data`.
fn counted_text(config: &FinetuneConfig) -> Result<Option<String>, Error> {
    let Some(data) = &config.initialization_data else { return Ok(None) };
    let data = DataSet::open(data)?;
    let shards: Vec<&str> = data.manifest().shards.iter().map(|shard| shard.blake3.as_str()).collect();
    Ok(Some(digest_bytes(shards.concat().as_bytes())))
}

/// Lists the differences between a finished fine-tuning and the present configuration; these include the seeds and the
/// file of `--predict`.
///
/// # Errors
/// When the report cannot be read, or is from an earlier version that did not record the identity.
pub(crate) fn changed_since<O: Objective>(objective: &O) -> Result<Vec<String>, Error> {
    let config = objective.setup().config;
    let report = ReportFile::read(&config.output)?;
    let saved = &report.value["identity"];
    if saved.is_null() {
        let text = "the report is of an earlier version and does not record its weights and data";
        return Ok(vec![text.to_string()]);
    }
    // Round the numbers as reading the file does.
    let as_read = |value: Value| serde_json::from_str(&value.to_string()).expect("JSON of ours");
    let mut changed = differences(saved, &as_read(identity(objective)?));
    let now = as_read(serde_json::to_value(config).expect("plain data"));
    for flag in ["seeds", "predict"] {
        let saved = &report.value["config"][flag];
        if *saved != now[flag] {
            changed.push(format!("{flag} was {saved}, now {}", now[flag]));
        }
    }
    Ok(changed)
}
