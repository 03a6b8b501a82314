//! Builds the data set of the documents that are held out of the training data.

use crate::builder::prepare::BuildProgress;
use crate::builder::{BuildOutcome, build};
use crate::config::hold_out::held_out_folder;
use crate::config::{BuildConfig, Layout, Masking};
use crate::dataset::manifest::Manifest;
use crate::documents::selection::too_few;
use crate::error::{Class, Result};

/// Builds the held-out data set of a complete training data set. Returns `None` without `--hold-out`.
///
/// # Errors
/// Fails as [`build`] does, and when no instance can be made of the held-out documents.
pub fn build_held_out(
    config: &BuildConfig,
    training: &Manifest,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Option<BuildOutcome>> {
    let (Some(held_out), Some(share)) = (config.held_out_config(), config.hold_out) else { return Ok(None) };
    let built = build(&held_out, progress).map_err(|error| match error.class() {
        // An error about the text as a whole has no path.
        Class::Data if error.is_absent() && error.path().is_none() => {
            too_few(share, 0, training.report.documents)
        }
        _ => error,
    });
    built.map(Some)
}

impl BuildConfig {
    /// Returns the configuration of the held-out data set: a different folder, the held-out documents, and one pass
    /// with fixed masks, so that evaluations are comparable. Returns `None` without `--hold-out`.
    #[must_use]
    pub fn held_out_config(&self) -> Option<Self> {
        let output = self.output.as_ref().filter(|_| self.hold_out.is_some() && !self.held_out)?;
        Some(Self {
            output: Some(held_out_folder(output)),
            held_out: true,
            layout: Layout::Instances,
            masking: Masking::Static,
            dupe_factor: 1,
            num_shards: None,
            preview: 0,
            ..self.clone()
        })
    }
}
