//! Defines `report.json`, the report of a fine-tuning, and reads it.
//!
//! A field that an earlier version did not write has a default, so its reports can still be read.

use std::path::{Path, PathBuf};

use bert_inference::model_dir::json_file::{exists, read_record};
use bert_inference::model_dir::resolved::Resolved;
use bert_inference::{Error, FolderProblem};
use bert_storage::Locate;
use bert_tasks::Task;
use bert_tasks::statistics::SeedSummary;
use bert_training::optimizer::size_defaults::ChosenDefault;
use bert_training::run_dir::identity::differences;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::config::FinetuneConfig;
use crate::config::grid::GridReport;
use crate::data::holdout::TrainingParts;
use crate::data::text_hashes::SharedTexts;
use crate::files::adapters::FusionReport;
use crate::kinds::FinetuneTask;
use crate::model::adapters::TrainedParameters;
use crate::output::selection::SelectionReport;
use crate::run::fingerprint::identity;
use crate::run::run_report::RunReport;

/// `report.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FinetuneReport {
    /// The configuration as given.
    #[serde(deserialize_with = "with_defaults")]
    pub config: FinetuneConfig,
    /// The values of all defaults; for a grid, of the chosen cell.
    pub resolved: Resolved,
    /// The options that no flag gave and that follow from model size and processor, with the reasons.
    #[serde(default)]
    pub defaults: Vec<ChosenDefault>,
    /// All configurations of a grid.
    pub grid: Option<GridReport>,
    /// The attention over the adapters of `--fusion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fusion: Option<FusionReport>,
    /// Commit of the program; absent in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
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
    /// How the scored epochs were selected; `None` in reports of earlier versions.
    #[serde(default)]
    pub selection: Option<SelectionReport>,
    /// The texts that each scored set shares with the training set.
    #[serde(default)]
    pub shared_texts: Vec<SharedTexts>,
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
        read_record(&path)
    }

    /// Returns the differences between this report's fine-tuning and a task's present configuration and files; these
    /// include the seeds and the file of `--predict`.
    pub(crate) fn differences<T: FinetuneTask>(&self, task: &T) -> Result<Vec<String>, Error> {
        if self.identity.is_null() {
            let text = "the report is of an earlier version and does not record its weights and data";
            return Ok(vec![text.to_string()]);
        }
        let mut changed = differences(&self.identity, &identity(task)?);
        let outputs = |config: &FinetuneConfig| json!({ "seeds": config.seeds, "predict": config.predict });
        changed.extend(differences(&outputs(&self.config), &outputs(task.setup().config)));
        Ok(changed)
    }

    /// Returns the run whose model is saved: the first one with the highest selection score.
    pub fn best_run(&self) -> Option<&RunReport> {
        let primary = self.dev.task.spec().primary;
        let better =
            |run: &RunReport, best: &RunReport| run.selection_score(primary) > best.selection_score(primary);
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
