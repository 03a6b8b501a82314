//! Items shared out among workers, results in the order of the items.
//!
//! In go workers, each with buffers of its own, and items; a worker takes the next item whenever it is free, so that
//! uneven items keep all of them busy. Which worker has an item must not matter to its result. Runs in the current
//! pool. Not for pipelines.

use std::sync::Mutex;
use std::sync::PoisonError;

use rayon::prelude::*;

/// Works on all items and returns the results in their order.
pub(crate) fn share_out<W: Send, T: Send, R: Send>(
    workers: &mut [W],
    items: Vec<T>,
    work: impl Fn(&mut W, T) -> R + Sync,
) -> Vec<R> {
    if let [worker] = workers {
        return items.into_iter().map(|item| work(worker, item)).collect();
    }
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let mut results: Vec<(usize, R)> = workers
        .par_iter_mut()
        .flat_map_iter(|worker| {
            let (next, work) = (&next, &work);
            std::iter::from_fn(move || next().map(|(at, item)| (at, work(worker, item))))
        })
        .collect();
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for workers in [1, 2, 5] {
            let mut counts = vec![0u32; workers];
            let items: Vec<u64> = (0..1000).collect();
            let results = share_out(&mut counts, items, |count, item| {
                *count += 1;
                item * item
            });
            assert!(results.into_iter().eq((0..1000).map(|item| item * item)));
            assert_eq!(counts.iter().sum::<u32>(), 1000);
        }
    }
}
