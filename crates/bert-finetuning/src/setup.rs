//! The inputs of every task: the configuration and the opened checkpoint with its tokenizer, device and kernels.

use std::path::PathBuf;

use bert_inference::hub_model::recorded_path;
use bert_inference::{
    DefaultLength, EncodingLength, ModelDescription, ModelFiles, ModelTokenizer, PrecisionChoice,
    check_segments, resolve_model_folder,
};
use bert_kernels::Compute;
use bert_model::BertConfig;
use bert_tasks::Kind;
use bert_training::{ChosenDefault, Error, ModelSize};
use burn::tensor::Device;
use serde_json::Value;

use crate::config::FinetuneConfig;
use crate::config::grid::TuningDefaults;
use crate::events::FinetuneEvent;

/// The inputs of every task.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// The configuration. In a grid, its values hold for all cells, except learning rate, batch size and epochs.
    pub(crate) config: &'a FinetuneConfig,
    /// The checkpoint.
    pub(crate) checkpoint: &'a BaseCheckpoint,
    /// Maximum sequence length.
    pub(crate) max_seq_length: usize,
}

impl Setup<'_> {
    /// Returns the description of the models that this fine-tuning trains.
    pub(crate) fn description(self) -> ModelDescription {
        let Setup { config, checkpoint, max_seq_length } = self;
        let trains_positions = !config.freeze_encoder
            && config.trainable_layers.is_none()
            && config.adapters.adapter.is_none()
            && config.adapters.fusion.is_empty();
        let base = if config.random_init { Some(0) } else { checkpoint.description.trained_positions };
        let trained_positions =
            base.map(|trained| if trains_positions { trained.max(max_seq_length) } else { trained });
        ModelDescription {
            max_seq_length: Some(max_seq_length),
            trained_positions,
            task: Some(config.task.clone()),
            squad: config.squad.clone(),
            precision: Some(checkpoint.precision),
            kernels: Some(config.compute.kernels),
            ..ModelDescription::default()
        }
    }
}

/// Returns a configuration with the maximum sequence length of [`ModelDescription::encoding_length`]: the given
/// length, or the task's default, limited to the trained positions of the checkpoint. Adds the remark on the length,
/// if there is one, to `notes`.
///
/// # Errors
/// Fails when the checkpoint cannot be read, or has fewer positions than the configuration asks for.
pub(crate) fn with_length(config: FinetuneConfig, notes: &mut Vec<String>) -> Result<FinetuneConfig, Error> {
    let folder = resolve_model_folder(&config.checkpoint, &mut |_| {})?;
    let ModelFiles { config: model, description, .. } = ModelFiles::open(&folder)?;
    let description = if config.random_init { ModelDescription::default() } else { description };
    let usual = config.task.spec().defaults.max_seq_length;
    let EncodingLength { tokens, remark } =
        description.encoding_length(config.max_seq_length, DefaultLength::Task(usual), &model)?;
    notes.extend(remark);
    // The task's default length is not recorded, because the user did not choose it.
    let max_seq_length = config.max_seq_length.or((tokens != usual).then_some(tokens));
    Ok(FinetuneConfig { max_seq_length, ..config })
}

/// The checkpoint that every run starts from.
pub(crate) struct BaseCheckpoint {
    /// The folder of the checkpoint.
    pub(crate) folder: PathBuf,
    /// The name of the checkpoint in reports and adapters: the folder, or the name of a built-in model or of a model on
    /// the Hub.
    pub(crate) name: PathBuf,
    /// The model's configuration.
    pub(crate) model_config: BertConfig,
    /// The description of the checkpoint.
    pub(crate) description: ModelDescription,
    /// The tokenizer and the vocabulary.
    pub(crate) tokenizer: ModelTokenizer,
    /// The device, with autodiff.
    pub(crate) device: Device,
    /// Kernels and precision.
    pub(crate) compute: Compute,
    /// Precision of matrix products.
    pub(crate) precision: PrecisionChoice,
    /// Remarks on the labels of a table, for the report.
    pub(crate) notes: Vec<String>,
    /// The values of options that no flag gives.
    pub(crate) defaults: TuningDefaults,
}

impl BaseCheckpoint {
    /// Opens the device and the checkpoint of a configuration. `saved` is the identity of the fine-tuning to resume,
    /// whose defaults are used.
    ///
    /// # Errors
    /// Fails when the device or the checkpoint cannot be opened, when files of the checkpoint contradict each other, or
    /// when the task has pairs of texts but the model has only one segment.
    pub(crate) fn open(
        config: &FinetuneConfig,
        saved: Option<&Value>,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<Self, Error> {
        let device = config.compute.device.open()?.autodiff();
        let folder = resolve_model_folder(&config.checkpoint, &mut |error| {
            on_event(FinetuneEvent::Warning(error.to_string()));
        })?;
        let name = recorded_path(&config.checkpoint, &folder);
        let ModelFiles { config: model_config, tokenizer, description } = ModelFiles::open(&folder)?;
        let spec = config.task.spec();
        let has_pairs = spec.pair || spec.choices > 0 || matches!(spec.kind, Kind::Spans { .. });
        check_segments(&model_config, has_pairs)?;
        let defaults = saved
            .and_then(TuningDefaults::recorded)
            .unwrap_or_else(|| TuningDefaults::by_size(config, &ModelSize::new(&model_config)));
        let precision = config.compute.precision.unwrap_or(defaults.precision);
        Ok(Self {
            description,
            folder,
            name,
            model_config,
            tokenizer,
            device,
            compute: precision.with(config.compute.kernels),
            precision,
            notes: Vec::new(),
            defaults,
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
