//! Distributes work among workers and returns the results in the order of the items.
//!
//! Each worker has its own buffers and takes the next item whenever it is free, so uneven items keep all workers busy.
//! A result must not depend on the worker that computed it. [`Workers::map_all`] returns all results at once.
//! [`Workers::map_in_order`] passes them on one by one while later items are processed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};

use std::time::Duration;

use bert_text::threads::lock;
use rayon::ThreadPool;

use crate::error::Result;

/// Interval between calls of `on_progress` while no item finishes. The caller can cancel the work in each call.
const TICK: Duration = Duration::from_millis(100);

/// Workers on the threads of a pool, each with a state.
pub(crate) struct Workers<'a, W> {
    pool: &'a ThreadPool,
    states: &'a mut [W],
    stop: &'a AtomicBool,
    max_in_flight: usize,
}

impl<'a, W: Send> Workers<'a, W> {
    /// Returns one worker for each state. If a closure on the calling thread panics, `stop` is set and no further item
    /// is started.
    pub(crate) fn new(pool: &'a ThreadPool, states: &'a mut [W], stop: &'a AtomicBool) -> Self {
        Self { pool, states, stop, max_in_flight: 1 }
    }

    /// Returns the workers with a limit of the total size of the items in flight.
    pub(crate) fn with_max_in_flight(self, max_in_flight: usize) -> Self {
        Self { max_in_flight, ..self }
    }

    /// Processes all items and returns the results in the order of the items. `on_tick` is called on the calling
    /// thread after every tenth of a second without a result.
    ///
    /// # Errors
    /// Returns the first error of `work`, in the order of the items.
    pub(crate) fn map_all<T: Send, R: Send>(
        self,
        items: Vec<T>,
        work: impl Fn(&mut W, T) -> Result<R> + Sync,
        on_tick: &mut dyn FnMut(),
    ) -> Result<Vec<R>> {
        let mut results = Vec::with_capacity(items.len());
        let items = items.into_iter().map(|item| Ok((0, item)));
        let consume = |result| {
            results.push(result);
            Ok(Some(()))
        };
        let on_progress = |consumed: Option<()>| consumed.map_or_else(&mut *on_tick, drop);
        self.map_in_order(items, work, consume, on_progress)?;
        Ok(results)
    }

    /// Processes items, each with its size, and passes the results to `consume`, one at a time and in the order of the
    /// items; only later results wait for a slow item. The values that `consume` returns go to `on_progress` on the
    /// calling thread; if `consume` returns `None`, the work stops early without an error. `on_progress` gets `None`
    /// after every tenth of a second without a result. If `on_progress` panics, `work` may check the flag `stop` and
    /// then return any value.
    ///
    /// # Errors
    /// Returns the first error of the items, of `work` or of `consume`, in the order of the items.
    pub(crate) fn map_in_order<T: Send, R: Send, P: Send>(
        self,
        items: impl Iterator<Item = Result<(usize, T)>> + Send,
        work: impl Fn(&mut W, T) -> Result<R> + Sync,
        consume: impl FnMut(R) -> Result<Option<P>> + Send,
        mut on_progress: impl FnMut(Option<P>),
    ) -> Result<()> {
        let queue = OrderedQueue {
            items: Mutex::new(Some(items.enumerate())),
            consume: Mutex::new(consume),
            state: Mutex::new(State {
                max_in_flight: self.max_in_flight,
                in_flight: 0,
                finished: BTreeMap::new(),
                next: 0,
                consuming: false,
                end: None,
            }),
            changed: Condvar::new(),
        };
        let (sender, receiver) = channel();
        self.pool.in_place_scope(|scope| {
            for worker in self.states {
                let queue = &queue;
                let work = &work;
                let sender = sender.clone();
                scope.spawn(move |_| queue.run(worker, work, &sender));
            }
            drop(sender);
            // The scope also waits for the workers when `on_progress` panics.
            let _end_on_panic = EndOnPanic(&queue);
            let _stop_on_panic = SetOnPanic(self.stop);
            loop {
                match receiver.recv_timeout(TICK) {
                    Ok(progress) => on_progress(Some(progress)),
                    Err(RecvTimeoutError::Timeout) => on_progress(None),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        queue.state.into_inner().unwrap_or_else(PoisonError::into_inner).end.unwrap_or(Ok(()))
    }
}

/// State shared by the workers of [`Workers::map_in_order`].
struct OrderedQueue<I, F, R> {
    /// The items that are not started yet; `None` after the first error of the iterator.
    items: Mutex<Option<I>>,
    consume: Mutex<F>,
    state: Mutex<State<R>>,
    changed: Condvar,
}

struct State<R> {
    max_in_flight: usize,
    /// Total size of the items that were started and whose results were not yet consumed.
    in_flight: usize,
    /// Finished results, with their sizes, that wait for an earlier item.
    finished: BTreeMap<usize, (usize, Result<R>)>,
    /// The item whose result is consumed next.
    next: usize,
    /// Whether some worker is consuming results.
    consuming: bool,
    /// The result of the work, if it ended before the last item.
    end: Option<Result<()>>,
}

impl<I, F, R> OrderedQueue<I, F, R> {
    fn run<W, T, P>(&self, worker: &mut W, work: &impl Fn(&mut W, T) -> Result<R>, sender: &Sender<P>)
    where
        I: Iterator<Item = (usize, Result<(usize, T)>)>,
        F: FnMut(R) -> Result<Option<P>>,
    {
        // Otherwise the other workers would wait forever after a panic.
        let _end_on_panic = EndOnPanic(self);
        while let Some((number, item)) = self.next_item() {
            let (size, result) = match item {
                Ok((size, item)) => (size, work(worker, item)),
                Err(error) => (0, Err(error)),
            };
            self.deliver(number, size, result, sender);
        }
    }

    /// Returns the next item, once fewer than `max_in_flight` units are in flight; `None` after the last item, or if
    /// the work has stopped.
    fn next_item<T>(&self) -> Option<(usize, Result<(usize, T)>)>
    where
        I: Iterator<Item = (usize, Result<(usize, T)>)>,
    {
        let mut items = lock(&self.items);
        let mut state = lock(&self.state);
        while state.end.is_none() && state.in_flight >= state.max_in_flight.max(1) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.end.is_some() {
            return None;
        }
        drop(state);
        let (number, item) = items.as_mut()?.next()?;
        match &item {
            Ok((size, _)) => lock(&self.state).in_flight += size,
            Err(_) => *items = None,
        }
        Some((number, item))
    }

    /// Stores a result, and takes all results that are next in order, unless another worker is doing so.
    fn deliver<P>(&self, number: usize, size: usize, result: Result<R>, sender: &Sender<P>)
    where
        F: FnMut(R) -> Result<Option<P>>,
    {
        let mut state = lock(&self.state);
        state.finished.insert(number, (size, result));
        if state.consuming {
            return;
        }
        state.consuming = true;
        while state.end.is_none() {
            let next = state.next;
            let Some((size, result)) = state.finished.remove(&next) else { break };
            drop(state);
            let consumed = result.and_then(|result| (lock(&self.consume))(result));
            state = lock(&self.state);
            state.next += 1;
            state.in_flight -= size;
            match consumed {
                // This fails only if the calling thread has panicked. Then nobody needs the progress.
                Ok(Some(progress)) => drop(sender.send(progress)),
                Ok(None) => state.end = Some(Ok(())),
                Err(error) => state.end = Some(Err(error)),
            }
            self.changed.notify_all();
        }
        state.consuming = false;
    }
}

/// Guard that sets a flag when its thread panics.
struct SetOnPanic<'a>(&'a AtomicBool);

impl Drop for SetOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Guard that stops the other workers when its thread panics.
struct EndOnPanic<'a, I, F, R>(&'a OrderedQueue<I, F, R>);

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
    use rayon::ThreadPoolBuilder;

    use super::*;
    use crate::error::Error;

    #[test]
    fn results_keep_the_order_of_the_items() {
        for workers in [1, 2, 5] {
            let mut counts = vec![0u32; workers];
            let items: Vec<u64> = (0..1000).collect();
            let pool = ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
            let square = |count: &mut u32, item| {
                *count += 1;
                Ok(item * item)
            };
            let stop = AtomicBool::new(false);
            let squared = Workers::new(&pool, &mut counts, &stop).map_all(items, square, &mut || {});
            assert!(squared.unwrap().into_iter().eq((0..1000).map(|item| item * item)));
            assert_eq!(counts.iter().sum::<u32>(), 1000);
        }
    }

    /// Processes items 0 to 99 of size 3, the first ones the slowest; `faulty` selects where it fails. Returns the
    /// consumed results, the reported progress and the result.
    fn run_queue(
        threads: usize,
        max_in_flight: usize,
        faulty: impl Fn(&str, usize) -> bool + Sync,
    ) -> (Vec<usize>, Vec<usize>, Result<()>) {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let error = |item: usize| Error::data(format!("item {item}"));
        let begun = Mutex::new(0usize);
        let most = Mutex::new(0usize);
        let items = (0..100).map(|item| {
            let mut begun = lock(&begun);
            let mut most = lock(&most);
            *begun += 1;
            *most = (*most).max(*begun);
            if faulty("item", item) { Err(error(item)) } else { Ok((3, item)) }
        });
        let mut consumed = Vec::new();
        let mut reported = Vec::new();
        let mut states = vec![(); threads];
        let stop = AtomicBool::new(false);
        let workers = Workers::new(&pool, &mut states, &stop).with_max_in_flight(max_in_flight);
        let result = workers.map_in_order(
            items,
            |(), item| {
                std::thread::sleep(std::time::Duration::from_micros(300 / (item as u64 + 1)));
                if faulty("work", item) { Err(error(item)) } else { Ok(item) }
            },
            |item| {
                *lock(&begun) -= 1;
                consumed.push(item);
                if faulty("consume", item) {
                    Err(error(item))
                } else {
                    Ok((!faulty("stop", item)).then_some(item))
                }
            },
            |item| reported.extend(item),
        );
        let most = *lock(&most);
        // `max_in_flight`, plus the item that was started when little of it was left.
        assert!(most * 3 <= max_in_flight.max(1) + 3, "{most} at once, with max_in_flight {max_in_flight}");
        (consumed, reported, result)
    }

    #[test]
    fn results_arrive_in_order_within_the_limit() {
        for (threads, max_in_flight) in [(1, 0), (1, 7), (2, 6), (3, 9), (4, 100)] {
            let (consumed, reported, result) = run_queue(threads, max_in_flight, |_, _| false);
            result.unwrap();
            assert!(consumed.iter().copied().eq(0..100), "{consumed:?}");
            assert_eq!(reported, consumed);
        }
    }

    #[test]
    fn the_first_error_in_order_is_returned() {
        for threads in [1, 4] {
            for wrong in ["item", "work", "consume"] {
                let (consumed, reported, result) =
                    run_queue(threads, 30, |what, item| what == wrong && item >= 40);
                assert!(result.as_ref().is_err_and(|error| error.text() == "item 40"), "{wrong}: {result:?}");
                assert!(
                    consumed.iter().copied().eq(0..40 + usize::from(wrong == "consume")),
                    "{wrong}: {consumed:?}"
                );
                assert!(reported.iter().copied().eq(0..40));
            }
            let (consumed, reported, result) =
                run_queue(threads, 30, |what, item| what == "stop" && item == 40);
            assert!(result.is_ok() && consumed.len() == 41 && reported.len() == 40);
        }
    }

    /// A caller cancels by unwinding out of `on_progress`; items in flight end soon.
    #[test]
    fn a_caller_panic_cancels_the_work() {
        for threads in [1, 3] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let stop = AtomicBool::new(false);
            let begun = Mutex::new(0);
            let start = std::time::Instant::now();
            let work = |_: &mut (), item: usize| {
                *lock(&begun) += 1;
                // This item takes longer than any test waits, unless the flag stops it.
                while item > 0 && !stop.load(Ordering::Relaxed) && start.elapsed().as_secs() < 20 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(item)
            };
            let items = (0..100).map(|item| Ok((1, item)));
            let on_progress = |consumed: Option<()>| {
                assert!(consumed.is_some(), "cancelled at a tick, as the test expects")
            };
            let mut states = vec![(); threads];
            let workers = Workers::new(&pool, &mut states, &stop).with_max_in_flight(9);
            let run = || workers.map_in_order(items, work, |_| Ok(Some(())), on_progress);
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
            assert!(start.elapsed().as_secs_f64() < 5.0 && *lock(&begun) <= 1 + threads);
        }
    }

    #[test]
    fn a_worker_panic_propagates() {
        for threads in [1, 3] {
            let panicked = std::panic::catch_unwind(|| {
                run_queue(threads, 6, |what, item| {
                    assert!(what != "work" || item != 20, "as the test expects");
                    false
                })
            });
            assert!(panicked.is_err());
        }
    }
}
