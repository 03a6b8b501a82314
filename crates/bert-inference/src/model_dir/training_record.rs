//! Reads a model's training settings from its fine-tuning report: lengths, precision and the form of its texts. Folders
//! from other programs have no report.

use std::path::Path;

use bert_kernels::Compute;
use bert_tasks::{Example, Kind, Task, TaskProblem};
use serde::Deserialize;

use crate::compute::compute_args::ComputeArgs;
use crate::compute::device::DeviceName;
use crate::compute::precision::PrecisionChoice;
use crate::encoding::squad_args::SquadArgs;
use crate::error::Error;
use crate::model_dir::json_file::{exists, read_record};
use crate::model_dir::resolved::Resolved;

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

/// The parts of `report.json` that determine how a model reads texts. Reports of earlier versions may lack any of them.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct TrainingRecord {
    config: TrainedConfig,
    resolved: Option<Resolved>,
    dev: Option<TrainedTask>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TrainedConfig {
    #[serde(flatten)]
    compute: ComputeArgs,
    #[serde(flatten)]
    squad: SquadArgs,
}

/// The task, with the columns of a table.
#[derive(Deserialize)]
struct TrainedTask {
    task: Task,
}

impl TrainingRecord {
    /// Reads the `report.json` of the fine-tuning that wrote this `model/` folder; other folders have none.
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.with_file_name("report.json");
        let has_report = folder.file_name().is_some_and(|name| name == "model") && exists(&path)?;
        if has_report { read_record(&path) } else { Ok(Self::default()) }
    }

    /// Returns the task, with the columns of a table.
    pub(crate) fn task(&self) -> Option<Task> {
        self.dev.as_ref().map(|dev| dev.task.clone())
    }

    /// Returns the maximum sequence length of the fine-tuning.
    pub(crate) fn max_seq_length(&self) -> Option<usize> {
        self.resolved.as_ref().map(|resolved| resolved.max_seq_length)
    }

    /// Returns the flags of question answering.
    pub(crate) fn squad(&self) -> &SquadArgs {
        &self.config.squad
    }

    /// Returns the kernels and precision of the fine-tuning, unless another precision is requested.
    ///
    /// # Errors
    /// [`Error::Configuration`] when the device does not support the precision.
    pub(crate) fn compute(&self, options: ModelOptions<'_>) -> Result<Compute, Error> {
        let trained = self.resolved.as_ref().map(|of| of.precision);
        let kernels = self.config.compute.kernels;
        // A GPU without bf16 runs a model that was trained in bf16 elsewhere.
        let trained =
            trained.filter(|of| options.device.is_cpu() || of.check(options.device, kernels).is_ok());
        let precision = PrecisionChoice::or_default(options.precision.or(trained), options.device);
        precision.check(options.device, kernels)?;
        Ok(precision.with(kernels))
    }

    /// Rejects a single text if the model was trained on pairs, and a pair if it was trained on single texts.
    pub(crate) fn check_form(&self, example: &Example) -> Result<(), TaskProblem> {
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
