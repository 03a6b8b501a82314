//! The inputs of every task: the configuration and the opened checkpoint with its tokenizer, device and kernels.

use std::path::PathBuf;

use bert_inference::Error;
use bert_inference::encoding::model_tokenizer::ModelTokenizer;
use bert_inference::model_dir::builtin_model;
use bert_inference::model_dir::model_folder::resolve_model_folder;
use bert_kernels::Compute;
use bert_model::{BertConfig, read_pretrained_config};
use bert_training::optimizer::size_defaults::{ChosenDefault, ModelSize};
use burn::tensor::Device;
use serde_json::Value;

use crate::config::FinetuneConfig;
use crate::config::size_defaults::TuningDefaults;
use crate::events::FinetuneEvent;

/// The inputs of every task.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// The configuration; in a grid, valid for all cells except learning rate, batch size and epochs.
    pub(crate) config: &'a FinetuneConfig,
    /// The checkpoint.
    pub(crate) checkpoint: &'a BaseCheckpoint,
    /// Maximum sequence length.
    pub(crate) max_seq_length: usize,
}

/// The checkpoint that every run starts from.
pub(crate) struct BaseCheckpoint {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Its name in reports and adapters: the folder, or the name of the built-in model.
    pub(crate) name: PathBuf,
    /// The model's configuration.
    pub(crate) model_config: BertConfig,
    /// The tokenizer and the vocabulary.
    pub(crate) tokenizer: ModelTokenizer,
    /// The device, with autodiff.
    pub(crate) device: Device,
    /// Kernels and precision.
    pub(crate) compute: Compute,
    /// Remarks on the labels of a table, for the report.
    pub(crate) notes: Vec<String>,
    /// The values of options that no flag gives.
    pub(crate) defaults: TuningDefaults,
    /// Whether the identity of the fine-tuning contains them. A fine-tuning from before they existed resumes without.
    pub(crate) records_defaults: bool,
}

impl BaseCheckpoint {
    /// Opens the device and the checkpoint of a configuration for sequences of up to `max_length` tokens. `saved` is the
    /// identity of the fine-tuning to resume, whose defaults are used.
    ///
    /// # Errors
    /// When one of them cannot be opened; [`Error::Mismatch`] when the model does not support this length.
    pub(crate) fn open(
        config: &FinetuneConfig,
        max_length: usize,
        saved: Option<&Value>,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<Self, Error> {
        let device = config.compute.device.open()?.autodiff();
        let folder = resolve_model_folder(&config.checkpoint, &mut |error| {
            on_event(FinetuneEvent::Warning(error.to_string()));
        })?;
        let name = builtin_model::meant(&config.checkpoint).map_or_else(|| folder.clone(), PathBuf::from);
        let tokenizer = ModelTokenizer::open(&folder)?;
        let model_config = read_pretrained_config(&folder)?;
        tokenizer.check_fits(&model_config, max_length)?;
        let recorded = saved.map(TuningDefaults::recorded);
        let defaults = match recorded {
            Some(recorded) => recorded.unwrap_or_else(|| TuningDefaults::published(config)),
            None => TuningDefaults::by_size(config, &ModelSize::new(&model_config)),
        };
        let precision = config.compute.precision.unwrap_or(defaults.precision);
        Ok(Self {
            folder,
            name,
            model_config,
            tokenizer,
            device,
            compute: precision.with(config.compute.kernels),
            notes: Vec::new(),
            defaults,
            records_defaults: recorded.is_none_or(|recorded| recorded.is_some()),
        })
    }

    /// Returns the options that the defaults fill in for a training set with this number of items, with the reasons.
    pub(crate) fn chosen_defaults(
        &self,
        config: &FinetuneConfig,
        items: Option<usize>,
    ) -> Vec<ChosenDefault> {
        self.defaults.chosen(config, &ModelSize::new(&self.model_config), items)
    }

    /// Returns the device without autodiff.
    pub(crate) fn inference_device(&self) -> Device {
        self.device.clone().inner()
    }
}
