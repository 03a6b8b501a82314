//! How much memory a build may take, and what it is used for.
//!
//! In goes `--memory-budget`, the number of threads and the size of the text; out comes a [`Tuning`]: what of the text is
//! held in memory, how much is made and sorted at a time, how many row groups are written at once. None of it changes a
//! byte of the data set. Not a limit that the operating system enforces.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::document::Counts;
use crate::error::{OptionError, Result};
use crate::packed::Width;

/// A number of bytes, as `400M`, `2G` or `300000000`; K, M and G are powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(pub u64);

/// One mebibyte.
const MIB: u64 = 1 << 20;

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is not a number of bytes such as 400M or 2G");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 1,
            "K" | "KB" | "KIB" => 1 << 10,
            "M" | "MB" | "MIB" => MIB,
            "G" | "GB" | "GIB" => 1 << 30,
            "T" | "TB" | "TIB" => 1 << 40,
            _ => return Err(expected()),
        };
        let number: u64 = number.parse().map_err(|_| expected())?;
        number.checked_mul(factor).map(Self).ok_or_else(expected)
    }
}

impl TryFrom<String> for ByteSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        size.to_string()
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 30) => write!(f, "{}G", bytes >> 30),
            bytes if bytes > 0 && bytes.is_multiple_of(MIB) => write!(f, "{}M", bytes >> 20),
            bytes => write!(f, "{bytes}"),
        }
    }
}

/// The program, a vocabulary of 30,000 words and its tokenizer.
pub(crate) const PROGRAM: u64 = 28 * MIB;
/// What each thread takes: the words its tokenizer remembers, blocks of text, a round of instances.
pub(crate) const PER_THREAD: u64 = 10 * MIB;
/// What writing one row group takes beside its packed rows: dictionaries, pages and compression.
pub(crate) const PER_WRITER: u64 = 10 * MIB;
/// The least that a build can be asked to use beside [`PROGRAM`] and [`PER_THREAD`].
const LEAST: u64 = 16 * MIB;

/// Tokens of text for each thread in one round of making instances.
const ROUND_TOKENS: u64 = 1 << 17;
/// Packed rows that are sorted at a time: few for a small corpus, so that memory does not follow `dupe_factor`.
const RUN: u64 = 2 * MIB;
/// How many runs there may be before they become longer.
const MOST_RUNS: f64 = 256.0;
/// The most that is sorted at a time: places in a run take four bytes.
const LONGEST_RUN: u64 = 1 << 30;
/// Sorted rows that are kept together: what a restart may have to make again.
const RUNS_PER_SEGMENT: u64 = 32;

/// What is held in memory, and how much is done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Bytes of the store of tokens that may be in memory.
    pub(crate) resident: u64,
    /// Tokens of one round of making instances, over all threads.
    pub(crate) round_tokens: u64,
    /// Bytes of packed rows that are sorted at a time.
    pub(crate) run_bytes: u64,
    /// Bytes of packed rows after which a segment ends.
    pub(crate) segment_bytes: u64,
    /// Row groups that are written at a time.
    pub(crate) writers: usize,
}

/// The memory that a build uses unless told otherwise, where it has not more threads than that is enough for.
const DEFAULT: u64 = 256 * MIB;

/// The least budget with so many threads.
fn least(threads: usize) -> u64 {
    PROGRAM + threads as u64 * PER_THREAD + LEAST
}

/// The budget: what was asked for, or the default.
///
/// # Errors
/// [`OptionError::BudgetTooSmall`] for one that cannot be kept.
pub(crate) fn resolve(budget: Option<ByteSize>, threads: usize) -> Result<ByteSize> {
    let least = least(threads);
    let budget = budget.unwrap_or(ByteSize(DEFAULT.max(least + 4 * LEAST)));
    if budget.0 >= least {
        return Ok(budget);
    }
    Err(OptionError::BudgetTooSmall { budget, least: ByteSize(least), threads }.into())
}

impl Tuning {
    /// Shares out a budget. `rows_bytes` is the size of all packed rows, `group_bytes` that of one row group.
    pub(crate) fn new(budget: ByteSize, threads: usize, rows_bytes: f64, group_bytes: f64) -> Self {
        let free = budget.0.saturating_sub(PROGRAM + threads as u64 * PER_THREAD).max(LEAST);
        // Making instances takes the store and, twice, a run: one is filled while the other is written.
        let run_bytes = (rows_bytes / MOST_RUNS) as u64;
        let run_bytes = run_bytes.clamp(RUN, (free / 4).clamp(RUN, LONGEST_RUN));
        let resident = free - 2 * run_bytes;
        let writer = PER_WRITER + 2 * group_bytes as u64;
        let writers = (free / writer).clamp(1, threads as u64) as usize;
        Self {
            resident,
            round_tokens: ROUND_TOKENS * threads as u64,
            run_bytes,
            segment_bytes: RUNS_PER_SEGMENT * run_bytes,
            writers,
        }
    }

    /// Which of the index, the sentences and the tokens are held in memory: the most used first.
    pub(crate) fn resident_columns(&self, counts: &Counts, width: Width) -> [bool; 3] {
        resident_columns(self.resident, counts, width)
    }
}

/// Which of the tokens, the sentences and the index of documents fit in so many bytes: the most used first.
pub(crate) fn resident_columns(memory: u64, counts: &Counts, width: Width) -> [bool; 3] {
    let mut left = memory;
    let mut fits = |bytes: u64| {
        let fits = bytes <= left;
        left -= if fits { bytes } else { 0 };
        fits
    };
    let index = fits(8 * (counts.documents + 1));
    let sentences = fits(8 * (counts.sentences + 1));
    let tokens = fits(width.bytes() as u64 * counts.tokens);
    [tokens, sentences, index]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::build::{build_prepared, build_prepared_part, prepare};
    use crate::config::{BuildConfig, Layout, RandomMode};
    use crate::files::Disk;
    use crate::manifest::Manifest;
    use crate::merge::merge;
    use crate::test_text::lettered;

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
                for rows in [1e6, 1e8, 1e11] {
                    let budget = ByteSize(budget * MIB);
                    if resolve(Some(budget), threads).is_err() {
                        continue;
                    }
                    let tuning = Tuning::new(budget, threads, rows, 4e6);
                    let fixed = PROGRAM + threads as u64 * PER_THREAD;
                    assert!(fixed + tuning.resident + 2 * tuning.run_bytes <= budget.0, "{tuning:?}");
                    assert!(tuning.writers >= 1 && tuning.writers <= threads);
                }
            }
        }
        let with = |bytes| resolve(Some(ByteSize(bytes)), 2);
        assert!(with(least(2)).is_ok() && with(least(2) - 1).is_err());
        for threads in [1, 16, 1000] {
            assert!(resolve(None, threads).unwrap().0 > least(threads));
        }
        assert_eq!(resolve(None, 2).unwrap(), ByteSize(256 * MIB));
    }

    #[test]
    fn shares_of_two_budgets() {
        // Much text: a quarter of what is free for each of two runs, and as many row groups as fit.
        let much = Tuning {
            resident: 106 * MIB,
            round_tokens: 16 * ROUND_TOKENS,
            run_bytes: 53 * MIB,
            segment_bytes: 32 * 53 * MIB,
            writers: 12,
        };
        assert_eq!(Tuning::new(ByteSize(400 * MIB), 16, 1e11, 4e6), much);
        let little = Tuning {
            resident: 204 * MIB,
            round_tokens: 2 * ROUND_TOKENS,
            run_bytes: 2 * MIB,
            segment_bytes: 64 * MIB,
            writers: 2,
        };
        assert_eq!(Tuning::new(ByteSize(256 * MIB), 2, 1e6, 4e6), little);
    }

    /// Every file of a folder but the lock.
    fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let entries = entries.filter(|path| path.file_name().unwrap() != ".lock");
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        entries.map(|path| (name(&path), std::fs::read(path).unwrap())).collect()
    }

    fn with_tuning(config: &BuildConfig, tuning: Option<Tuning>) {
        let mut prepared = prepare(config).unwrap();
        prepared.tuning = tuning;
        match config.part {
            None => drop(build_prepared(&Disk, &prepared, &mut |_| {}).unwrap()),
            Some(_) => drop(build_prepared_part(&Disk, &prepared, &mut |_| {}).unwrap()),
        }
    }

    /// Nothing of the store in memory, or its index only, or all but the tokens; one row in a run, a row in a segment and
    /// hundreds; rounds that a document fills, and some that a few do. The default holds everything and sorts all rows in one run.
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
        let report = Manifest::read(&path("whole")).unwrap().report;
        let (documents, sentences, tokens) = (report.documents, report.sentences, report.tokens);
        let counts = Counts { documents, sentences, tokens, ..Counts::default() };
        let tiny = Tuning { resident: 0, round_tokens: 20, run_bytes: 1, segment_bytes: 1, writers: 1 };
        for (held, threads, tuning) in [
            ([false; 3], 1, tiny),
            (
                [false, false, true],
                3,
                Tuning { resident: 1700, round_tokens: 100, segment_bytes: 900, ..tiny },
            ),
            ([false, true, true], 2, Tuning { resident: 10_000, run_bytes: 1500, writers: 3, ..tiny }),
        ] {
            assert_eq!(tuning.resident_columns(&counts, Width::Two), held);
            let name = format!("{}", tuning.resident);
            with_tuning(&to(&name, threads), Some(tuning));
            assert!(content(&path(&name)) == whole, "{tuning:?}");
            let parts = format!("{name}-parts");
            for part in [2, 1] {
                let config = BuildConfig { part: Some(part), parts: Some(2), ..to(&parts, threads) };
                if config.random == RandomMode::Keyed {
                    with_tuning(&config, Some(tuning));
                }
            }
            if path(&parts).exists() {
                merge(&path(&parts)).unwrap();
                assert!(content(&path(&parts)) == whole, "{tuning:?} in parts");
            }
        }
    }

    #[test]
    fn instances_do_not_depend_on_what_is_held_in_memory() {
        assert_same_bytes(&|config| BuildConfig { num_shards: Some(3), ..config });
    }

    #[test]
    fn documents_do_not_depend_on_what_is_held_in_memory() {
        let (layout, num_shards) = (Layout::Documents, Some(3));
        assert_same_bytes(&|config| BuildConfig { layout, num_shards, dupe_factor: 10, ..config });
    }

    #[test]
    fn the_reference_mode_does_not_depend_on_what_is_held_in_memory() {
        assert_same_bytes(&|config| BuildConfig { random: RandomMode::Reference, ..config });
    }
}
