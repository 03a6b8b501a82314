//! A pool of buffers that later tensors reuse.
//!
//! A training step allocates tensors of nearly the same sizes every time (the number of masked positions in a batch
//! varies a little). New memory from the allocator costs a page fault for each 4 KiB and a pass that writes zeros.
//! Therefore, a buffer returns to the pool when its tensor is dropped, on any thread. The buffer keeps its old contents
//! and can be reused for lengths down to three quarters of its own. For example, in BERT-base with 1,024 tokens, the
//! gradients of the weights `[768, 3072]` reuse the buffers of the intermediate features `[1024, 3072]`. Small tensors
//! bypass the pool.
//!
//! There are two limits. First, the pool keeps at most as many buffers of a size as were once in use at the same time,
//! so that buffers of a size that is no longer requested do not accumulate. Second, after each return, free and used
//! buffers together do not exceed the peak use plus 64 MiB, which is enough for a pass that needs several sizes one
//! after the other. To keep this limit, the pool frees the buffers that were unused for the longest time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::Bytes;
use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty};

/// Number of elements below which the allocator is as fast as the pool.
const SMALL: usize = 1 << 12;

/// Maximum number of elements beyond the peak use.
const SLACK: usize = 1 << 24;

struct Pool {
    /// Buffers by capacity, in elements.
    sizes: BTreeMap<usize, Buffers>,
    /// Number of elements in free buffers.
    free: usize,
    /// Number of elements in buffers that tensors use.
    live: usize,
    /// Maximum of `live` so far.
    peak: usize,
    /// Maximum number of elements beyond `peak`; [`SLACK`] outside of tests.
    slack: usize,
    /// Number of buffers returned so far. It is the logical clock of the pool.
    returns: u64,
}

/// The buffers of one capacity.
#[derive(Default)]
struct Buffers {
    /// Free buffers with the time of their return, the newest last.
    free: Vec<(u64, Vec<f32>)>,
    /// Number of buffers in use by tensors.
    live: usize,
    /// Maximum of `live` so far.
    peak: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool::new(SLACK));

fn pool() -> MutexGuard<'static, Pool> {
    // A panic cannot leave the pool half changed, so a poisoned lock is safe to use.
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    const fn new(slack: usize) -> Self {
        Self { sizes: BTreeMap::new(), free: 0, live: 0, peak: 0, slack, returns: 0 }
    }

    /// Returns the smallest free buffer whose capacity is at least `len` and at most a third more, resized to `len`
    /// elements.
    fn take(&mut self, len: usize) -> Option<Vec<f32>> {
        let mut sizes = self.sizes.range_mut(len..=len + len / 3);
        let (_, mut buffer) = sizes.find_map(|(_, buffers)| buffers.free.pop())?;
        self.free -= buffer.capacity();
        buffer.resize(len, 0.0);
        Some(buffer)
    }

    fn add_live(&mut self, capacity: usize) {
        self.live += capacity;
        self.peak = self.peak.max(self.live);
        let buffers = self.sizes.entry(capacity).or_default();
        buffers.live += 1;
        buffers.peak = buffers.peak.max(buffers.live);
    }

    fn put_back(&mut self, buffer: Vec<f32>) {
        let capacity = buffer.capacity();
        self.live -= capacity;
        self.returns += 1;
        let buffers = self.sizes.get_mut(&capacity).expect("a returned buffer was counted as live");
        buffers.live -= 1;
        if buffers.free.len() + buffers.live < buffers.peak {
            self.free += capacity;
            buffers.free.push((self.returns, buffer));
        }
        while self.free + self.live > self.peak + self.slack {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let freed_at = |buffers: &Buffers| buffers.free.first().map(|(time, _)| *time);
        let oldest = self.sizes.values_mut().filter(|b| !b.free.is_empty()).min_by_key(|b| freed_at(b));
        let (_, buffer) = oldest.expect("free elements belong to a free buffer").free.remove(0);
        self.free -= buffer.capacity();
    }
}

/// Returns a buffer of `len` elements with arbitrary contents, to be overwritten.
pub(crate) fn take(len: usize) -> Vec<f32> {
    let old = if len < SMALL { None } else { pool().take(len) };
    old.unwrap_or_else(|| vec![0.0; len])
}

/// Wraps the buffer as the storage of a tensor. The buffer returns to the pool when the storage is dropped.
pub(crate) fn into_storage(buffer: Vec<f32>) -> Bytes {
    let len = buffer.len();
    if len < SMALL {
        return Bytes::from_elems(buffer);
    }
    pool().add_live(buffer.capacity());
    #[expect(unsafe_code, reason = "burn's way to own memory that is not the allocator's")]
    // SAFETY: all bytes of the vector are initialized.
    unsafe {
        Bytes::from_controller(Box::new(PooledBuffer(buffer)), len * size_of::<f32>())
    }
}

/// Number of f32 elements in a cache line.
const LINE: usize = 16;
/// Maximum number of elements of a scratch buffer that stays with its thread: 2 MiB.
const MAX_THREAD_BUFFER_LEN: usize = 1 << 19;
/// Maximum number of buffers that stay with a thread.
const MAX_THREAD_BUFFERS: usize = 12;

thread_local! {
    /// Scratch buffers of this thread, the most recently used one at the end. These buffers are probably in the caches
    /// of the thread's core; a buffer of the pool may have been used last by another thread.
    static THREAD_BUFFERS: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a buffer for one task, with its old contents. The buffer begins at a cache line, because otherwise each
/// 64-byte read would touch two lines.
pub(crate) fn scratch(len: usize) -> Scratch {
    let needed = len + LINE - 1;
    if needed <= MAX_THREAD_BUFFER_LEN {
        Scratch::new(thread_buffer(needed), len, true)
    } else {
        shared_scratch(len)
    }
}

/// Returns a [`scratch`] buffer that several threads read. It always comes from the pool or the allocator,
/// not from the buffers of one thread.
pub(crate) fn shared_scratch(len: usize) -> Scratch {
    let buffer = take(len + LINE - 1);
    pool().add_live(buffer.capacity());
    Scratch::new(buffer, len, false)
}

/// Returns this thread's smallest free buffer of at least `needed` elements, or a new one.
fn thread_buffer(needed: usize) -> Vec<f32> {
    THREAD_BUFFERS.with_borrow_mut(|buffers| {
        let sizes = buffers.iter().enumerate().filter(|(_, buffer)| buffer.len() >= needed);
        match sizes.min_by_key(|(_, buffer)| buffer.len()) {
            Some((index, _)) => buffers.remove(index),
            None => vec![0.0; needed],
        }
    })
}

/// A buffer from [`scratch`] or [`shared_scratch`].
pub(crate) struct Scratch {
    buffer: Vec<f32>,
    elements: Range<usize>,
    /// Whether the thread that drops the buffer keeps it for its next task.
    thread_local: bool,
}

impl Scratch {
    fn new(buffer: Vec<f32>, len: usize, thread_local: bool) -> Self {
        let start = buffer.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE - 1);
        Self { buffer, elements: start..start + len, thread_local }
    }
}

impl Deref for Scratch {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.buffer[self.elements.clone()]
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.buffer[self.elements.clone()]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        if !self.thread_local {
            return pool().put_back(buffer);
        }
        // The error is ignored: a thread that is ending has no thread-local buffers any more, and then the
        // buffer is freed.
        let _ = THREAD_BUFFERS.try_with(|buffers| {
            let mut buffers = buffers.borrow_mut();
            if buffers.len() == MAX_THREAD_BUFFERS {
                buffers.remove(0);
            }
            buffers.push(buffer);
        });
    }
}

/// A buffer that returns to the pool when it is dropped: the owner of a tensor's storage.
struct PooledBuffer(Vec<f32>);

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if self.0.len() >= SMALL {
            pool().put_back(std::mem::take(&mut self.0));
        }
    }
}

impl AllocationController for PooledBuffer {
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
        // SAFETY: initialized bytes may be read as possibly uninitialized bytes.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) })
    }

    #[expect(unsafe_code, reason = "the interface is in uninitialized bytes")]
    unsafe fn memory_mut(&mut self, _: AccessPolicy) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.0);
        // SAFETY: the caller promises to write initialized bytes only, and any four initialized bytes are an f32.
        Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(pool: &mut Pool, len: usize) -> Vec<f32> {
        let buffer = pool.take(len).unwrap_or_else(|| vec![0.0; len]);
        assert_eq!(buffer.len(), len);
        pool.add_live(buffer.capacity());
        buffer
    }

    #[test]
    fn free_buffers_never_exceed_the_peak_use() {
        let mut pool = Pool::new(0);
        let a = allocate(&mut pool, 10);
        let b = allocate(&mut pool, 20);
        pool.put_back(a);
        pool.put_back(b);
        assert_eq!((pool.free, pool.live, pool.peak), (30, 0, 30));
        let a = allocate(&mut pool, 10);
        assert_eq!((pool.free, pool.live), (20, 10));
        // A new size: when it returns, the buffer of 20 is freed.
        let c = allocate(&mut pool, 14);
        pool.put_back(c);
        assert_eq!((pool.free, pool.live, pool.peak), (14, 10, 30));
        pool.put_back(a);
        assert_eq!((pool.free, pool.live, pool.peak), (24, 0, 30));
    }

    #[test]
    fn slack_keeps_several_sizes() {
        let mut pool = Pool::new(30);
        for len in [10, 20, 30] {
            assert!(pool.take(len).is_none());
            pool.add_live(len);
            pool.put_back(vec![0.0; len]);
        }
        assert_eq!((pool.free, pool.live, pool.peak), (60, 0, 30));
        assert!([10, 20, 30].into_iter().all(|len| pool.take(len).is_some()));
    }

    #[test]
    fn a_buffer_serves_slightly_smaller_lengths() {
        let mut pool = Pool::new(0);
        let buffer = allocate(&mut pool, 100);
        pool.put_back(buffer);
        for len in [75, 99, 100] {
            let buffer = allocate(&mut pool, len);
            assert_eq!((buffer.capacity(), pool.free, pool.live), (100, 0, 100));
            pool.put_back(buffer);
        }
        assert!(pool.take(74).is_none() && pool.take(101).is_none());
    }

    #[test]
    fn unused_sizes_do_not_accumulate() {
        let mut pool = Pool::new(1_000);
        for _ in 0..10 {
            pool.add_live(10);
            pool.put_back(vec![0.0; 10]);
        }
        assert_eq!((pool.free, pool.live), (10, 0));
    }

    #[test]
    fn longest_unused_buffer_is_freed_first() {
        let mut pool = Pool::new(10);
        for len in [20, 10, 40] {
            let buffer = allocate(&mut pool, len);
            pool.put_back(buffer);
        }
        // The three buffers together hold 70 elements, more than the peak of 40 plus the slack of 10.
        assert_eq!(pool.free, 50);
        assert!(pool.take(20).is_none() && pool.take(10).is_some() && pool.take(40).is_some());
    }

    #[test]
    fn storage_reads_and_writes_the_buffer() {
        let mut bytes = into_storage(vec![1.5; SMALL]);
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&bytes)[SMALL - 1], 1.5);
        bytemuck::cast_slice_mut::<u8, f32>(&mut bytes)[0] = 2.5;
        let copy = bytes.clone();
        drop(bytes);
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&copy)[..2], [2.5, 1.5]);
    }
}
