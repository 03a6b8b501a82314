//! Bundles what every objective needs: the configuration, the checkpoint's vocabulary, the device and how models
//! compute.

use crate::error::Error;
use crate::finetune::config::FinetuneConfig;
use crate::tasks::Split;
use crate::tasks::SplitFile;
use crate::tasks::TaskError;
use crate::text::Text;
use bert_kernels::Compute;
use burn::tensor::Device;
use std::path::Path;

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
