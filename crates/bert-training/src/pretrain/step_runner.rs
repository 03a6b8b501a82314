//! Runs optimizer steps of pre-training on successive batches.
//!
//! Runs a [`DataLoader`] on a separate thread, two batches ahead of the training step.
//!
//! The [`Prefetcher`] returns one batch per step, in order, with its position in the data. An error of the loader is
//! returned instead of the batch, and a panic on its thread is resumed when the batch is requested.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use bert_inference::checkpoint::LoaderPosition;
use bert_model::{BertForPreTraining, LossNormalizer};
use burn::tensor::Device;

use crate::data_loader::{DataLoader, LengthBuckets, PretrainingBatch, micro_batch_bounds};
use crate::error::Error;
use crate::group::{BatchTotals, Group, digest};
use crate::optimizer::Optimizer;
use crate::pretrain::config::{BatchShape, PretrainConfig};
use crate::pretrain::events::StepTiming;
use crate::pretrain::setup::inputs::RunInputs;
use crate::step::{NotFinite, StepReport, StepSettings, pretraining_objective};

/// A source of this rank's rows of each batch, and the settings of a step on them.
pub(crate) struct StepRunner<'a> {
    config: &'a PretrainConfig,
    sequences: usize,
    device: Device,
    has_next_sentence: bool,
    batches: Prefetcher,
    buckets: Option<LengthBuckets>,
    /// Bounds of this rank's micro-batches, in rows of the batch.
    bounds: Vec<usize>,
    /// Number of finished steps.
    step: u64,
}

/// A finished step.
pub(crate) struct FinishedStep {
    pub(crate) report: StepReport,
    /// Whether the update was skipped because the loss or the gradient norm was not finite.
    pub(crate) skipped: bool,
    /// Number of real masked-LM targets in the global batch.
    pub(crate) predictions: u64,
    pub(crate) timing: StepTiming,
}

impl<'a> StepRunner<'a> {
    /// Starts to load this rank's rows of the batches of these steps; `position` is the loader's position before the
    /// first.
    pub(crate) fn start(
        inputs: &RunInputs<'a>,
        group: &Group,
        BatchShape { sequences, micro_batches }: BatchShape,
        steps: Range<u64>,
        position: Option<LoaderPosition>,
    ) -> Result<Self, Error> {
        let config = inputs.config;
        let step = steps.start;
        let own = group.micro_batches(micro_batches);
        let bounds = micro_batch_bounds(sequences, micro_batches)[own.start..=own.end].to_vec();
        let loader = inputs.loader(position)?;
        let buckets = loader.buckets();
        let batches = Prefetcher::start(loader, steps, sequences, bounds[0]..bounds[own.len()]);
        let device = inputs.device.clone();
        let has_next_sentence = inputs.has_next_sentence();
        Ok(Self { config, sequences, device, has_next_sentence, batches, buckets, bounds, step })
    }

    /// Trains on the next batch.
    ///
    /// # Errors
    /// Fails when a rank has an error or is lost.
    pub(crate) fn run(
        &mut self,
        group: &mut Group,
        model: BertForPreTraining,
        optimizer: &mut Optimizer,
        learning_rate: f64,
    ) -> Result<(BertForPreTraining, FinishedStep), Error> {
        let started = Instant::now();
        let batch = group.hold(self.batches.next_batch())?;
        let waiting = started.elapsed().as_secs_f64();
        let (batch, totals) = self.agree_on_batch(group, batch, &model)?;
        let micro_batches = batch.split_rows(&self.bounds);
        let normalizer = LossNormalizer {
            masked_lm: totals.targets as f64,
            // Without sentence pairs (data made with --nsp off), this loss has no weight.
            next_sentence: self.has_next_sentence.then_some(self.sequences as f64),
        };
        let loss = pretraining_objective(normalizer, self.config.recompute, &self.device);
        let settings = StepSettings { seed: self.config.seed, step: self.step, learning_rate };
        let (model, report) = group.train_step(model, optimizer, &micro_batches, loss, settings)?;
        self.step += 1;
        group.count_step();
        let (report, skipped) = match report {
            Ok(report) => (report, false),
            Err(NotFinite { report }) => (report, true),
        };
        let predictions = totals.targets as u64;
        let timing = StepTiming { step: self.step, seconds: started.elapsed().as_secs_f64(), waiting };
        Ok((model, FinishedStep { report, skipped, predictions, timing }))
    }

    /// Returns this rank's rows, narrowed to the length of the whole batch, and the totals of the whole batch.
    fn agree_on_batch(
        &self,
        group: &mut Group,
        mut batch: PretrainingBatch,
        model: &BertForPreTraining,
    ) -> Result<(PretrainingBatch, BatchTotals), Error> {
        let own = BatchTotals {
            targets: batch.num_predictions(),
            longest: self.buckets.map_or(0, |_| batch.padded.longest()),
        };
        let totals = group.start_step(own, || digest(model))?;
        if let Some(buckets) = &self.buckets {
            batch.narrow(buckets.padded(totals.longest));
        }
        Ok((batch, totals))
    }

    /// Returns the loader's position after the last batch.
    pub(crate) fn position(&self) -> Option<LoaderPosition> {
        self.batches.position()
    }
}

/// Message of the loader's thread: a batch, and the position of its last sample.
type Loaded = Result<(PretrainingBatch, Option<LoaderPosition>), Error>;

/// A loader on a separate thread, two batches ahead of the training step.
pub(crate) struct Prefetcher {
    batches: Option<Receiver<Loaded>>,
    thread: Option<JoinHandle<()>>,
    position: Option<LoaderPosition>,
}

impl Prefetcher {
    /// Starts to read the rows `rows` of the batch of each step in `steps`, padded to the maximum length. A batch has
    /// `batch_size` rows.
    pub(crate) fn start(
        mut loader: DataLoader,
        steps: Range<u64>,
        batch_size: usize,
        rows: Range<usize>,
    ) -> Self {
        let (sender, batches) = sync_channel(2);
        let thread = std::thread::spawn(move || {
            for step in steps {
                let batch = loader.rows_of_batch(step * batch_size as u64, rows.clone());
                let loaded = batch.map(|batch| (batch, loader.position()));
                let failed = loaded.is_err();
                if sender.send(loaded).is_err() || failed {
                    return;
                }
            }
        });
        Self { batches: Some(batches), thread: Some(thread), position: None }
    }

    /// Returns the next batch, in order.
    ///
    /// # Errors
    /// Returns the loader's error.
    ///
    /// # Panics
    /// Panics if more batches are taken than `steps` has.
    pub(crate) fn next_batch(&mut self) -> Result<PretrainingBatch, Error> {
        let batches = self.batches.as_ref().expect("open until dropped");
        let Ok(loaded) = batches.recv() else {
            let thread = self.thread.take().expect("joined once");
            let panic = thread.join().expect_err("the loader sends a batch for every step");
            resume_unwind(panic);
        };
        let (batch, position) = loaded?;
        self.position = position;
        Ok(batch)
    }

    /// Returns the position of the last sample in the most recent batch ([`DataLoader::position`]).
    pub(crate) fn position(&self) -> Option<LoaderPosition> {
        self.position
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        // Drop the channel first, so that a loader that waits to send ends. A panic of its thread is ignored, because
        // no further batch is needed.
        drop(self.batches.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
