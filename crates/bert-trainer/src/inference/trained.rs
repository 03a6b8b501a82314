//! Reads from the report of a fine-tuning what its model was trained on: lengths, precision, and the form of its
//! texts. Folders from elsewhere have no report.

use std::path::Path;

use bert_kernels::Compute;
use serde_json::Value;

use super::model_folder::trained_setting;
use crate::device::KernelChoice;
use crate::device_name::DeviceName;
use crate::error::Error;
use crate::precision::PrecisionChoice;
use crate::tasks::{Example, Kind, Task, TaskProblem};

/// How a model folder is opened for new texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelOptions<'a> {
    /// The encoder of an adapter, where its folder's own word does not count.
    pub encoder: Option<&'a Path>,
    /// The longest sequence; `None`: that of the fine-tuning, else the model's positions.
    pub max_length: Option<usize>,
    /// The precision of matrix products; `None`: that of the fine-tuning, else the device's.
    pub precision: Option<PrecisionChoice>,
    /// What computes.
    pub device: DeviceName,
}

/// What is known of the fine-tuning that made a model.
pub(super) struct Trained {
    /// `report.json`; null for a folder from elsewhere.
    pub(super) report: Value,
}

impl Trained {
    /// The report beside a model folder.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(folder: &Path) -> Result<Self, Error> {
        Ok(Self { report: trained_setting(folder)? })
    }

    /// The task, with the columns of a table.
    pub(super) fn task(&self) -> Option<Task> {
        serde_json::from_value(self.report["dev"]["task"].clone()).ok()
    }

    /// How the model computes: as in its fine-tuning, unless another precision is asked for.
    ///
    /// # Errors
    /// [`Error::Configuration`] when the precision is not for this device.
    pub(super) fn compute(&self, options: ModelOptions<'_>) -> Result<Compute, Error> {
        let trained = serde_json::from_value(self.report["resolved"]["precision"].clone()).ok();
        let kernels = serde_json::from_value(self.report["config"]["kernels"].clone());
        let kernels = kernels.unwrap_or(KernelChoice::Fused);
        let precision = PrecisionChoice::or_default(options.precision.or(trained), options.device);
        precision.check(options.device, kernels)?;
        Ok(precision.with(kernels))
    }

    /// Refuses a single text where the model learnt pairs, and a pair where it learnt single texts.
    ///
    /// # Errors
    /// [`TaskProblem::WrongValue`].
    pub(super) fn check_form(&self, example: &Example) -> Result<(), TaskProblem> {
        let Some(spec) = self.task().map(Task::spec) else { return Ok(()) };
        let gives_labels = matches!(spec.kind, Kind::Classification { .. } | Kind::Regression { .. });
        let (found, expected) = match (spec.pair, example.text_b.is_some()) {
            (true, false) if gives_labels => (
                "missing",
                "the second text of a pair, as in training; --format tsv has a tab between the two",
            ),
            (false, true) if gives_labels => {
                ("there", "no second text: the model was trained on single texts")
            }
            _ => return Ok(()),
        };
        Err(TaskProblem::WrongValue { column: "text_b".to_string(), found, expected })
    }
}
