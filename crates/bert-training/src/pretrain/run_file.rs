//! Reads the settings of a run from `run.json`, for report pages and model cards.
//!
//! `run_folder.rs` writes this file and compares it when the run is resumed.

use std::path::PathBuf;

use bert_inference::PrecisionChoice;
use bert_inference::environment::Invocation;
use bert_model::BertConfig;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Map;

use crate::data_loader::training_data::TrainingData;
use crate::pretrain::config::EvalPart;
use crate::pretrain::shared_text::SharedText;
use crate::pretrain::work::Work;

/// `run.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct RunFile {
    /// The data folders, and the model that the run started from.
    pub config: RunPaths,
    /// The command that started the run, and its computers.
    pub start: Invocation,
    /// The settings that determine the results.
    pub identity: RunIdentity,
    /// The floating-point operations of a sequence, and the rate of the device.
    pub work: Work,
    /// The text shared by data sets that should be disjoint.
    pub shared_text: Vec<SharedText>,
}

/// The data folders of a run, and the model that it started from.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RunPaths {
    /// The training data.
    pub data: TrainingData,
    /// The held-out data.
    pub eval_data: Option<PathBuf>,
    /// The held-out data of the parts of a mixture; empty for one data set.
    #[serde(default)]
    pub eval_parts: Vec<EvalPart>,
    /// Maximum number of held-out instances.
    pub eval_instances: Option<u64>,
    /// The model that the run started from.
    pub init_checkpoint: Option<PathBuf>,
}

/// The settings that determine the results of a run; names of choices are spelled as on the command line.
#[derive(Clone, Debug, Deserialize)]
pub struct RunIdentity {
    /// Number of steps.
    pub steps: u64,
    /// Number of sequences in a step.
    pub batch_size: u64,
    /// Maximum learning rate.
    pub learning_rate: f64,
    /// Number of warm-up steps.
    pub warmup_steps: u64,
    /// Learning-rate schedule.
    pub schedule: String,
    /// The optimizer.
    pub optimizer: Moments,
    /// Random seed.
    pub seed: u64,
    /// Precision of matrix products.
    pub precision: PrecisionChoice,
    /// The model's configuration.
    #[serde(deserialize_with = "model")]
    pub model: BertConfig,
    /// BLAKE3 of the weights of `--init-checkpoint`.
    pub init_checkpoint: Option<String>,
    /// The initial weights; `None` for a run from a checkpoint.
    pub initialization: Option<String>,
    /// BLAKE3 of the digests of the training shards.
    pub data: String,
    /// BLAKE3 of the vocabulary.
    pub vocabulary: String,
    /// The options by which the training instances are made.
    pub data_rules: DataRules,
    /// The data sets of a mixture; empty for one data set.
    #[serde(default)]
    pub mixture: Vec<MixedData>,
}

impl RunIdentity {
    /// Returns the digests of all data sets.
    pub fn data_digests(&self) -> Vec<String> {
        match &self.mixture[..] {
            [] => vec![self.data.clone()],
            mixture => mixture.iter().map(|part| part.data.clone()).collect(),
        }
    }

    /// Returns the share of the samples that are from the first data set.
    pub fn first_share(&self) -> f64 {
        self.mixture.first().map_or(1.0, |data| data.share)
    }
}

/// A data set of a mixture.
#[derive(Clone, Debug, Deserialize)]
pub struct MixedData {
    /// BLAKE3 of the digests of its shards.
    pub data: String,
    /// Share of the samples.
    pub share: f64,
}

/// Hyper-parameters of the optimizer whose defaults depend on the size of the model.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Moments {
    /// Decay rate of the second moment.
    pub beta2: f64,
}

/// The options by which the training instances are made.
#[derive(Clone, Debug, Deserialize)]
pub struct DataRules {
    /// Maximum sequence length.
    pub max_seq_length: u64,
    /// Fraction of masked tokens.
    pub masked_lm_prob: f64,
    /// Kind of sentence pairs.
    pub nsp: String,
    /// Content of the shards.
    pub layout: String,
    /// The time at which the masks are drawn: `static` or `dynamic`.
    pub masking: String,
}

fn model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BertConfig, D::Error> {
    BertConfig::from_json(Map::deserialize(deserializer)?).map_err(D::Error::custom)
}
