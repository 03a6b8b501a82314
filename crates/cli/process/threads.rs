//! Sets up the compute threads.

use std::thread::available_parallelism;

use clap::value_parser;

use crate::process::process_group::ranks_on_this_host;

/// Maximum number of compute threads.
const MAX_THREADS: i64 = 4096;

/// `--threads`, with the meaning that it has in the data builder.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct ThreadArgs {
    /// Compute threads; 0 means one per core. The result does not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u16).range(0..=MAX_THREADS))]
    threads: u16,
}

impl ThreadArgs {
    /// Returns the number of threads, 0 for one per core.
    #[must_use]
    pub fn count(self) -> usize {
        self.threads.into()
    }

    /// Starts rayon's pool with this number of threads and makes the calling thread one of them.
    ///
    /// A thread outside the pool passes each parallel loop to a worker and sleeps until it is done: two wake-ups for
    /// each of the several hundred loops of a step. A pool of one thread does not include the calling thread, because
    /// work from other threads would wait for this one. This function does nothing if the pool already exists.
    pub fn start_pool(self) {
        let from_environment = || std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok());
        let from_environment =
            || from_environment().filter(|&threads: &usize| threads <= MAX_THREADS as usize);
        let is_given = |threads: &usize| *threads > 0;
        let given = Some(self.count()).filter(is_given).or_else(|| from_environment().filter(is_given));
        let threads = given.unwrap_or_else(threads_of_this_process);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = if threads > 1 { pool.use_current_thread() } else { pool };
        // The error means that the pool already exists, which is fine.
        drop(pool.build_global());
    }
}

/// Returns the number of cores for this process. Ranks on one host share its cores, unless the launcher has bound each
/// rank to some of the cores.
fn threads_of_this_process() -> usize {
    let available = available_parallelism().map_or(1, usize::from);
    let ranks = ranks_on_this_host().unwrap_or(1);
    if is_bound() { available } else { (available / ranks).max(1) }
}

/// Returns whether this process may use only some cores of its host.
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

/// Allows or forbids transparent huge pages for this process and the processes that it starts. Has no effect on systems
/// other than Linux.
///
/// The programs that train forbid them. A tensor of 2.25 MiB, such as a projection of BERT-base, occupies two huge
/// pages of 2 MiB, so with huge pages a training step takes 9 % (BERT-base) to 15 % (tiny, mini) more memory. Huge
/// pages save no time.
pub fn allow_huge_pages(allowed: bool) {
    // An error means that this system has no huge pages.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(!allowed);
    #[cfg(not(target_os = "linux"))]
    let _ = allowed;
}
