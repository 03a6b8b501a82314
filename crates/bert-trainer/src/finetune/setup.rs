//! Bundles what every objective needs: the configuration, the checkpoint's vocabulary, the device and how models
//! compute.

use std::path::{Path, PathBuf};

use bert_kernels::Compute;
use bert_model::BertConfig;
use burn::tensor::Device;

use crate::checkpoint::resolve_model_folder;
use crate::error::Error;
use crate::finetune::config::FinetuneConfig;
use crate::finetune::events::FinetuneEvent;
use crate::precision::PrecisionChoice;
use crate::tasks::{Split, SplitFile, TaskError};
use crate::text::Text;

/// What every objective is made of.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    /// The configuration; of a grid, that of all cells but for learning rate, batch and epochs.
    pub(super) config: &'a FinetuneConfig,
    /// The checkpoint's vocabulary.
    pub(super) text: &'a Text,
    /// The checkpoint's folder.
    pub(super) start: &'a Path,
    /// Layers of the checkpoint.
    pub(super) layers: usize,
    /// Longest sequence.
    pub(super) max_seq_length: usize,
    /// Device, with autodiff.
    pub(super) device: &'a Device,
    /// How models compute.
    pub(super) compute: Compute,
}

/// The checkpoint that a fine-tuning starts from, opened.
pub(super) struct Opened {
    /// Its folder.
    pub(super) start: PathBuf,
    /// Its shape.
    pub(super) model: BertConfig,
    text: Text,
    device: Device,
    compute: Compute,
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
        Ok(Self { start, model, text, device, compute: precision.with(config.kernels) })
    }

    /// What an objective of this configuration is made of.
    pub(super) fn setup<'a>(&'a self, config: &'a FinetuneConfig, max_seq_length: usize) -> Setup<'a> {
        let Self { start, model, text, device, compute } = self;
        let (layers, compute) = (model.num_hidden_layers, *compute);
        Setup { config, text, start, layers, max_seq_length, device, compute }
    }
}

impl Setup<'_> {
    /// Device without autodiff.
    pub(super) fn plain(&self) -> Device {
        self.device.clone().inner()
    }

    /// The file of a split that has labels; `None` when the task has no such split, or one that need not be there is
    /// not.
    ///
    /// # Errors
    /// When train, dev or a test file that was named is not there.
    pub(super) fn labelled_file(&self, split: Split) -> Result<Option<SplitFile>, Error> {
        let spec = self.config.task.spec();
        // A test file need not be there, unless it is named.
        let needed = matches!(split, Split::Train | Split::Dev)
            || (split == Split::Test && self.config.test_file.is_some());
        if !spec.has_split(split) || !spec.has_labels(split) {
            return Ok(None);
        }
        match self.config.find_split(split) {
            Ok(file) => Ok(Some(file)),
            Err(error) if needed => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    /// The file of train or dev.
    ///
    /// # Errors
    /// When it is not there.
    pub(super) fn needed_file(&self, split: Split) -> Result<SplitFile, Error> {
        let task = self.config.task;
        self.labelled_file(split)?.ok_or_else(|| TaskError::NoSuchSplit { task, split }.into())
    }
}
