//! Divides the memory of a build (`--memory-budget`) among its uses.
//!
//! A [`Tuning`] sets how much of the token store's index is held in memory and how many buckets are processed at once.
//! It follows from the budget, the number of threads and the size of a bucket, and does not change any byte of the data
//! set. The operating system does not enforce the budget.

use crate::config::byte_size::ByteSize;
use crate::error::{Error, Result};

/// One mebibyte.
const MIB: u64 = 1 << 20;

/// Bytes for the program, a vocabulary of 30,000 words and its tokenizer.
pub(crate) const PROGRAM: u64 = 28 * MIB;
/// Bytes per thread: the tokenizer's word cache and blocks of text.
pub(crate) const PER_THREAD: u64 = 10 * MIB;
/// Bytes needed to build the rows of a bucket, per byte of its packed rows: the documents, the rows and their encoded
/// form.
const PER_UNIT_BYTE: f64 = 3.0;
/// Additional bytes per worker: dictionaries, pages and compression.
pub(crate) const PER_WORKER: u64 = 10 * MIB;
/// Minimum budget in addition to [`PROGRAM`] and [`PER_THREAD`].
const MIN_BUDGET: u64 = 16 * MIB;

/// The amount of data that is held in memory and the number of buckets that are processed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Maximum bytes of the store's index in memory.
    pub(crate) index: u64,
    /// Number of buckets whose rows are built at once, or of document shards that are written at once.
    pub(crate) workers: usize,
}

/// The default memory budget, unless the threads need more.
const DEFAULT: u64 = 256 * MIB;
/// Bytes that a thread needs for a bucket of the usual size.
const BUCKET: u64 = 64 * MIB;

/// Returns the minimum budget for this number of threads.
fn min_budget(threads: usize) -> u64 {
    PROGRAM + threads as u64 * PER_THREAD + MIN_BUDGET
}

/// Returns the requested budget or the default.
///
/// # Errors
/// Fails if the budget is below the minimum.
pub(crate) fn resolve(budget: Option<ByteSize>, threads: usize) -> Result<ByteSize> {
    let min_budget = min_budget(threads);
    let budget = budget.unwrap_or(ByteSize(DEFAULT.max(min_budget + threads as u64 * BUCKET)));
    if budget.0 >= min_budget {
        return Ok(budget);
    }
    Err(Error::usage(format!(
        "`.memory_budget` is {budget}, but {threads} thread(s) need at least {}",
        ByteSize(min_budget)
    )))
}

impl Tuning {
    /// Divides a budget. `unit_bytes` is the size of the packed rows of a bucket.
    pub(crate) fn new(budget: ByteSize, threads: usize, unit_bytes: f64) -> Self {
        let free = budget.0.saturating_sub(PROGRAM + threads as u64 * PER_THREAD).max(MIN_BUDGET);
        let worker = PER_WORKER + (PER_UNIT_BYTE * unit_bytes) as u64;
        let workers = (free / worker).clamp(1, threads as u64);
        Self { index: free.saturating_sub(workers * worker), workers: workers as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::build_prepared;
    use crate::builder::merge::merge;
    use crate::builder::parts::build_prepared_part;
    use crate::builder::prepare::prepare;
    use crate::config::test_text::{content, lettered};
    use crate::config::{BuildConfig, Layout, RandomMode};
    use bert_storage::Disk;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in
            [("400M", 400 << 20), ("2g", 2 << 30), ("1KiB", 1 << 10), ("77", 77), ("1TB", 1 << 40)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
        for (bytes, text) in [(3 << 30, "3G"), (1536 << 20, "1536M"), (5 << 10, "5120"), (0, "0")] {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
        for wrong in ["", "M", "1.5G", "-1", "4 M", "12X", "99999999999999999999", "18446744073709551615K"] {
            assert!(wrong.parse::<ByteSize>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_parts_fit_the_budget() {
        for budget in [64, 100, 256, 4096] {
            for threads in [1, 2, 16] {
                for unit in [1e3, 1e6, 2e7] {
                    let budget = ByteSize(budget * MIB);
                    if resolve(Some(budget), threads).is_err() {
                        continue;
                    }
                    let tuning = Tuning::new(budget, threads, unit);
                    assert!(tuning.workers >= 1 && tuning.workers <= threads);
                    let workers = tuning.workers as u64 * (PER_WORKER + (PER_UNIT_BYTE * unit) as u64);
                    let all = PROGRAM + threads as u64 * PER_THREAD + workers + tuning.index;
                    // One bucket is always processed, however large it is.
                    assert!(all <= budget.0 || tuning.workers == 1, "{tuning:?}");
                }
            }
        }
        let with = |bytes| resolve(Some(ByteSize(bytes)), 2);
        assert!(with(min_budget(2)).is_ok() && with(min_budget(2) - 1).is_err());
        for threads in [1, 16, 1000] {
            let default = resolve(None, threads).unwrap();
            assert!(default.0 > min_budget(threads));
            assert_eq!(Tuning::new(default, threads, 16e6).workers, threads);
        }
        assert_eq!(resolve(None, 2).unwrap(), ByteSize(256 * MIB));
    }

    fn with_tuning(config: &BuildConfig, tuning: Option<Tuning>) {
        let mut prepared = prepare(config).unwrap();
        prepared.tuning = tuning;
        match config.part {
            None => drop(build_prepared(&Disk, &prepared, &mut |_| {}).unwrap()),
            Some(_) => drop(build_prepared_part(&Disk, &prepared, &mut |_| {}).unwrap()),
        }
    }

    /// Compares builds with the index in memory and on disk, and with one bucket at a time and three.
    fn assert_same_bytes(change: &dyn Fn(BuildConfig) -> BuildConfig) {
        let folder = tempfile::tempdir().unwrap();
        let text = lettered(folder.path(), 0);
        let document =
            |at: usize| "a b c d e.\nf g h i j k.\nl m n.\n".repeat(if at % 7 == 3 { 6 } else { 1 });
        std::fs::write(&text.input[0], (0..200).map(|at| document(at) + "\n").collect::<String>()).unwrap();
        let path = |name: &str| folder.path().join(name);
        let to =
            |name: &str, threads| change(BuildConfig { output: Some(path(name)), threads, ..text.clone() });
        with_tuning(&to("whole", 2), None);
        let whole = content(&path("whole"));
        // The index is on disk, then in memory.
        for (threads, tuning) in
            [(1, Tuning { index: 0, workers: 1 }), (3, Tuning { index: 3300, workers: 3 })]
        {
            let name = format!("{}", tuning.index);
            with_tuning(&to(&name, threads), Some(tuning));
            assert!(content(&path(&name)) == whole, "{tuning:?}");
            let parts = format!("{name}-parts");
            for part in [1, 2] {
                let config = BuildConfig { part: Some(part), parts: Some(2), ..to(&parts, threads) };
                if config.random == RandomMode::Keyed {
                    with_tuning(&config, Some(tuning));
                }
            }
            if path(&parts).exists() {
                merge(&path(&parts), &mut |_| {}).unwrap();
                assert!(content(&path(&parts)) == whole, "{tuning:?} in parts");
            }
        }
    }

    #[test]
    fn instances_do_not_depend_on_the_memory_limit() {
        assert_same_bytes(&|config| BuildConfig { num_shards: Some(3), ..config });
    }

    #[test]
    fn documents_do_not_depend_on_the_memory_limit() {
        let layout = Layout::Documents;
        let num_shards = Some(3);
        assert_same_bytes(&|config| BuildConfig { layout, num_shards, dupe_factor: 10, ..config });
    }
}
