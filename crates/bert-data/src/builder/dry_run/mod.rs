//! Estimates the size of a data set and the cost of its build from a sample of the text. Writes nothing.
//!
//! The sample ([`sample`]) is tokenized, turned into the instances of a few passes, and encoded as a shard ([`trial`]).
//! Each step is timed.

mod sample;
mod trial;

use std::fmt;
use std::time::Instant;

use bert_random::{Domain, Stream};
use bert_storage::with_flags;
use serde::Serialize;

use crate::builder::dry_run::sample::Sample;
use crate::builder::dry_run::trial::Trial;
use crate::builder::plan::{Plan, PlanFigures};
use crate::builder::prepare::{PreparedBuild, Tuning, prepare};
use crate::config::{BuildConfig, Layout, RandomMode};
use crate::dataset::report::DataReport;
use crate::documents::read::TextReader;
use crate::documents::read_report::ReadReport;
use crate::documents::selection::{check_held_out, with_limit};
use crate::documents::{Counts, Documents, DocumentsBuilder, casing};
use crate::error::Result;
use crate::instance::coverage::{Counters, Uncovered};

/// The estimated size of a data set and the cost of its build.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Estimate {
    /// Number of input files.
    pub files: usize,
    /// Bytes of text in the files after decompression.
    pub text_bytes: u64,
    /// Fraction of the text that was sampled.
    pub sampled: f64,
    /// Number of documents with at least one token.
    pub documents: u64,
    /// Number of sentences in the text.
    pub sentences: u64,
    /// Number of WordPiece tokens in the text.
    pub tokens: u64,
    /// Number of rows in the data set.
    pub instances: u64,
    /// Number of Parquet files.
    pub shards: usize,
    /// Total bytes of the Parquet files.
    pub bytes: u64,
    /// Maximum bytes on disk during the build: the token store, in reference mode the rows, and the shards, which stay
    /// in the work folder of the output until all are written.
    pub scratch: u64,
    /// Peak resident memory in bytes.
    pub memory: u64,
    /// Seconds on this machine with this number of threads, at the present load.
    pub seconds: f64,
    /// Total CPU seconds of all threads.
    pub cpu_seconds: f64,
    /// The division of the work into buckets and shards.
    pub plan: PlanFigures,
    /// Mismatches between the options and the text.
    pub warnings: Vec<String>,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let mut line =
            |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<28}{:>14}", value.to_string());
        line("files", &self.files)?;
        line("text", &megabytes(self.text_bytes))?;
        line("  sampled", &format!("{:.1} %", 100.0 * self.sampled))?;
        line("documents, about", &self.documents)?;
        line("sentences, about", &self.sentences)?;
        line("tokens, about", &self.tokens)?;
        line("instances, about", &self.instances)?;
        line("shards", &self.shards)?;
        line("size on disk, about", &megabytes(self.bytes))?;
        line("  during the build, about", &megabytes(self.scratch))?;
        line("peak memory, about", &megabytes(self.memory))?;
        line("time, about", &format!("{:.1} s", self.seconds))?;
        line("CPU time, about", &format!("{:.1} s", self.cpu_seconds))?;
        let plan = &self.plan;
        line("buckets of documents", &format!("{} in {} pass(es)", plan.buckets, plan.passes))?;
        line("  documents per bucket, about", &plan.documents_per_bucket)?;
        line("row groups per shard, about", &plan.row_groups_per_shard)?;
        line("reads per shard, at most", &plan.reads_per_shard)?;
        line("open files, at most", &plan.open_files)?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

/// Estimates the output of [`crate::build`] for a configuration. The output folder is neither required nor changed, but
/// one that a build would reject is rejected.
///
/// # Errors
/// Fails as [`crate::build`] does for options and inputs. Errors in the text outside the sample are not found.
pub fn dry_run(config: &BuildConfig) -> Result<Estimate> {
    let start = Instant::now();
    let config = &*with_limit(config)?;
    let prepared = prepare(config)?;
    if config.output.is_some() {
        prepared.check_output()?;
    }
    let sample = Sample::read(&prepared)?;
    let reading = start.elapsed().as_secs_f64();
    let scale = sample.text_bytes as f64 / sample.bytes.max(1) as f64;
    let start = Instant::now();
    let (documents, found) = tokenize_sample(&prepared, &sample)?;
    let tokenizing = start.elapsed().as_secs_f64() * scale;
    let in_text = |count: u64| (count as f64 * scale).round() as u64;
    let text = Counts {
        documents: documents_of(config, &sample, &documents, &found).max(1),
        sentences: in_text(documents.sentences()),
        tokens: in_text(documents.tokens()),
        ..Counts::default()
    };
    let plan = Plan::new(config, text.documents, text.tokens, prepared.ids().size());
    plan.check(config)?;
    let threads = prepared.pool.current_num_threads();
    let trial = Trial::run(&prepared, &plan, &documents, scale)?;
    // Each pass yields about the same number of instances.
    let rows = (trial.rows as f64 * scale * config.passes() as f64 / trial.passes as f64).round();
    let rows_per_trial_row = rows / trial.rows.max(1) as f64;
    let bytes = (trial.bytes as f64 * rows_per_trial_row) as u64;
    let sizes = Sizes { rows, packed: trial.packed as f64 * rows_per_trial_row, text };
    // A build divides the reading among its threads. The held-out documents are built from a second reading.
    let readings = if config.hold_out.is_some() && !config.held_out { 2.0 } else { 1.0 };
    let before = readings * (reading / threads as f64 + tokenizing);
    let building = trial.seconds * rows_per_trial_row;
    let serial = config.random == RandomMode::Reference;
    // A small text may have fewer buckets than there are threads. The other threads are then idle.
    let workers = plan.units().min(trial.tuning.workers as u64);
    let idle = if serial { 1.0 } else { threads as f64 / workers as f64 };
    // The build waits for the last shards, the vocabulary, the card, the manifest and the folder to reach the disk.
    let syncs = (plan.shards.min(2) + 4) as f64 * SECONDS_PER_SYNC;
    Ok(Estimate {
        files: prepared.files.len(),
        text_bytes: sample.text_bytes,
        sampled: sample.bytes as f64 / sample.text_bytes.max(1) as f64,
        documents: text.documents,
        sentences: text.sentences,
        tokens: text.tokens,
        instances: rows as u64,
        shards: plan.shards,
        bytes,
        scratch: bytes + scratch(config, &plan, &sizes),
        memory: memory(config, &plan, &trial.tuning, threads, &sizes),
        seconds: before + building * idle + syncs,
        cpu_seconds: (before + building) * if serial { 1.0 } else { threads as f64 },
        plan: plan.figures(rows, threads),
        warnings: warnings(&prepared, sample.read, found, &text, (&trial.counters, scale))?,
    })
}

/// Estimates the number of documents in the data set: all documents of the text, minus the held-out share, which is
/// measured on the sample.
fn documents_of(config: &BuildConfig, sample: &Sample, documents: &Documents, found: &ReadReport) -> u64 {
    let kept = documents.len() as f64;
    let all = kept + found.left_out_documents as f64;
    match config.hold_out {
        Some(_) if all > 0.0 => (sample.documents as f64 * kept / all).round() as u64,
        _ => sample.documents,
    }
}

/// Returns the warnings that the build will give, as far as the sample shows them.
fn warnings(
    prepared: &PreparedBuild<'_>,
    read: ReadReport,
    found: ReadReport,
    text: &Counts,
    (counters, scale): (&Counters, f64),
) -> Result<Vec<String>> {
    let mut read = read;
    read.warnings.extend(casing::warning(
        prepared.config,
        &prepared.vocabulary,
        prepared.settings,
        &prepared.files,
    )?);
    let found = found.scaled(scale);
    let held_out = check_held_out(prepared.config, &found, text.documents);
    read.add(found);
    let resolved = prepared.resolved(prepared.config.num_shards.unwrap_or(1));
    let mut warnings = DataReport::new(&resolved, text, &read, counters, Uncovered::default()).warnings;
    warnings.extend(held_out.err().map(|error| format!("in the sample, {}", with_flags(&error.to_string()))));
    Ok(warnings)
}

/// Tokenizes the sample; returns its documents and statistics.
fn tokenize_sample(prepared: &PreparedBuild<'_>, sample: &Sample) -> Result<(Documents, ReadReport)> {
    let config = prepared.config;
    let tokenizer = prepared.tokenizer();
    // The lines were already checked when all inputs were read.
    let any_lines = BuildConfig { strict_utf8: false, lossy_utf8: true, ..config.clone() };
    let (mut text, read) = TextReader::new(&tokenizer, &any_lines, &prepared.pool).sample(
        &prepared.files,
        &sample.blocks,
        DocumentsBuilder::new(tokenizer.ids().size()),
    )?;
    if config.layout == Layout::Documents {
        // The documents are shuffled like the stored ones. In text order, neighbours share phrases and compress better.
        text.shuffle(&mut Stream::new(config.random_seed, Domain::Buckets, &[0]));
    }
    Ok((text, read))
}

/// The sizes of the corpus and its data set.
struct Sizes {
    rows: f64,
    /// Bytes of all packed rows.
    packed: f64,
    text: Counts,
}

/// Returns the bytes of the work folder in addition to the shards: the token store and, in reference mode, the rows.
fn scratch(config: &BuildConfig, plan: &Plan, sizes: &Sizes) -> u64 {
    let text: u64 = sizes.text.bytes(plan.width).iter().sum();
    let rows = match config.random {
        RandomMode::Keyed => 0.0,
        RandomMode::Reference => sizes.packed,
    };
    text + rows as u64
}

/// Estimates peak resident memory: the larger of the memory for tokenizing and the memory for building shards. Building
/// shards needs several buckets at once. In keyed mode it also needs the document index if that fits, and in reference
/// mode the text and the row offsets. The constants were measured on the benchmark corpus.
fn memory(config: &BuildConfig, plan: &Plan, tuning: &Tuning, threads: usize, sizes: &Sizes) -> u64 {
    let [text, index] = sizes.text.bytes(plan.width);
    let resident = match config.random {
        RandomMode::Reference => text as f64 + 12.0 * sizes.rows,
        RandomMode::Keyed if index <= tuning.index => index as f64,
        RandomMode::Keyed => 0.0,
    };
    let packed = match config.layout {
        Layout::Instances => sizes.packed / plan.units() as f64,
        Layout::Documents => (plan.width.bytes() as u64 * sizes.text.tokens / plan.units()) as f64,
    };
    let workers = plan.units().min(tuning.workers as u64);
    let building = resident + workers as f64 * (WORKER_BYTES + WORKER_BYTES_PER_PACKED_BYTE * packed);
    let tokenizing = TOKENIZER + threads as f64 * WORD_CACHE_PER_THREAD;
    (BASE + tokenizing.max(building)) as u64
}

/// Seconds to sync a file to a solid-state disk.
const SECONDS_PER_SYNC: f64 = 0.004;
/// Bytes for the program and a vocabulary of 30,000 words.
const BASE: f64 = 9e6;
/// Bytes for the tokenizer, which is freed before instances are built.
const TOKENIZER: f64 = 2e6;
/// Bytes per thread for the tokenizer's word cache.
const WORD_CACHE_PER_THREAD: f64 = 3.4e6;
/// Bytes for dictionaries, pages and compression of a row group.
const WORKER_BYTES: f64 = 8e6;
/// Bytes of memory per packed byte of a bucket that is being built: documents, packed rows, a row group as columns, and
/// compressed row groups that wait to be written.
const WORKER_BYTES_PER_PACKED_BYTE: f64 = 3.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_memory_is_the_largest_stage() {
        let config = BuildConfig { num_shards: Some(2), dupe_factor: 10, ..BuildConfig::default() };
        let plan = Plan::new(&config, 100, 1_000_000, 30_000);
        assert_eq!(plan.units(), 10);
        let text = Counts { documents: 100, sentences: 1_000, tokens: 1_000_000, ..Counts::default() };
        let sizes = Sizes { rows: 1e5, packed: 100.0 * 1e5, text };
        let peak = |config: &BuildConfig, index, workers| {
            memory(config, &plan, &Tuning { index, workers }, 2, &sizes) as f64
        };
        let index = 16.0 * (1e2 + 1.0);
        assert_eq!(peak(&config, 1 << 30, 0), BASE + TOKENIZER + 2.0 * WORD_CACHE_PER_THREAD);
        let unit = 100.0 * 1e5 / 10.0;
        let building = 3.0 * (WORKER_BYTES + WORKER_BYTES_PER_PACKED_BYTE * unit);
        assert_eq!(peak(&config, 1 << 30, 3), BASE + index + building);
        assert_eq!(peak(&config, 1000, 3), BASE + building, "the index stays on disk");
        let reference = BuildConfig { random: RandomMode::Reference, ..config.clone() };
        let text = 2.0 * 1e6 + 4.0 * 1e3;
        assert_eq!(peak(&reference, 0, 3), BASE + text + 12.0 * 1e5 + building);
        let documents = BuildConfig { layout: Layout::Documents, ..config };
        let per_bucket = WORKER_BYTES + WORKER_BYTES_PER_PACKED_BYTE * 2.0 * 100_000.0;
        assert_eq!(peak(&documents, 0, 3), BASE + 3.0 * per_bucket);
    }
}
