//! Bounds the memory of snapshots that are being written while training continues.
//!
//! An update allocates new memory for every tensor that a snapshot still holds. Therefore the next update waits until
//! the snapshot holds at most a third of its bytes: four bytes per parameter, of twelve for parameters and both
//! moments.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bert_model::{OnRelease, Snapshot};

/// Memory still held by snapshots that are being written.
#[derive(Debug)]
pub struct Held {
    bytes: Mutex<u64>,
    fell: Condvar,
    most: u64,
}

impl Held {
    /// Counts the bytes that these snapshots hold together.
    pub fn by<const N: usize>(snapshots: [Snapshot; N]) -> (Arc<Self>, [Snapshot; N]) {
        let bytes = snapshots.iter().map(Snapshot::bytes).sum();
        let held = Arc::new(Self { bytes: Mutex::new(bytes), fell: Condvar::new(), most: bytes / 3 });
        let counted = Arc::clone(&held);
        let on_release: OnRelease = Arc::new(move |bytes| counted.release(bytes));
        (held, snapshots.map(|snapshot| snapshot.with_on_release(&on_release)))
    }

    fn release(&self, bytes: u64) {
        let mut held = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *held -= bytes;
        if *held <= self.most {
            self.fell.notify_all();
        }
    }

    /// Blocks until at most a third of the snapshots' memory is still held.
    pub fn wait(&self) {
        let held = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.fell.wait_while(held, |held| *held > self.most));
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
    fn a_third_may_be_held_while_training_goes_on() {
        let tensor = |name: &str| (name.to_string(), Tensor::<1>::ones([1000], &Device::flex()));
        let (held, [snapshot]) = Held::by([Snapshot::of_tensors(["a", "b", "c"].map(tensor))]);
        let (go, gone) = mpsc::channel();
        let (waits, waited) = mpsc::channel();
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || snapshot.write(&mut Slow(gone)));
            scope.spawn(|| {
                held.wait();
                waits.send(()).unwrap();
            });
            assert!(waited.try_recv().is_err());
            go.send(()).unwrap();
            while *held.bytes.lock().unwrap() > 8000 {
                std::thread::yield_now();
            }
            assert!(waited.try_recv().is_err(), "two thirds are too much");
            go.send(()).unwrap();
            waited.recv().unwrap();
            assert_eq!(*held.bytes.lock().unwrap(), 4000, "the last is still held");
            go.send(()).unwrap();
            writer.join().unwrap().unwrap();
        });
    }

    #[test]
    fn what_is_dropped_is_not_waited_for() {
        let tensor = ("a".to_string(), Tensor::<1>::ones([10], &Device::flex()));
        let (held, snapshots) = Held::by([Snapshot::of_tensors([tensor])]);
        drop(snapshots);
        held.wait();
    }
}
