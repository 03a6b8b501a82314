//! Checks that a finished data folder matches the committed data set.
//!
//! [`verify`] checks that every file exists, that the shards have the recorded sizes, and that the vocabulary has the
//! recorded digest. With `deep` it also checks the digests of the shards and every row. If all shards are intact, it
//! recounts their rows and compares the sums with the recorded invariants and the report. The counts of the manifest are
//! thereby checked against the Parquet files, independently of the builder. If documents are stored, it regenerates the
//! instances of pass 0. Counts of the original text (lines, `[UNK]`, truncated sentences, omitted tokens) cannot be
//! recounted.

use std::fmt;
use std::path::Path;

use bert_storage::{ObjectCache, is_url, on_disk};
use rayon::prelude::*;

use crate::config::Layout;
use crate::dataset::DataSet;
use crate::dataset::document_groups::DocumentGroups;
use crate::dataset::invariants::check_invariant;
use crate::dataset::manifest::Manifest;
use crate::dataset::row_masker::DocumentPasses;
use crate::documents::Counts;
use crate::documents::id_width::{Tally, Width};
use crate::error::{Error, Result};
use crate::instance::coverage::Counters;
use crate::instance::pairs::Instance;
use crate::shard::row::{ShardRows, pack};

/// One file of a data folder and its problem, if any.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckedFile {
    /// File name inside the folder.
    pub file: String,
    /// Number of rows; 0 for the vocabulary.
    pub rows: u64,
    /// The problem, if any.
    pub problem: Option<Error>,
}

/// The result of recounting the shards.
#[derive(Debug)]
pub struct Recount {
    /// Number of rows in all shards.
    pub rows: u64,
    /// The first sum that differs from the manifest, if any.
    pub problem: Option<Error>,
}

/// The result of checking a data folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct Verification {
    /// All files, the vocabulary first.
    pub files: Vec<CheckedFile>,
    /// The recount; `None` if a file differs from the committed one or no rows were read.
    pub recount: Option<Recount>,
}

impl Verification {
    /// Returns whether every file matches the manifest and the recount, if any, found no difference.
    pub fn is_good(&self) -> bool {
        let recount_good = self.recount.iter().all(|recount| recount.problem.is_none());
        recount_good && self.files.iter().all(|file| file.problem.is_none())
    }

    /// Returns the first problem.
    #[must_use]
    pub fn into_problem(self) -> Option<Error> {
        let recount = self.recount.and_then(|recount| recount.problem);
        self.files.into_iter().find_map(|file| file.problem).or(recount)
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for checked in &self.files {
            match &checked.problem {
                None if checked.rows == 0 => writeln!(f, "good  {}", checked.file)?,
                None => writeln!(f, "good  {} ({} rows)", checked.file, checked.rows)?,
                Some(problem) => writeln!(f, "bad   {}: {problem}", checked.file)?,
            }
        }
        match &self.recount {
            None => Ok(()),
            Some(Recount { rows, problem: None }) => {
                writeln!(f, "good  invariants, recounted from the {rows} rows in the shards")
            }
            Some(Recount { problem: Some(problem), .. }) => writeln!(f, "bad   {problem}"),
        }
    }
}

/// Checks every file of a data folder against its manifest and continues after a bad file. With `deep`, reads every row
/// and recounts the rows if all files are good.
///
/// # Errors
/// Fails only if the manifest itself cannot be used; problems with other files are in the result.
pub fn verify(folder: &Path, deep: bool) -> Result<Verification> {
    verify_with(folder, deep, &mut |_| {})
}

/// Runs [`verify`] and reports progress. Reads the shards on all threads of rayon's pool.
///
/// # Errors
/// Fails as [`verify`] does.
pub fn verify_with(
    folder: &Path,
    deep: bool,
    progress: &mut dyn FnMut(ShardProgress),
) -> Result<Verification> {
    let folder = &*on_disk(folder);
    let manifest = Manifest::read(folder)?;
    let (vocabulary, problem) = match manifest.check_vocabulary(folder) {
        Ok(vocabulary) => (Some(vocabulary), None),
        Err(problem) => (None, Some(problem)),
    };
    let mut files = vec![CheckedFile { file: manifest.vocabulary.file.clone(), rows: 0, problem }];
    let data = vocabulary.map(|vocabulary| DataSet::new(folder, manifest.clone(), vocabulary));
    let mut data = data.filter(|_| deep);
    if is_url(folder) {
        // Shards are read only once, so the cache needs room for two per thread.
        let largest = manifest.shards.iter().map(|shard| shard.bytes).max().unwrap_or(0);
        let cache = ObjectCache::temporary(2 * rayon::current_num_threads() as u64 * largest);
        let cache = cache.map_err(Error::io("cache", folder))?;
        data = data.map(|data| data.with_cache(cache));
    }
    let check = |index| -> Result<Option<ShardCount>> {
        manifest.check_size(folder, index)?;
        match &data {
            Some(data) => ShardCount::count(data, index).map(Some),
            // Without the vocabulary, only the digest of a shard can be checked.
            None if deep => manifest.check_digest(folder, index).map(|()| None),
            None => Ok(None),
        }
    };
    let checked = each_shard(&manifest, check, progress);
    let mut sum = ShardCount::none(&manifest);
    for (shard, checked) in manifest.shards.iter().zip(checked) {
        let problem = match checked {
            Ok(count) => {
                count.iter().for_each(|count| sum.add(count));
                None
            }
            Err(problem) => Some(problem),
        };
        files.push(CheckedFile { file: shard.file.clone(), rows: shard.rows, problem });
    }
    let all_good = files.iter().all(|file| file.problem.is_none());
    let recount = data.filter(|_| all_good).map(|_| {
        let rows = manifest.shards.iter().map(|shard| shard.rows).sum();
        Recount { rows, problem: sum.compare(&manifest).err() }
    });
    Ok(Verification { files, recount })
}

/// The progress of work on the shards of a data set, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardProgress {
    /// Bytes of the shards that are done.
    pub done: u64,
    /// Bytes of all shards.
    pub total: u64,
}

/// Runs `work` on every shard, one per thread at a time; returns the results in shard order.
pub(crate) fn each_shard<T: Send>(
    manifest: &Manifest,
    work: impl Fn(usize) -> T + Sync,
    progress: &mut dyn FnMut(ShardProgress),
) -> Vec<T> {
    let bytes = |shards: &[usize]| shards.iter().map(|&shard| manifest.shards[shard].bytes).sum::<u64>();
    let all: Vec<usize> = (0..manifest.shards.len()).collect();
    let mut results = Vec::with_capacity(all.len());
    let mut done = 0;
    let total = bytes(&all);
    for some in all.chunks(rayon::current_num_threads()) {
        results.par_extend(some.par_iter().map(|&shard| work(shard)));
        done += bytes(some);
        progress(ShardProgress { done, total });
    }
    results
}

/// The counts of some shards.
struct ShardCount {
    /// The rows, if the shards hold instances.
    rows: Tally,
    /// The instances; if the shards hold documents, the instances of pass 0.
    counters: Counters,
    /// The documents, if the shards hold documents.
    documents: Counts,
    /// Number of tokens in documents without an instance, if the shards hold documents.
    uncovered: u64,
}

impl ShardCount {
    fn none(manifest: &Manifest) -> Self {
        let counters = Counters::new(manifest.config.max_seq_length);
        Self { rows: Tally::default(), counters, documents: Counts::default(), uncovered: 0 }
    }

    /// Counts one shard after comparing its digest.
    fn count(data: &DataSet, index: usize) -> Result<Self> {
        let manifest = data.manifest();
        let mut count = Self::none(data.manifest());
        if let Some(passes) = DocumentPasses::new(manifest, data.vocabulary(), manifest.config.random_seed) {
            count.add_documents(data, index, passes)?;
            return Ok(count);
        }
        let ids = manifest.ids();
        let width = Width::for_vocabulary(manifest.ids().size());
        let mut instance = Instance::default();
        let mut packed = Vec::new();
        data.check_shard(index)?;
        let file = data.open_rows(index)?;
        for group in 0..file.groups() {
            for row in data.read_groups(&file, &[group])?.iter() {
                row.copy_to(ids, &mut instance);
                packed.clear();
                pack(&instance, width, &mut packed);
                count.rows.add_bytes(&packed);
                count.counters.count(&instance, data.vocabulary().mask_id());
            }
        }
        Ok(count)
    }

    /// Adds the documents of a shard, and the instances that each row group yields on its own.
    fn add_documents(&mut self, data: &DataSet, shard: usize, mut passes: DocumentPasses) -> Result<()> {
        let ids = data.manifest().ids();
        let mask = data.vocabulary().mask_id();
        let mut groups = DocumentGroups::new(data);
        let mut pairs = ShardRows::default();
        let mut instance = Instance::default();
        for group in groups.in_shard(shard) {
            let bucket = groups.read([group])?;
            self.documents.add(&bucket.documents().counts);
            for (index, document) in bucket.documents().iter().enumerate() {
                pairs.clear();
                passes.append_pairs(&bucket, 0, index, &mut pairs)?;
                for (number, row) in (0..).zip(pairs.iter()) {
                    passes.mask(row, 0, bucket.number(index), number).copy_to(ids, &mut instance);
                    self.counters.count(&instance, mask);
                }
                self.uncovered += if pairs.is_empty() { document.tokens() as u64 } else { 0 };
            }
        }
        Ok(())
    }

    fn add(&mut self, other: &Self) {
        self.rows.add(other.rows);
        self.counters.add(&other.counters);
        self.documents.add(&other.documents);
        self.uncovered += other.uncovered;
    }

    /// Compares the count of all shards with the manifest.
    fn compare(&self, manifest: &Manifest) -> Result<()> {
        let invariants = &manifest.invariants;
        let report = &manifest.report;
        match manifest.config.layout {
            Layout::Instances => {
                check_invariant("the number of rows in the shards", self.rows.count, invariants.rows)?;
                let what = "the fingerprint of the rows in the shards";
                check_fingerprint(what, self.rows, &invariants.row_fingerprint)?;
                report.check_counters(&self.counters)
            }
            Layout::Documents => {
                let Counts { documents, sentences, tokens, tally } = self.documents;
                check_invariant("the number of documents in the shards", documents, invariants.documents)?;
                check_invariant("the number of sentences in the shards", sentences, report.sentences)?;
                check_invariant("the number of tokens in the shards", tokens, report.tokens)?;
                let what = "the fingerprint of the documents in the shards";
                check_fingerprint(what, tally, &invariants.document_fingerprint)?;
                let what = "the number of tokens in documents without an instance";
                check_invariant(what, self.uncovered, report.uncovered_tokens)?;
                report.check_counters(&self.counters)
            }
        }
    }
}

fn check_fingerprint(what: &'static str, found: Tally, expected: &str) -> Result<()> {
    // Text that is not a hexadecimal number never matches.
    let expected = u64::from_str_radix(expected, 16).unwrap_or(!found.fingerprint);
    check_invariant(what, found.fingerprint, expected)
}
