//! Defines `report.json`, the report of a fine-tuning.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::adapter::{FusionReport, TrainedParameters};
use super::config::FinetuneConfig;
use super::grid::GridReport;
use super::objectives::Part;
use super::resolve::Resolved;
use super::subset::TrainingParts;
use crate::significance::{Calibration, SeedSummary};
use crate::tasks::{Metric, Scores};

/// An epoch of a run, or what was left of the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Finished steps.
    pub step: u64,
    /// Epochs, `step * batch / examples`.
    pub epoch: f64,
    /// Mean training loss of its steps; none when it had no step, as one of several tasks may.
    pub train_loss: Option<f64>,
    /// Scores on dev after it, when they were taken (`--select last`: at the end only; `--holdout`: never).
    pub dev: Option<Scores>,
    /// Scores on what is held out of train, when they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<Scores>,
}

/// One run in the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// Its seed.
    pub seed: u64,
    /// Epochs at the chosen state.
    pub epoch: f64,
    /// Whether `--patience` ended the run before its last epoch.
    pub stopped_early: bool,
    /// Whether its training loss ended far above that of guessing.
    #[serde(default)]
    pub diverged: bool,
    /// Scores on what is held out of train, by which the state was chosen.
    pub held_out: Option<Scores>,
    /// Scores on dev.
    pub dev: Scores,
    /// Scores on the second dev set, where the task has one.
    pub dev_mismatched: Option<Scores>,
    /// Scores on test, where the task publishes its labels.
    pub test: Option<Scores>,
    /// How often each class of dev (row) was predicted as each class (column); not for a regression.
    pub confusion: Option<Vec<Vec<u64>>>,
    /// How sure it was of its answers to dev, and how often right; not for a regression.
    pub calibration: Option<Calibration>,
    /// Training loss and scores on dev, epoch by epoch.
    pub history: Vec<EpochReport>,
}

impl RunReport {
    /// By what states, runs and cells are chosen: the metric on what is held out of train, else on dev.
    pub(super) fn deciding(&self, metric: Metric) -> f64 {
        self.held_out.as_ref().unwrap_or(&self.dev).get(metric).unwrap_or(f64::NAN)
    }

    /// Its scores on a part, if it was scored on it.
    pub(super) fn scores(&self, part: Part) -> Option<&Scores> {
        match part {
            Part::HeldOut => self.held_out.as_ref(),
            Part::Dev => Some(&self.dev),
            Part::DevMismatched => self.dev_mismatched.as_ref(),
            Part::Test => self.test.as_ref(),
        }
    }
}

/// `report.json`.
#[derive(Clone, Debug, Serialize)]
pub struct FinetuneReport {
    /// The configuration as given.
    pub config: FinetuneConfig,
    /// The defaults that were filled in; of a grid those of the chosen cell.
    pub resolved: Resolved,
    /// Every configuration of a grid.
    pub grid: Option<GridReport>,
    /// The attention over the adapters of `--fusion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fusion: Option<FusionReport>,
    /// The model folder that was started from.
    pub start: PathBuf,
    /// How many of the model's parameters learned.
    pub parameters: TrainedParameters,
    /// Examples that were trained on.
    pub train_examples: usize,
    /// How the training file was divided.
    pub training: TrainingParts,
    /// What decides the numbers: settings, and digests of weights, vocabulary and data.
    pub identity: Value,
    /// Digest of the dev examples and their labels: runs on other ones are not compared.
    pub dev_digest: String,
    /// Whether train or dev is a sample, not the official file; its scores are not comparable then.
    pub is_sample: bool,
    /// Each run.
    pub runs: Vec<RunReport>,
    /// The runs together, on dev.
    pub dev: SeedSummary,
    /// The runs together, on the second dev set.
    pub dev_mismatched: Option<SeedSummary>,
    /// The runs together, on test.
    pub test: Option<SeedSummary>,
    /// What a reader of the figures should be warned of: [`SeedSummary::warnings`] on dev, [`TrainingParts::warning`], runs
    /// that diverged, and remarks on the data.
    pub warnings: Vec<String>,
    /// The tuned model.
    pub model: PathBuf,
}
