//! Bundles the inputs of every objective: the configuration, the checkpoint's vocabulary, the device and the kernels.

use std::path::PathBuf;

use bert_kernels::Compute;
use bert_model::BertConfig;
use burn::tensor::Device;

use crate::compute::precision::PrecisionChoice;
use crate::encoding::model_tokenizer::Text;
use crate::error::Error;
use crate::finetune::config::FinetuneConfig;
use crate::finetune::events::FinetuneEvent;
use crate::run_dir::builtin_model;
use crate::run_dir::model_folder::resolve_model_folder;

/// The inputs of every objective.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// The configuration; in a grid, valid for all cells except learning rate, batch size and epochs.
    pub(crate) config: &'a FinetuneConfig,
    /// The opened checkpoint.
    pub(crate) opened: &'a Opened,
    /// Maximum sequence length.
    pub(crate) max_seq_length: usize,
}

/// An opened checkpoint to start from.
pub(crate) struct Opened {
    /// The checkpoint's folder.
    pub(crate) start: PathBuf,
    /// The name of the checkpoint in reports and adapters: its folder, or the name of the built-in model.
    pub(crate) start_name: PathBuf,
    /// The model's configuration.
    pub(crate) model: BertConfig,
    /// The vocabulary.
    pub(crate) text: Text,
    /// The device, with autodiff.
    pub(crate) device: Device,
    /// Kernels and precision.
    pub(crate) compute: Compute,
    /// Remarks on the labels of a table, for the report.
    pub(crate) notes: Vec<String>,
}

impl Opened {
    /// Opens the device and the checkpoint of a configuration for sequences of up to `longest` tokens.
    ///
    /// # Errors
    /// When one of them cannot be opened; [`Error::Mismatch`] when the model does not support this length.
    pub(crate) fn new(
        config: &FinetuneConfig,
        precision: PrecisionChoice,
        longest: usize,
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<Self, Error> {
        let device = config.device.open()?.autodiff();
        let start = resolve_model_folder(&config.checkpoint, &mut |error| {
            tell(FinetuneEvent::Warning(error.to_string()));
        })?;
        let start_name = match builtin_model::is_meant(&config.checkpoint) {
            true => config.checkpoint.clone(),
            false => start.clone(),
        };
        let text = Text::open(&start)?;
        let model = BertConfig::read(start.join("config.json"))?;
        text.check_fits(&model, longest)?;
        let compute = precision.with(config.kernels);
        Ok(Self { start, start_name, model, text, device, compute, notes: Vec::new() })
    }

    /// Returns the device without autodiff.
    pub(crate) fn plain(&self) -> Device {
        self.device.clone().inner()
    }
}
