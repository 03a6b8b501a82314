//! Sets up the compute threads.

use std::thread::available_parallelism;

use crate::process_group::ranks_on_this_host;

/// Makes the calling thread one of the workers of rayon's pool, for programs that train on it.
///
/// A thread outside the pool passes each parallel loop to a worker and sleeps until it is done: two wake-ups for each
/// of the several hundred loops of a step. This function does nothing if the pool would have only one worker (work from
/// other threads would wait for this one) or if the pool already exists.
pub fn compute_on_this_thread() {
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
    let threads = if asked > 0 { asked } else { threads_of_this_process() };
    if threads > 1 {
        // The error means that the pool already exists, which is fine.
        drop(rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build_global());
    }
}

/// Returns the number of cores for this process. Ranks on one host share its cores, unless the launcher has bound each
/// of them to some.
fn threads_of_this_process() -> usize {
    let available = available_parallelism().map_or(1, usize::from);
    let ranks = ranks_on_this_host().unwrap_or(1);
    if is_bound() { available } else { (available / ranks).max(1) }
}

/// Returns whether this process may use some cores of its host only.
fn is_bound() -> bool {
    #[cfg(target_os = "linux")]
    let is_bound =
        rustix::thread::sched_getaffinity(None).is_ok_and(|own| (own.count() as usize) < online_cores());
    #[cfg(not(target_os = "linux"))]
    let is_bound = false;
    is_bound
}

/// Returns the number of cores of this host that are online; 0 if unknown.
#[cfg(target_os = "linux")]
fn online_cores() -> usize {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let length = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<usize>().ok()? + 1 - first.parse::<usize>().ok()?)
    };
    list.trim().split(',').filter_map(length).sum()
}
