//! Reads the settings of a run from `run.json`, for report pages and model cards.
//!
//! `run_folder.rs` writes this file and compares it when the run is resumed.

use std::path::PathBuf;

use bert_model::BertConfig;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Map;

use crate::compute::precision::PrecisionChoice;
use crate::data_loader::training_data::TrainingData;
use crate::training::optimizer::adamw::AdamWConfig;

/// `run.json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RunFile {
    pub(crate) config: RunPaths,
    pub(crate) identity: RunIdentity,
}

/// The data folders of a run.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct RunPaths {
    /// The training data.
    pub(crate) data: TrainingData,
    /// The held-out data.
    pub(crate) eval_data: Option<PathBuf>,
    /// Maximum number of held-out instances.
    pub(crate) eval_instances: Option<u64>,
}

/// The settings that determine the results of a run; names of choices are spelled as on the command line.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RunIdentity {
    pub(crate) steps: u64,
    /// Sequences in a step.
    pub(crate) batch_size: u64,
    /// Maximum learning rate.
    pub(crate) learning_rate: f64,
    pub(crate) warmup_steps: u64,
    pub(crate) schedule: String,
    #[serde(default)]
    pub(crate) optimizer: Moments,
    pub(crate) seed: u64,
    #[serde(default)]
    pub(crate) precision: PrecisionChoice,
    #[serde(deserialize_with = "model")]
    pub(crate) model: BertConfig,
    /// BLAKE3 of the weights of `--init-checkpoint`.
    pub(crate) init_checkpoint: Option<String>,
    /// `None` for a run from a checkpoint, and for the initialization of the paper.
    pub(crate) initialization: Option<String>,
    /// BLAKE3 of the digests of the training shards.
    pub(crate) data: String,
    /// BLAKE3 of the vocabulary.
    #[serde(default)]
    pub(crate) vocabulary: String,
    /// `None` for a run of an earlier version.
    pub(crate) data_rules: Option<DataRules>,
    /// The data sets of a mixture; empty for one data set.
    #[serde(default)]
    pub(crate) mixture: Vec<MixedData>,
}

impl RunIdentity {
    /// Returns the share of the samples that are from the first data set.
    pub(crate) fn first_share(&self) -> f64 {
        self.mixture.first().map_or(1.0, |data| data.share)
    }
}

/// A data set of a mixture.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MixedData {
    /// BLAKE3 of the digests of its shards.
    pub(crate) data: String,
    /// Share of the samples.
    pub(crate) share: f64,
}

/// The part of the optimizer's hyper-parameters that has a default by model size.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Moments {
    /// Decay rate of the second moment.
    pub(crate) beta2: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { beta2: AdamWConfig::default().beta2 }
    }
}

/// The options by which the training instances are made.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct DataRules {
    pub(crate) max_seq_length: u64,
    pub(crate) masked_lm_prob: f64,
    pub(crate) nsp: String,
    pub(crate) layout: String,
    pub(crate) masking: String,
}

fn model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BertConfig, D::Error> {
    BertConfig::from_json(Map::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
impl RunIdentity {
    /// Returns the identity of a run of BERT-tiny with 8,000 word pieces and batches of 32.
    pub(crate) fn example(steps: u64) -> Self {
        Self {
            steps,
            batch_size: 32,
            learning_rate: 1e-3,
            warmup_steps: 10,
            schedule: "bert".into(),
            optimizer: Moments { beta2: 0.98 },
            seed: 1,
            precision: PrecisionChoice::F32,
            model: BertConfig::preset(bert_model::Preset::Tiny, 8000),
            init_checkpoint: None,
            initialization: None,
            data: String::new(),
            mixture: Vec::new(),
            vocabulary: String::new(),
            data_rules: None,
        }
    }
}
