//! Runs optimizer steps of pre-training on successive batches.

use std::ops::Range;
use std::time::Instant;

use bert_model::BertForPreTraining;
use burn::tensor::Device;

use super::events::StepTiming;
use super::objective::pretraining_objective;
use crate::data_loader::{LoaderPosition, Prefetcher};
use crate::error::Error;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::setup::inputs::RunInputs;
use crate::training::adamw::AdamW;
use crate::training::step::{NotFinite, StepId, StepReport, train_step};

/// A source of batches, and the settings of a step on one of them.
pub(super) struct StepRunner<'a> {
    config: &'a PretrainConfig,
    device: Device,
    has_next_sentence: bool,
    batches: Prefetcher,
    /// Number of finished steps.
    step: u64,
}

/// A finished step.
pub(super) struct FinishedStep {
    pub(super) report: StepReport,
    /// Whether the update was skipped because the loss or the gradient norm was not finite.
    pub(super) skipped: bool,
    /// Real masked-LM targets in the global batch.
    pub(super) predictions: u64,
    pub(super) timing: StepTiming,
}

impl<'a> StepRunner<'a> {
    /// Starts to load the batches of these steps; `position` is the loader's position before the first.
    pub(super) fn start(
        inputs: &RunInputs<'a>,
        steps: Range<u64>,
        position: Option<LoaderPosition>,
    ) -> Result<Self, Error> {
        let (config, step) = (inputs.config, steps.start);
        let batches = Prefetcher::start(inputs.loader(position)?, steps, config.batch_size);
        let (device, has_next_sentence) = (inputs.device.clone(), inputs.has_next_sentence());
        Ok(Self { config, device, has_next_sentence, batches, step })
    }

    /// Trains on the next batch.
    pub(super) fn run(
        &mut self,
        model: BertForPreTraining,
        optimizer: &mut AdamW,
        learning_rate: f64,
    ) -> Result<(BertForPreTraining, FinishedStep), Error> {
        let started = Instant::now();
        let batch = self.batches.next_batch()?;
        let waiting = started.elapsed().as_secs_f64();
        let micro_batches = batch.split(self.config.gradient_accumulation_steps);
        let loss = pretraining_objective(&batch, self.has_next_sentence, self.config.recompute, &self.device);
        let id = StepId { seed: self.config.seed, step: self.step };
        let (model, report) = train_step(model, optimizer, &micro_batches, loss, learning_rate, id);
        self.step += 1;
        let (report, skipped) = match report {
            Ok(report) => (report, false),
            Err(NotFinite { report }) => (report, true),
        };
        let predictions = batch.num_predictions() as u64;
        let timing = StepTiming { step: self.step, seconds: started.elapsed().as_secs_f64(), waiting };
        Ok((model, FinishedStep { report, skipped, predictions, timing }))
    }

    /// Returns the loader's position after the last batch.
    pub(super) fn position(&self) -> Option<LoaderPosition> {
        self.batches.position()
    }
}
