//! Buffers that outlive their tensors.
//!
//! In: a length. Out: a buffer of that length, with whatever its last user left in it. A training step
//! makes tensors of the same sizes every time; taking their memory from the allocator anew costs a page
//! fault for each 4 KiB and a pass of zeros. A buffer comes back when its tensor is dropped, on any thread.
//! Kept are of each length no more buffers than were once in use together, so that lengths which tensors have
//! but nobody asks for do not pile up; and of all lengths no more than has been in use at once and 64 MiB: what
//! one pass needs in several lengths, one after the other. Not for small tensors.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::Bytes;
use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty};

/// Below this many elements the allocator is as good.
const SMALL: usize = 1 << 12;

/// Elements that may be kept beyond the most that was ever live.
const SLACK: usize = 1 << 24;

struct Pool {
    /// By length.
    lengths: BTreeMap<usize, Buffers>,
    /// Elements in free buffers.
    kept: usize,
    /// Elements in tensors.
    live: usize,
    /// The most that was ever live.
    peak: usize,
    /// See [`SLACK`].
    slack: usize,
}

/// The buffers of one length.
#[derive(Default)]
struct Buffers {
    free: Vec<Vec<f32>>,
    /// How many are in tensors.
    live: usize,
    /// The most that were ever in tensors at once.
    peak: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool::new(SLACK));

fn pool() -> MutexGuard<'static, Pool> {
    // No code that holds the lock leaves the pool half changed.
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    const fn new(slack: usize) -> Self {
        Self { lengths: BTreeMap::new(), kept: 0, live: 0, peak: 0, slack }
    }

    fn take(&mut self, len: usize) -> Option<Vec<f32>> {
        let buffer = self.lengths.get_mut(&len)?.free.pop()?;
        self.kept -= len;
        Some(buffer)
    }

    fn lend(&mut self, len: usize) {
        self.live += len;
        self.peak = self.peak.max(self.live);
        let buffers = self.lengths.entry(len).or_default();
        buffers.live += 1;
        buffers.peak = buffers.peak.max(buffers.live);
    }

    fn give(&mut self, buffer: Vec<f32>) {
        let len = buffer.len();
        self.live -= len;
        let buffers = self.lengths.get_mut(&len).expect("what comes back was lent");
        buffers.live -= 1;
        if buffers.free.len() + buffers.live >= buffers.peak || buffer.capacity() > len {
            return;
        }
        while self.kept + self.live + len > self.peak + self.slack {
            // Make room at the cost of other lengths, which may be those of an earlier kind of batch.
            let Some(other) = self.lengths.iter().find(|(l, other)| **l != len && !other.free.is_empty())
            else {
                return;
            };
            let other = *other.0;
            drop(self.take(other));
        }
        self.kept += len;
        self.lengths.entry(len).or_default().free.push(buffer);
    }
}

/// A buffer to be overwritten: its contents are left from before, or zeros.
pub(crate) fn take(len: usize) -> Vec<f32> {
    let old = if len < SMALL { None } else { pool().take(len) };
    old.unwrap_or_else(|| vec![0.0; len])
}

/// The buffer as a tensor's storage; it comes back to the pool in the end.
pub(crate) fn lend(buffer: Vec<f32>) -> Bytes {
    let len = buffer.len();
    if len < SMALL {
        return Bytes::from_elems(buffer);
    }
    pool().lend(len);
    #[expect(unsafe_code, reason = "burn's way to own memory that is not the allocator's")]
    // SAFETY: all bytes of the vector are initialized.
    unsafe {
        Bytes::from_controller(Box::new(Lent(buffer)), len * size_of::<f32>())
    }
}

/// A buffer for one task, with whatever its last user left in it.
pub(crate) fn scratch(len: usize) -> Scratch {
    let buffer = take(len);
    if len >= SMALL {
        pool().lend(len);
    }
    Scratch(Lent(buffer))
}

/// See [`scratch`].
pub(crate) struct Scratch(Lent);

impl Deref for Scratch {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.0.0
    }
}

/// The owner of a tensor's storage.
struct Lent(Vec<f32>);

impl Drop for Lent {
    fn drop(&mut self) {
        if self.0.len() >= SMALL {
            pool().give(std::mem::take(&mut self.0));
        }
    }
}

impl AllocationController for Lent {
    fn alloc_align(&self) -> usize {
        align_of::<f32>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Native
    }

    fn capacity(&self) -> usize {
        self.0.len() * size_of::<f32>()
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.0);
        #[expect(unsafe_code, reason = "the interface is in uninitialized bytes")]
        // SAFETY: initialized bytes are valid as possibly uninitialized ones, for reading.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) })
    }

    #[expect(unsafe_code, reason = "the interface is in uninitialized bytes")]
    unsafe fn memory_mut(&mut self, _: AccessPolicy) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.0);
        // SAFETY: the caller promises to write initialized bytes only, and any such are an f32.
        Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_and_no_more_is_kept_than_was_in_use() {
        let mut pool = Pool::new(0);
        let lent = |pool: &mut Pool, len| {
            let buffer = pool.take(len).unwrap_or_else(|| vec![0.0; len]);
            pool.lend(len);
            buffer
        };
        let (a, b) = (lent(&mut pool, 10), lent(&mut pool, 20));
        pool.give(a);
        pool.give(b);
        assert_eq!((pool.kept, pool.live, pool.peak), (30, 0, 30));
        let a = lent(&mut pool, 10);
        assert_eq!((pool.kept, pool.live), (20, 10));
        // Another length: when it comes back, the buffers of length 20 make room.
        let c = lent(&mut pool, 18);
        pool.give(c);
        assert_eq!((pool.kept, pool.live, pool.peak), (18, 10, 30));
        pool.give(a);
        assert_eq!((pool.kept, pool.live, pool.peak), (28, 0, 30));
    }

    #[test]
    fn slack_keeps_several_lengths() {
        let mut pool = Pool::new(30);
        for len in [10, 20, 30] {
            assert!(pool.take(len).is_none());
            pool.lend(len);
            pool.give(vec![0.0; len]);
        }
        assert_eq!((pool.kept, pool.live, pool.peak), (60, 0, 30));
        assert!([10, 20, 30].into_iter().all(|len| pool.take(len).is_some()));
    }

    #[test]
    fn storage_is_the_buffer() {
        let mut bytes = lend(vec![1.5; SMALL]);
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&bytes)[SMALL - 1], 1.5);
        bytemuck::cast_slice_mut::<u8, f32>(&mut bytes)[0] = 2.5;
        let copy = bytes.clone();
        drop(bytes);
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&copy)[..2], [2.5, 1.5]);
    }
}
