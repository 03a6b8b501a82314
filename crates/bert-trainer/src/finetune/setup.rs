//! Bundles what every objective needs: the configuration, the checkpoint's vocabulary, the device and how models
//! compute.

use std::path::PathBuf;

use bert_kernels::Compute;
use bert_model::BertConfig;
use burn::tensor::Device;

use crate::checkpoint::resolve_model_folder;
use crate::error::Error;
use crate::finetune::config::FinetuneConfig;
use crate::finetune::events::FinetuneEvent;
use crate::precision::PrecisionChoice;
use crate::text::Text;

/// What every objective is made of.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    /// The configuration; of a grid, that of all cells but for learning rate, batch and epochs.
    pub(super) config: &'a FinetuneConfig,
    /// What it starts from.
    pub(super) opened: &'a Opened,
    /// Longest sequence.
    pub(super) max_seq_length: usize,
}

/// The checkpoint that a fine-tuning starts from, opened.
pub(super) struct Opened {
    /// Its folder.
    pub(super) start: PathBuf,
    /// Its configuration.
    pub(super) model: BertConfig,
    /// Its vocabulary.
    pub(super) text: Text,
    /// Device, with autodiff.
    pub(super) device: Device,
    /// How models compute.
    pub(super) compute: Compute,
    /// Remarks on the labels of a table, for the report.
    pub(super) notes: Vec<String>,
}

impl Opened {
    /// Opens the device and the checkpoint of a configuration for sequences of up to `longest` tokens.
    ///
    /// # Errors
    /// When one of them cannot be opened; [`Error::Mismatch`] when the model takes no such sequences.
    pub(super) fn new(
        config: &FinetuneConfig,
        precision: PrecisionChoice,
        longest: usize,
        tell: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<Self, Error> {
        let device = config.device.open()?.autodiff();
        let start = resolve_model_folder(&config.checkpoint, &mut |error| {
            tell(FinetuneEvent::Warning(error.to_string()));
        })?;
        let text = Text::open(&start)?;
        let model = BertConfig::read(start.join("config.json"))?;
        text.check_fits(&model, longest)?;
        Ok(Self { start, model, text, device, compute: precision.with(config.kernels), notes: Vec::new() })
    }

    /// Device without autodiff.
    pub(super) fn plain(&self) -> Device {
        self.device.clone().inner()
    }
}
