//! Sets up the compute threads.

use std::thread::available_parallelism;

/// Makes the calling thread one of the workers of rayon's pool, for programs that train on it.
///
/// A thread outside the pool passes each parallel loop to a worker and sleeps until it is done: two wake-ups for each
/// of the several hundred loops of a step. This function does nothing if the pool would have only one worker (work from
/// other threads would wait for this one) or if the pool already exists.
pub fn compute_on_this_thread() {
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
    let threads = if asked > 0 { asked } else { available_parallelism().map_or(1, usize::from) };
    if threads > 1 {
        // The error means that the pool already exists, which is fine.
        drop(rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build_global());
    }
}
