//! Runs a [`DataLoader`] on a thread of its own, two batches ahead of the training step.
//!
//! It gives one batch for each step, in order, with its place in the data. An error of the loader arrives instead
//! of the batch, and a panic of its thread is resumed where the batch is asked for.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::{DataLoader, Place, PretrainingBatch};
use crate::error::Error;

/// What the loader's thread sends: a batch, and the place of its last sample.
type Loaded = Result<(PretrainingBatch, Option<Place>), Error>;

/// A loader on its own thread, two batches ahead of the training step.
pub struct Prefetcher {
    batches: Option<Receiver<Loaded>>,
    thread: Option<JoinHandle<()>>,
    place: Option<Place>,
}

impl Prefetcher {
    /// Starts reading batches of `batch_size` for the steps `steps`.
    pub fn start(mut loader: DataLoader, steps: std::ops::Range<u64>, batch_size: usize) -> Self {
        let (sender, batches) = sync_channel(2);
        let thread = std::thread::spawn(move || {
            for step in steps {
                let batch = loader.batch(step * batch_size as u64, batch_size);
                let loaded = batch.map(|batch| (batch, loader.place()));
                let failed = loaded.is_err();
                if sender.send(loaded).is_err() || failed {
                    return;
                }
            }
        });
        Self { batches: Some(batches), thread: Some(thread), place: None }
    }

    /// The next batch, in order.
    ///
    /// # Errors
    /// What the loader met.
    ///
    /// # Panics
    /// When more batches are taken than were ordered.
    pub fn next_batch(&mut self) -> Result<PretrainingBatch, Error> {
        let batches = self.batches.as_ref().expect("open until dropped");
        let Ok(loaded) = batches.recv() else {
            let thread = self.thread.take().expect("joined once");
            let panic = thread.join().expect_err("the loader sends a batch for every step");
            resume_unwind(panic);
        };
        let (batch, place) = loaded?;
        self.place = place;
        Ok(batch)
    }

    /// The place of the last sample of the batch that was taken last ([`DataLoader::place`]).
    pub fn place(&self) -> Option<Place> {
        self.place
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        // The channel goes first, so that a loader waiting to send gives up.
        drop(self.batches.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
