//! Checks and loads everything that a build needs before it reads text: options, vocabulary, inputs, threads, memory.
//!
//! The module also divides the memory of a build (`--memory-budget`) among its uses.
//!
//! A [`Tuning`] sets how much of the token store's index is held in memory and how many buckets are processed at once.
//! It follows from the budget, the number of threads and the size of a bucket, and does not change any byte of the data
//! set. The operating system does not enforce the budget.

use std::path::PathBuf;

use bert_storage::checksummed_json::MAX_BYTES;
use bert_text::threads::pool;
use bert_text::{Format, reject_too_many};
use bert_tokenization::{TokenizerSettings, Vocabulary, is_special_token};
use rayon::ThreadPool;

use crate::config::BuildConfig;
use crate::config::byte_size::ByteSize;
use crate::config::check::conflict;
use crate::config::part::Part;
use crate::documents::casing;
use crate::error::{Error, Result};

/// Minimum number of input bytes in a segment, if the input has that many.
pub(crate) const SEGMENT: u64 = 4 << 20;

/// Everything that is checked and loaded before text is read.
pub(crate) struct PreparedBuild<'a> {
    pub(crate) config: &'a BuildConfig,
    pub(crate) part: Part,
    pub(crate) budget: ByteSize,
    /// Tuning that tests use instead of the tuning derived from the budget.
    pub(crate) tuning: Option<Tuning>,
    /// Minimum number of input bytes that are tokenized together; smaller in tests.
    pub(crate) segment: u64,
    pub(crate) vocabulary: Vocabulary,
    /// The rules by which text is normalized.
    pub(crate) settings: TokenizerSettings,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) formats: Vec<Format>,
    pub(crate) pool: ThreadPool,
}

pub(crate) fn prepare(config: &BuildConfig) -> Result<PreparedBuild<'_>> {
    config.check()?;
    let (files, formats) = config.input_files()?;
    let name_bytes = files.iter().map(|path| path.as_os_str().len() as u64).sum();
    reject_too_large(config, reject_too_many(files.len(), name_bytes)?)?;
    config.check_formats(&formats)?;
    let (vocabulary, settings) = casing::tokenizer_of(config)?;
    if config.random_word_skip_special && vocabulary.tokens().iter().all(|token| is_special_token(token)) {
        return conflict("random_word_skip_special", "this `.vocab`", "it has no other tokens");
    }
    let pool = pool(config.threads)?;
    let budget = resolve(config.memory_budget, pool.current_num_threads())?;
    Ok(PreparedBuild {
        config,
        part: config.part()?,
        budget,
        tuning: None,
        segment: SEGMENT,
        vocabulary,
        settings,
        files,
        formats,
        pool,
    })
}

/// Maximum bytes of a shard's entry in a receipt.
pub(super) const SHARD: u64 = 400;
/// Maximum bytes of a pass's entry in a receipt.
pub(super) const PASS: u64 = 200;
/// Maximum bytes of the entry of a sequence length in a receipt.
const LENGTH: u64 = 20;
/// Maximum bytes of everything else in a receipt.
const REST: u64 = 8 << 20;

/// Rejects a part whose receipt would exceed the maximum size of a checksummed file. `inputs` is the size of the list
/// of inputs in bytes.
///
/// # Errors
/// Fails when the receipt could exceed the maximum size.
pub(crate) fn reject_too_large(config: &BuildConfig, inputs: u64) -> Result<()> {
    let Some(parts) = config.parts else { return Ok(()) };
    let shards = config.num_shards.unwrap_or(20_000).div_ceil(parts) as u64;
    let passes = config.passes() as u64;
    let lengths = config.max_seq_length as u64;
    let bytes = inputs + SHARD * shards + PASS * passes + LENGTH * lengths + REST;
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let reason =
        "the list of its inputs, shards and passes is too long: use fewer passes, or join the input files";
    conflict("parts", "these values of `.num_shards`, `.dupe_factor` and `.input`", reason)
}

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

/// A stage of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildStage {
    /// Reading and tokenizing; counted in bytes of input on disk.
    Reading,
    /// Building instances and masks, and writing shards; counted in buckets of documents, once per pass (reference
    /// mode: in documents, once per pass).
    Instances,
    /// The tokenized text of an earlier run is reused; counted in documents. Reported once.
    ReusedText,
    /// The shards of an earlier run are reused; counted in shards. Reported once.
    ReusedShards,
    /// The text of an earlier run has changed, and everything is rebuilt; counted in documents of the earlier text.
    /// Reported once.
    ChangedText,
    /// The files of an earlier run are compared with their receipts; counted in segments of the text or in shards.
    /// Reported only if the check takes long.
    Checking,
    /// An earlier run of the same command already finished the data set. Reported once.
    Finished,
}

/// The progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildProgress {
    /// The stage.
    pub stage: BuildStage,
    /// Number of units of the stage that are done.
    pub done: u64,
    /// Total number of units of the stage.
    pub total: u64,
}

#[cfg(test)]
mod tests {
    use bert_storage::Disk;

    use super::*;
    use crate::builder::build_prepared;
    use crate::builder::merge::merge;
    use crate::builder::parts::build_prepared_part;
    use crate::config::test_text::{content, lettered};
    use crate::config::{Layout, RandomMode};

    #[test]
    fn parts_with_too_long_receipts_are_rejected_first() {
        let parts = BuildConfig { part: Some(1), parts: Some(2), ..BuildConfig::default() };
        let large = BuildConfig { num_shards: Some(99_999), max_seq_length: 65_535, ..parts.clone() };
        reject_too_large(&large, 200 << 20).unwrap();
        let error =
            reject_too_large(&BuildConfig { dupe_factor: 1_000_000, ..parts }, 200 << 20).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains("fewer passes"), "{error}");
    }

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
