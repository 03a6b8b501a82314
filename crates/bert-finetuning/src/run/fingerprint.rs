//! Describes the computation of a fine-tuning: its settings, and digests of its weights and data.
//!
//! A fine-tuning resumes only if this description is unchanged. The digests of dev show whether two fine-tunings were
//! scored on the same examples.

use bert_data::DataSet;
use bert_model::WeightsFiles;
use bert_storage::{digest_file, exists};
use bert_training::identity::merged;
use bert_training::{Error, compared_fields};
use serde_json::{Map, Value, json};

use crate::config::FinetuneConfig;
use crate::config::flag_values::AdapterArgs;
use crate::data::datasets::Part;
use crate::kinds::FinetuneTask;
use crate::model::adapters::read_adapters;
use crate::setup::Setup;

/// Files of a model folder, except the weights, that affect the computation.
const MODEL_FILES: [&str; 5] =
    ["config.json", "bert_config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json"];

/// Returns the settings and digests that determine every run. The list of seeds is excluded: a run depends only on its
/// own seed.
pub(crate) fn identity<T: FinetuneTask>(task: &T) -> Result<Value, Error> {
    let Setup { config, checkpoint, .. } = task.setup();
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
    let adapters = adapters.map(|adapter| digest_file(&adapter.path.join("adapter.safetensors")));
    let digest = |part| task.has(part).then(|| T::digest(task.part(part)));
    let mut identity = json!({
        "config": compared_settings(config),
        "fusion": adapters.collect::<Result<Vec<String>, Error>>()?,
        "start": model_files,
        "initialization_data": initialization_data_digest(config)?,
        "train": T::digest(&task.sets().train),
        "held_out": digest(Part::HeldOut),
        "dev": digest(Part::Dev),
        "dev_mismatched": digest(Part::DevMismatched),
        "test": digest(Part::Test),
        "defaults": checkpoint.defaults,
    });
    // The models of finished runs exist only if `--keep-seeds` was given from the start.
    if config.keep_seeds {
        identity["keep_seeds"] = true.into();
    }
    if let Some(data) = &config.forgetting_data {
        identity["forgetting_data"] = DataSet::open(data)?.manifest().shards_digest().into();
    }
    Ok(identity)
}

/// Returns the settings that determine a run, by their names in `report.json`, without the files and folders that are
/// compared by digest.
pub fn compared_settings(config: &FinetuneConfig) -> Map<String, Value> {
    let own = compared_fields!(config => FinetuneConfig {
        freeze_encoder, head, trainable_layers, layer_decay, random_init, initialization, max_train_examples,
        holdout, subset_seed, num_train_epochs, train_batch_size, gradient_accumulation_steps, learning_rate,
        warmup_proportion, max_seq_length, select, patience;
        // The settings of these are added below.
        task, table, adapters, optimizer, squad, compute,
        // A run depends only on its own seed.
        seeds,
        // The contents are compared by digest.
        data, train_file, dev_file, test_file, checkpoint, initialization_data, forgetting_data, skip_unlabelled,
        // This field is part of the identity, but it is not a setting of a run.
        keep_seeds,
        // The runs do not depend on these.
        allow_overlap, output, predict,
    });
    let adapters = compared_fields!(&config.adapters => AdapterArgs {
        adapter, adapter_reduction, lora_rank, lora_alpha, merge_lora;
        // The contents are compared by digest.
        fusion,
    });
    let FinetuneConfig { task, table, optimizer, squad, compute, .. } = config;
    let task = json!({ "task": task.spec().name });
    merged([own, adapters, task, json!(table), json!(optimizer), json!(squad), json!(compute)])
}

/// Returns the digest of the shards of `--initialization-data`.
fn initialization_data_digest(config: &FinetuneConfig) -> Result<Option<String>, Error> {
    let Some(data) = &config.initialization_data else { return Ok(None) };
    Ok(Some(DataSet::open(data)?.manifest().shards_digest()))
}
