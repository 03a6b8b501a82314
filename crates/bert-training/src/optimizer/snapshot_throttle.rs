//! Bounds the memory of snapshots that are being written while training continues.
//!
//! An update allocates new memory for every tensor that a snapshot still holds. Therefore the next update waits until
//! the snapshot holds at most a third of its bytes: four bytes per parameter, of twelve for parameters and both
//! moments.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bert_model::{OnRelease, Snapshot};

/// The memory of snapshots that are being written, in bytes.
#[derive(Debug)]
pub(crate) struct SnapshotThrottle {
    bytes: Mutex<u64>,
    released: Condvar,
    max_bytes: u64,
}

impl SnapshotThrottle {
    /// Returns a throttle over the given snapshots, and the snapshots, which now report the memory that they release.
    pub(crate) fn over<const N: usize>(snapshots: [Snapshot; N]) -> (Arc<Self>, [Snapshot; N]) {
        let bytes = snapshots.iter().map(Snapshot::bytes).sum();
        let throttle =
            Arc::new(Self { bytes: Mutex::new(bytes), released: Condvar::new(), max_bytes: bytes / 3 });
        let counter = Arc::clone(&throttle);
        let on_release: OnRelease = Arc::new(move |bytes| counter.release(bytes));
        (throttle, snapshots.map(|snapshot| snapshot.with_on_release(&on_release)))
    }

    fn release(&self, bytes: u64) {
        let mut held = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *held -= bytes;
        if *held <= self.max_bytes {
            self.released.notify_all();
        }
    }

    /// Blocks until at most a third of the snapshots' memory is still held.
    pub(crate) fn wait(&self) {
        let held = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.released.wait_while(held, |held| *held > self.max_bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use burn::tensor::{Device, Tensor};

    use super::*;

    /// A writer that takes a tensor only when it receives a message.
    struct Slow(mpsc::Receiver<()>);

    impl std::io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if bytes.len() == 4000 {
                self.0.recv().map_err(std::io::Error::other)?;
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn training_continues_when_a_third_is_left() {
        let tensor = |name: &str| (name.to_string(), Tensor::<1>::ones([1000], &Device::flex()));
        let (throttle, [snapshot]) =
            SnapshotThrottle::over([Snapshot::from_tensors(["a", "b", "c"].map(tensor))]);
        let (go, gone) = mpsc::channel();
        let (waits, waited) = mpsc::channel();
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || snapshot.write(&mut Slow(gone)));
            scope.spawn(|| {
                throttle.wait();
                waits.send(()).unwrap();
            });
            assert!(waited.try_recv().is_err());
            go.send(()).unwrap();
            while *throttle.bytes.lock().unwrap() > 8000 {
                std::thread::yield_now();
            }
            assert!(waited.try_recv().is_err(), "two thirds are too much");
            go.send(()).unwrap();
            waited.recv().unwrap();
            assert_eq!(*throttle.bytes.lock().unwrap(), 4000, "the last is still held");
            go.send(()).unwrap();
            writer.join().unwrap().unwrap();
        });
    }

    #[test]
    fn dropped_snapshots_do_not_block() {
        let tensor = ("a".to_string(), Tensor::<1>::ones([10], &Device::flex()));
        let (throttle, snapshots) = SnapshotThrottle::over([Snapshot::from_tensors([tensor])]);
        drop(snapshots);
        throttle.wait();
    }
}
