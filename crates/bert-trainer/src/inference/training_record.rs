//! Reads a model's training settings from its fine-tuning report: lengths, precision and the form of its texts. Folders
//! from other programs have no report.

use std::path::Path;

use bert_kernels::Compute;
use serde_json::Value;

use crate::compute::device::{DeviceName, KernelChoice};
use crate::compute::precision::PrecisionChoice;
use crate::error::Error;
use crate::run_dir::json_file::{exists, read_json};
use bert_tasks::{Example, Kind, Task, TaskProblem};

/// Options for opening a model folder.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelOptions<'a> {
    /// The encoder of an adapter, replacing the one that its folder names.
    pub encoder: Option<&'a Path>,
    /// Maximum sequence length; `None` for the fine-tuning's, else the model's number of positions.
    pub max_length: Option<usize>,
    /// Precision of matrix products; `None` for the fine-tuning's, else the device's default.
    pub precision: Option<PrecisionChoice>,
    /// Compute device.
    pub device: DeviceName,
}

/// The record of the fine-tuning that produced a model.
pub(super) struct TrainingRecord {
    /// `report.json`; null for a folder from another program.
    pub(super) report: Value,
}

impl TrainingRecord {
    /// Reads the `report.json` of the fine-tuning that wrote this `model/` folder; other folders have none.
    pub(super) fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.with_file_name("report.json");
        let has_report = folder.file_name().is_some_and(|name| name == "model") && exists(&path)?;
        Ok(Self { report: if has_report { read_json(&path)? } else { Value::Null } })
    }

    /// Returns the task, with the columns of a table.
    pub(super) fn task(&self) -> Option<Task> {
        serde_json::from_value(self.report["dev"]["task"].clone()).ok()
    }

    /// Returns the kernels and precision of the fine-tuning, unless another precision is requested.
    ///
    /// # Errors
    /// [`Error::Configuration`] when the device does not support the precision.
    pub(super) fn compute(&self, options: ModelOptions<'_>) -> Result<Compute, Error> {
        let trained = serde_json::from_value(self.report["resolved"]["precision"].clone()).ok();
        let kernels = serde_json::from_value(self.report["config"]["kernels"].clone());
        let kernels = kernels.unwrap_or(KernelChoice::Fused);
        let precision = PrecisionChoice::or_default(options.precision.or(trained), options.device);
        precision.check(options.device, kernels)?;
        Ok(precision.with(kernels))
    }

    /// Rejects a single text if the model was trained on pairs, and a pair if it was trained on single texts.
    pub(super) fn check_form(&self, example: &Example) -> Result<(), TaskProblem> {
        let Some(task) = self.task() else { return Ok(()) };
        let spec = task.spec();
        let gives_labels = matches!(spec.kind, Kind::Classification | Kind::Regression { .. });
        let (found, expected) = match (spec.pair, example.text_b.is_some()) {
            (true, false) if gives_labels => (
                "missing",
                "the second text of a pair, as in training; with --format tsv separate the two by a tab",
            ),
            (false, true) if gives_labels => {
                ("there", "no second text: the model was trained on single texts")
            }
            _ => return Ok(()),
        };
        Err(TaskProblem::WrongValue { column: "text_b".to_string(), found, expected })
    }
}
