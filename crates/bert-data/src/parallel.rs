//! Distributes work among workers and returns the results in the order of the items.
//!
//! Each worker has its own buffers and takes the next item whenever it is free, so uneven items keep all workers busy.
//! A result must not depend on the worker that computed it. [`share_out`] returns all results at once. [`in_order`]
//! passes them on one by one while later items are processed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// Interval between calls of `told` while no item finishes. The caller can cancel the work in each call.
const BEAT: Duration = Duration::from_millis(100);

/// Returns a pool with this number of threads; 0 means one per core.
pub(crate) fn pool(threads: usize) -> Result<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|source| Error::Threads { threads, source })
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processes all items and returns the results in the order of the items. `beat` is called on the calling thread every
/// tenth of a second. If it panics, `stop` is set and no further item is started.
///
/// # Errors
/// The first error of `work`, in the order of the items.
pub(crate) fn share_out<W: Send, T: Send, R: Send>(
    pool: &ThreadPool,
    workers: &mut [W],
    items: Vec<T>,
    stop: &AtomicBool,
    work: impl Fn(&mut W, T) -> Result<R> + Sync,
    beat: &mut dyn FnMut(),
) -> Result<Vec<R>> {
    let mut results = Vec::with_capacity(items.len());
    let items = items.into_iter().map(|item| Ok((0, item)));
    let take = |result| {
        results.push(result);
        Ok(Some(()))
    };
    let told = |taken: Option<()>| taken.map_or_else(&mut *beat, drop);
    in_order(pool, workers, 1, items, stop, work, take, told)?;
    Ok(results)
}

/// Processes items, each with its size, and passes the results to `take`, one at a time and in the order of the items;
/// only later results wait for a slow item. The total size of the items in flight is limited to `room`. The values that
/// `take` returns go to `told` on the calling thread; `None` stops early without an error. `told` gets `None` after
/// every tenth of a second without a result. If it panics, `stop` is set and the work ends: `work` may check the flag
/// and then return any value.
///
/// # Errors
/// The first error of the items, of `work` or of `take`, in the order of the items.
#[expect(clippy::too_many_arguments, reason = "three closures and their arguments")]
pub(crate) fn in_order<W: Send, T: Send, R: Send, P: Send>(
    pool: &ThreadPool,
    workers: &mut [W],
    room: usize,
    items: impl Iterator<Item = Result<(usize, T)>> + Send,
    stop: &AtomicBool,
    work: impl Fn(&mut W, T) -> Result<R> + Sync,
    take: impl FnMut(R) -> Result<Option<P>> + Send,
    mut told: impl FnMut(Option<P>),
) -> Result<()> {
    let line = Line {
        items: Mutex::new(Some(items.enumerate())),
        take: Mutex::new(take),
        state: Mutex::new(State {
            room,
            on_their_way: 0,
            made: BTreeMap::new(),
            next: 0,
            taking: false,
            end: None,
        }),
        changed: Condvar::new(),
    };
    let (tell, hear) = channel();
    pool.in_place_scope(|scope| {
        for worker in workers {
            let (line, work, tell) = (&line, &work, tell.clone());
            scope.spawn(move |_| line.run(worker, work, &tell));
        }
        drop(tell);
        // The scope also waits for the workers when `told` panics.
        let _ender = EndOnPanic(&line);
        let _stopper = SetOnPanic(stop);
        loop {
            match hear.recv_timeout(BEAT) {
                Ok(progress) => told(Some(progress)),
                Err(RecvTimeoutError::Timeout) => told(None),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    line.state.into_inner().unwrap_or_else(PoisonError::into_inner).end.unwrap_or(Ok(()))
}

/// State shared by the workers of [`in_order`].
struct Line<I, F, R> {
    /// `None` after the first error of the iterator.
    items: Mutex<Option<I>>,
    take: Mutex<F>,
    state: Mutex<State<R>>,
    changed: Condvar,
}

struct State<R> {
    room: usize,
    /// Total size of the items that were started and whose results were not yet taken.
    on_their_way: usize,
    /// Finished results, with their sizes, that wait for an earlier item.
    made: BTreeMap<usize, (usize, Result<R>)>,
    /// The item whose result is taken next.
    next: usize,
    /// Whether some worker is taking results.
    taking: bool,
    /// Set when the work ends before the last item.
    end: Option<Result<()>>,
}

impl<I, F, R> Line<I, F, R> {
    fn run<W, T, P>(&self, worker: &mut W, work: &impl Fn(&mut W, T) -> Result<R>, tell: &Sender<P>)
    where
        I: Iterator<Item = (usize, Result<(usize, T)>)>,
        F: FnMut(R) -> Result<Option<P>>,
    {
        // Otherwise the other workers would wait forever after a panic.
        let _ender = EndOnPanic(self);
        while let Some((number, item)) = self.begin() {
            let (size, result) = match item {
                Ok((size, item)) => (size, work(worker, item)),
                Err(error) => (0, Err(error)),
            };
            self.hand_over(number, size, result, tell);
        }
    }

    /// Returns the next item, once there is room for it.
    fn begin<T>(&self) -> Option<(usize, Result<(usize, T)>)>
    where
        I: Iterator<Item = (usize, Result<(usize, T)>)>,
    {
        let mut items = lock(&self.items);
        let mut state = lock(&self.state);
        while state.end.is_none() && state.on_their_way >= state.room.max(1) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.end.is_some() {
            return None;
        }
        drop(state);
        let (number, item) = items.as_mut()?.next()?;
        match &item {
            Ok((size, _)) => lock(&self.state).on_their_way += size,
            Err(_) => *items = None,
        }
        Some((number, item))
    }

    /// Stores a result, and takes all results that are next in order, unless another worker is doing so.
    fn hand_over<P>(&self, number: usize, size: usize, result: Result<R>, tell: &Sender<P>)
    where
        F: FnMut(R) -> Result<Option<P>>,
    {
        let mut state = lock(&self.state);
        state.made.insert(number, (size, result));
        if state.taking {
            return;
        }
        state.taking = true;
        while state.end.is_none() {
            let next = state.next;
            let Some((size, result)) = state.made.remove(&next) else { break };
            drop(state);
            let taken = result.and_then(|result| (lock(&self.take))(result));
            state = lock(&self.state);
            state.next += 1;
            state.on_their_way -= size;
            match taken {
                // The receiver is gone when the calling thread panics.
                Ok(Some(progress)) => drop(tell.send(progress)),
                Ok(None) => state.end = Some(Ok(())),
                Err(error) => state.end = Some(Err(error)),
            }
            self.changed.notify_all();
        }
        state.taking = false;
    }
}

/// Sets a flag when a thread panics.
struct SetOnPanic<'a>(&'a AtomicBool);

impl Drop for SetOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Stops the other workers when a thread panics.
struct EndOnPanic<'a, I, F, R>(&'a Line<I, F, R>);

impl<I, F, R> Drop for EndOnPanic<'_, I, F, R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.state).end.get_or_insert(Ok(()));
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::InputError;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for workers in [1, 2, 5] {
            let mut counts = vec![0u32; workers];
            let items: Vec<u64> = (0..1000).collect();
            let pool = ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
            let square = |count: &mut u32, item| {
                *count += 1;
                Ok(item * item)
            };
            let squared = share_out(&pool, &mut counts, items, &AtomicBool::new(false), square, &mut || {});
            assert!(squared.unwrap().into_iter().eq((0..1000).map(|item| item * item)));
            assert_eq!(counts.iter().sum::<u32>(), 1000);
        }
    }

    /// Items 0 to 99 of size 3, the first ones the slowest; `faulty` selects where it fails. Returns the taken results.
    fn line(
        threads: usize,
        room: usize,
        faulty: impl Fn(&str, usize) -> bool + Sync,
    ) -> (Vec<usize>, Vec<usize>, Result<()>) {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let error = |item: usize| Error::Input(InputError::NoInstances { sentences: item });
        let (begun, most) = (Mutex::new(0usize), Mutex::new(0usize));
        let items = (0..100).map(|item| {
            let mut begun = lock(&begun);
            *begun += 1;
            let mut most = lock(&most);
            *most = (*most).max(*begun);
            if faulty("item", item) { Err(error(item)) } else { Ok((3, item)) }
        });
        let (mut taken, mut told) = (Vec::new(), Vec::new());
        let result = in_order(
            &pool,
            &mut vec![(); threads],
            room,
            items,
            &AtomicBool::new(false),
            |(), item| {
                std::thread::sleep(std::time::Duration::from_micros(300 / (item as u64 + 1)));
                if faulty("work", item) { Err(error(item)) } else { Ok(item) }
            },
            |item| {
                *lock(&begun) -= 1;
                taken.push(item);
                if faulty("take", item) {
                    return Err(error(item));
                }
                Ok((!faulty("stop", item)).then_some(item))
            },
            |item| told.extend(item),
        );
        let most = *lock(&most);
        // `room`, plus the item that was started when little of it was left.
        assert!(most * 3 <= room.max(1) + 3, "{most} at once in a room of {room}");
        (taken, told, result)
    }

    #[test]
    fn results_are_taken_in_order_and_never_too_many_wait() {
        for (threads, room) in [(1, 0), (1, 7), (2, 6), (3, 9), (4, 100)] {
            let (taken, told, result) = line(threads, room, |_, _| false);
            result.unwrap();
            assert!(taken.iter().copied().eq(0..100), "{taken:?}");
            assert_eq!(told, taken);
        }
    }

    #[test]
    fn the_first_error_in_order_ends_it() {
        for threads in [1, 4] {
            for wrong in ["item", "work", "take"] {
                let (taken, told, result) = line(threads, 30, |what, item| what == wrong && item >= 40);
                assert!(
                    matches!(result, Err(Error::Input(InputError::NoInstances { sentences: 40 }))),
                    "{wrong}: {result:?}"
                );
                assert!(taken.iter().copied().eq(0..40 + usize::from(wrong == "take")), "{wrong}: {taken:?}");
                assert!(told.iter().copied().eq(0..40));
            }
            let (taken, told, result) = line(threads, 30, |what, item| what == "stop" && item == 40);
            assert!(result.is_ok() && taken.len() == 41 && told.len() == 40);
        }
    }

    /// A caller cancels by unwinding out of `told`; items in flight end soon.
    #[test]
    fn a_panic_of_the_caller_ends_it_at_once() {
        for threads in [1, 3] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (stop, begun, start) = (AtomicBool::new(false), Mutex::new(0), std::time::Instant::now());
            let work = |_: &mut (), item: usize| {
                *lock(&begun) += 1;
                // This item takes longer than any test waits, unless the flag stops it.
                while item > 0 && !stop.load(Ordering::Relaxed) && start.elapsed().as_secs() < 20 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(item)
            };
            let items = (0..100).map(|item| Ok((1, item)));
            let told =
                |taken: Option<()>| assert!(taken.is_some(), "cancelled at a beat, as the test wants it");
            let mut workers = vec![(); threads];
            let run = || in_order(&pool, &mut workers, 9, items, &stop, work, |_| Ok(Some(())), told);
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
            assert!(start.elapsed().as_secs_f64() < 5.0 && *lock(&begun) <= 1 + threads);
        }
    }

    #[test]
    fn a_panic_ends_it() {
        for threads in [1, 3] {
            let panicked = std::panic::catch_unwind(|| {
                line(threads, 6, |what, item| {
                    assert!(what != "work" || item != 20, "as the test wants it");
                    false
                })
            });
            assert!(panicked.is_err());
        }
    }
}
