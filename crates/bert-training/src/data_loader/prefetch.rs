//! Runs a [`DataLoader`] on a separate thread, two batches ahead of the training step.
//!
//! It returns one batch per step, in order, with its position in the data. An error of the loader is returned instead
//! of the batch, and a panic on its thread is resumed when the batch is requested.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use bert_inference::checkpoint::LoaderPosition;

use crate::data_loader::{DataLoader, PretrainingBatch};
use crate::error::Error;

/// Message of the loader's thread: a batch, and the position of its last sample.
type Loaded = Result<(PretrainingBatch, Option<LoaderPosition>), Error>;

/// A loader on a separate thread, two batches ahead of the training step.
pub(crate) struct Prefetcher {
    batches: Option<Receiver<Loaded>>,
    thread: Option<JoinHandle<()>>,
    position: Option<LoaderPosition>,
}

impl Prefetcher {
    /// Starts to read rows of the batches of the steps `steps`, padded to the maximum length: of each batch of
    /// `batch_size`, the rows `rows`.
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
    /// When more batches are taken than `steps` has.
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
        // Drop the channel first, so that a loader waiting to send gives up.
        drop(self.batches.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
