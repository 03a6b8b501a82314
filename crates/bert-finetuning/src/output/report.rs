//! Defines `report.json`, the report of a fine-tuning, and reads it.

use std::path::{Path, PathBuf};

use bert_inference::Resolved;
use bert_inference::json_file::read_record;
use bert_storage::exists;
use bert_tasks::SeedSummary;
use bert_training::identity::differences;
use bert_training::{ChosenDefault, Error};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
    pub config: FinetuneConfig,
    /// The values of all defaults; for a grid, of the chosen cell.
    pub resolved: Resolved,
    /// The options that no flag gave and that follow from model size and processor, with the reasons.
    pub defaults: Vec<ChosenDefault>,
    /// All configurations of a grid.
    pub grid: Option<GridReport>,
    /// The attention over the adapters of `--fusion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fusion: Option<FusionReport>,
    /// Commit of the program, or `unknown`.
    pub commit: String,
    /// The model folder that training started from, or the name of the built-in model.
    pub start: PathBuf,
    /// Number of trained parameters.
    pub parameters: TrainedParameters,
    /// Number of examples trained on.
    pub train_examples: usize,
    /// The division of the training file.
    pub training: TrainingParts,
    /// Settings and digests of weights, vocabulary and data that determine the results.
    pub identity: Value,
    /// Digest of the dev examples and labels; only runs with the same digest are comparable.
    pub dev_digest: String,
    /// The selection of the scored epochs.
    pub selection: SelectionReport,
    /// The texts that each scored set shares with the training set.
    pub shared_texts: Vec<SharedTexts>,
    /// Whether train or dev is a sample instead of the official file, so that scores are not comparable.
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
    pub warnings: Vec<String>,
    /// Path of the fine-tuned model.
    pub model: PathBuf,
    /// Paths of the models of all runs, in their order; empty without `--keep-seeds`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seed_models: Vec<PathBuf>,
}

impl FinetuneReport {
    /// Returns the model from which training started, as a page names it.
    pub fn start_text(&self) -> String {
        let shape = if self.config.random_init { "random weights in the shape of " } else { "" };
        format!("{shape}{}", self.start.display())
    }

    /// Reads the report in the output folder of a fine-tuning.
    ///
    /// # Errors
    /// Fails when the folder has no report, or when the report cannot be read.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("report.json");
        if !exists(&path)? {
            return Err(Error::failed("no finished fine-tuning here (no report.json)").at(folder));
        }
        read_record(&path)
    }

    /// Returns the differences between this report's fine-tuning and a task's present configuration and files. The
    /// seeds and the file of `--predict` are compared too.
    pub(crate) fn differences<T: FinetuneTask>(&self, task: &T) -> Result<Vec<String>, Error> {
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
