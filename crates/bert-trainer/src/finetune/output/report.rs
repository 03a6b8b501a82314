//! Defines `report.json`, the report of a fine-tuning, and reads it.
//!
//! A field that an earlier version did not write has a default, so its reports can still be read.

use std::path::{Path, PathBuf};

use bert_storage::Locate;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, FolderProblem};
use crate::finetune::config::FinetuneConfig;
use crate::finetune::config::grid::GridReport;
use crate::finetune::config::resolve::Resolved;
use crate::finetune::model::adapters::{FusionReport, TrainedParameters};
use crate::finetune::objectives::Part;
use crate::finetune::objectives::holdout::TrainingParts;
use crate::run_dir::json_file::{exists, read_json};
use bert_tasks::statistics::{Calibration, SeedSummary};
use bert_tasks::{Metric, Scores, Task};

/// One epoch of a run; the last may be partial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Finished steps.
    pub step: u64,
    /// Epochs trained, `step * batch / examples`.
    pub epoch: f64,
    /// Mean training loss of the epoch's steps; `None` if it had no step, as can happen with several tasks.
    pub train_loss: Option<f64>,
    /// Scores on dev after the epoch, if evaluated (`--select last`: at the end only; `--holdout`: never).
    pub dev: Option<Scores>,
    /// Scores on the held-out part of train, if evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<Scores>,
}

/// One run in the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// Its seed.
    pub seed: u64,
    /// Epochs trained at the selected state.
    pub epoch: f64,
    /// Whether `--patience` ended the run before its last epoch.
    #[serde(default)]
    pub stopped_early: bool,
    /// Whether its training loss ended far above the loss of a uniform prediction.
    #[serde(default)]
    pub diverged: bool,
    /// Scores on the held-out part of train, which selected the state.
    pub held_out: Option<Scores>,
    /// Scores on dev.
    pub dev: Scores,
    /// Scores on the second dev set, if the task has one.
    pub dev_mismatched: Option<Scores>,
    /// Scores on test, if its labels are published.
    pub test: Option<Scores>,
    /// Confusion matrix on dev: rows are true classes, columns are predictions; `None` for a regression.
    pub confusion: Option<Vec<Vec<u64>>>,
    /// Calibration on dev; `None` for a regression.
    pub calibration: Option<Calibration>,
    /// Training loss and scores on dev for each epoch.
    #[serde(default)]
    pub history: Vec<EpochReport>,
}

impl RunReport {
    /// Returns the metric that selects states, runs and cells: on the held-out part of train if there is one, else on
    /// dev.
    pub(crate) fn deciding(&self, metric: Metric) -> f64 {
        self.held_out.as_ref().unwrap_or(&self.dev).get(metric).unwrap_or(f64::NAN)
    }

    /// Returns the scores on a part, if it was scored.
    pub(crate) fn scores(&self, part: Part) -> Option<&Scores> {
        match part {
            Part::HeldOut => self.held_out.as_ref(),
            Part::Dev => Some(&self.dev),
            Part::DevMismatched => self.dev_mismatched.as_ref(),
            Part::Test => self.test.as_ref(),
        }
    }
}

/// `report.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FinetuneReport {
    /// The configuration as given.
    #[serde(deserialize_with = "with_defaults")]
    pub config: FinetuneConfig,
    /// The values of all defaults; for a grid, of the chosen cell.
    pub resolved: Resolved,
    /// All configurations of a grid.
    pub grid: Option<GridReport>,
    /// The attention over the adapters of `--fusion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fusion: Option<FusionReport>,
    /// The model folder that training started from, or the name of the built-in model.
    pub start: PathBuf,
    /// Number of trained parameters; zeros in reports of earlier versions.
    #[serde(default)]
    pub parameters: TrainedParameters,
    /// Number of examples trained on.
    #[serde(default)]
    pub train_examples: usize,
    /// How the training file was split.
    #[serde(default)]
    pub training: TrainingParts,
    /// Settings and digests of weights, vocabulary and data that determine the results; null in reports of earlier
    /// versions.
    #[serde(default)]
    pub identity: Value,
    /// Digest of the dev examples and labels; only runs with the same digest are comparable. Empty in reports of
    /// earlier versions.
    #[serde(default)]
    pub dev_digest: String,
    /// Whether train or dev is a sample instead of the official file, so that scores are not comparable.
    #[serde(default)]
    pub is_sample: bool,
    /// The runs.
    pub runs: Vec<RunReport>,
    /// Summary of the runs on dev.
    pub dev: SeedSummary,
    /// Summary of the runs on the second dev set.
    pub dev_mismatched: Option<SeedSummary>,
    /// Summary of the runs on test.
    pub test: Option<SeedSummary>,
    /// Warnings: [`SeedSummary::warnings`] on dev, [`TrainingParts::warning`], runs that diverged, and remarks on the
    /// data.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Path of the fine-tuned model.
    #[serde(default)]
    pub model: PathBuf,
}

impl FinetuneReport {
    /// Reads the report in the output folder of a fine-tuning.
    ///
    /// # Errors
    /// [`FolderProblem::NoFinetuning`] when the folder has no report; when the report cannot be read.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("report.json");
        if !exists(&path)? {
            return Err(FolderProblem::NoFinetuning.located(folder).into());
        }
        serde_json::from_value(read_json(&path)?).map_err(|error| Error::corrupt(&path, error))
    }

    /// Returns the run whose model is saved: the first one with the highest deciding score.
    pub(crate) fn best_run(&self) -> Option<&RunReport> {
        let primary = self.dev.task.spec().primary;
        let better = |run: &RunReport, best: &RunReport| run.deciding(primary) > best.deciding(primary);
        self.runs.iter().reduce(|best, run| if better(run, best) { run } else { best })
    }
}

/// Reads a configuration. An option that an earlier version did not have gets its default.
fn with_defaults<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FinetuneConfig, D::Error> {
    let saved: Map<String, Value> = Map::deserialize(deserializer)?;
    let defaults = serde_json::to_value(FinetuneConfig::new(Task::Rte, "", ""));
    let mut options = defaults.map_err(D::Error::custom)?;
    options.as_object_mut().expect("a configuration").extend(saved);
    serde_json::from_value(options).map_err(D::Error::custom)
}
