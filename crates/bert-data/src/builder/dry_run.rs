//! Estimates what a build would make and cost from a sample of the text. It writes nothing.
//!
//! All inputs are read once: this counts their bytes exactly and refuses files that are not text. At most 64 blocks (16
//! MB) at equal distances are kept. They are tokenized, made into the instances of a few passes, and written as a shard
//! to a file system that keeps nothing. Each step is timed.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use std::sync::atomic::AtomicBool;

use crate::builder::memory::Tuning;
use crate::builder::plan::{Plan, PlanFigures, row_groups};
use crate::builder::prepare::{Prepared, prepare};
use crate::config::{BuildConfig, Layout, RandomMode};
use crate::dataset::report::Counters;
use crate::documents::casing;
use crate::documents::id_width::Width;
use crate::documents::read::TextReader;
use crate::documents::{Counts, Documents, DocumentsBuilder};
use crate::error::Result;
use crate::input::Block;
use crate::input::line_check::LineCheck;
use crate::input::table::InputReader;
use crate::instance::keyed::KeyedInstances;
use crate::parallel::share_out;
use crate::shard::documents::{DocumentEncoder, document_form};
use crate::shard::packed_row::pack;
use crate::shard::writer::{EncodedRowGroup, RowEncoder, ShardForm, ShardWriter};
use bert_random::{Domain, Random, Stream};

/// Numbers of parts for which the time is shown.
const PARTS: [u64; 4] = [1, 8, 64, 512];
/// Blocks that are kept: enough for a per cent, little enough for a second.
const BLOCKS: usize = 64;
/// Instances that are made of them, if so many can be.
const ROWS: u64 = 40_000;

/// What a build would make and cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Files.
    pub files: usize,
    /// Bytes of text in them after decompression.
    pub text_bytes: u64,
    /// Share of the text that was looked at.
    pub sampled: f64,
    /// Documents with at least one token.
    pub documents: u64,
    /// Sentences of the text.
    pub sentences: u64,
    /// Word pieces of the text.
    pub tokens: u64,
    /// Rows of the data set.
    pub instances: u64,
    /// Parquet files.
    pub shards: usize,
    /// Bytes of the Parquet files together.
    pub bytes: u64,
    /// The most bytes on disk before the end: the tokens, the rows on their way, and the shards, which wait in the work
    /// folder of the output until all are written.
    pub scratch: u64,
    /// Peak resident memory in bytes.
    pub memory: u64,
    /// Seconds on this machine with these threads, as busy as it is now.
    pub seconds: f64,
    /// CPU seconds, all threads together.
    pub cpu_seconds: f64,
    /// How the work divides.
    pub plan: PlanFigures,
    /// What does not fit the text.
    pub warnings: Vec<String>,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let mut line =
            |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<28}{:>14}", value.to_string());
        line("files", &self.files)?;
        line("text", &megabytes(self.text_bytes))?;
        line("  of which looked at", &format!("{:.1} %", 100.0 * self.sampled))?;
        line("documents, about", &self.documents)?;
        line("sentences, about", &self.sentences)?;
        line("tokens, about", &self.tokens)?;
        line("instances, about", &self.instances)?;
        line("shards", &self.shards)?;
        line("bytes on disk, about", &megabytes(self.bytes))?;
        line("  while building, about", &megabytes(self.scratch))?;
        line("peak memory, about", &megabytes(self.memory))?;
        line("time, about", &format!("{:.1} s", self.seconds))?;
        line("CPU time, about", &format!("{:.1} s", self.cpu_seconds))?;
        let plan = &self.plan;
        line("buckets of documents", &format!("{} in {} pass(es)", plan.buckets, plan.passes))?;
        line("  documents in each, about", &plan.documents_of_bucket)?;
        line("row groups of a shard, about", &plan.row_groups_of_shard)?;
        line("reads of a shard, at most", &plan.reads_of_shard)?;
        line("open files, at most", &plan.open_files)?;
        for (parts, hours) in PARTS.map(|parts| (parts, self.cpu_seconds / 3600.0 / parts as f64)) {
            if hours > 0.5 {
                line(&format!("hours of CPU on {parts} part(s)"), &format!("{hours:.1}"))?;
            }
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "WARNING: {warning}"))
    }
}

/// Estimates what [`crate::build`] would make of a configuration; the output folder is neither needed nor touched.
///
/// # Errors
/// As [`crate::build`] for options and inputs. What is wrong with text that was not looked at is not found.
pub fn dry_run(config: &BuildConfig) -> Result<Estimate> {
    let start = Instant::now();
    let prepared = prepare(config)?;
    let (blocks, text_bytes) = sample(&prepared)?;
    let sampled_bytes: u64 = blocks.iter().map(|block| block.bytes.len() as u64).sum();
    let read = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let tokenizer = prepared.tokenizer();
    // The lines were judged when all were read.
    let any_lines = BuildConfig { strict_utf8: false, lossy_utf8: true, ..config.clone() };
    let (mut text, cut_documents) = TextReader::new(&tokenizer, &any_lines, &prepared.pool).sample(
        &prepared.files,
        &blocks,
        DocumentsBuilder::new(tokenizer.ids().size()),
    )?;
    let tokenize = start.elapsed().as_secs_f64();
    if config.layout == Layout::Documents {
        // As they are stored: neighbours in the text may have phrases in common.
        text.shuffle(&mut Stream::new(config.random_seed, Domain::Buckets, &[0]));
    }
    let scale = text_bytes as f64 / sampled_bytes.max(1) as f64;
    let of_text = |count: u64| (count as f64 * scale).round() as u64;

    let (made, making) = second_time(|| make(&prepared, &text))?;
    // Each pass makes about the same number of instances.
    let rows = (made.rows.len() as f64 * scale * config.passes() as f64 / made.passes as f64).round();

    let documents = of_text(text.len() as u64 - cut_documents).max(1);
    let tokens = of_text(text.tokens());
    let plan = Plan::new(config, documents, tokens, prepared.ids().size());
    let threads = prepared.pool.current_num_threads();
    let tuning = Tuning::new(prepared.budget, threads, plan.unit_bytes());
    let (bytes, writing) = second_time(|| match config.layout {
        Layout::Instances => write_nowhere(&prepared, &plan, &tuning, &made),
        Layout::Documents => write_documents_nowhere(&prepared, &plan, &tuning, &text, scale),
    })?;
    // Of each row of the sample; of documents, of each row that the loader makes of them.
    let per_row = |of_all: f64| of_all / made.rows.len().max(1) as f64;
    // A small text has fewer buckets than there are threads.
    let at_once = plan.units().min(tuning.workers as u64) as f64;
    let idle = if config.random == RandomMode::Reference { 1.0 } else { threads as f64 / at_once };

    let sentences = of_text(text.sentences());
    let text = Counts { documents, sentences, tokens, ..Counts::default() };
    let sizes = Sizes { rows, packed: rows * per_row(made.bytes.len() as f64), text };
    let bytes = (rows * per_row(bytes as f64)) as u64;
    // Done beside the rest, and so shared among the threads.
    let shared = read / threads as f64;
    // The last shards, the vocabulary, the card, the manifest and the folder are waited for.
    let syncs = (plan.shards.min(2) + 4) as f64 * SECONDS_PER_SYNC;
    let of_rows = rows * per_row(making + writing);
    let work = shared + tokenize * scale + of_rows;
    let seconds = shared + tokenize * scale + of_rows * idle + syncs;
    Ok(Estimate {
        files: prepared.files.len(),
        text_bytes,
        sampled: sampled_bytes as f64 / text_bytes.max(1) as f64,
        documents,
        sentences,
        tokens,
        instances: rows as u64,
        shards: plan.shards,
        bytes,
        scratch: bytes + scratch(config, &plan, &sizes),
        memory: memory(config, &plan, &tuning, threads, &sizes),
        seconds,
        cpu_seconds: work * if config.random == RandomMode::Reference { 1.0 } else { threads as f64 },
        plan: plan.figures(rows, threads),
        warnings: casing::warning(config, &prepared.vocabulary, prepared.settings, &prepared.files)?
            .into_iter()
            .collect(),
    })
}

/// What work gives, and the seconds it takes when it is done again: a build does it for long, so that what the first
/// time costs (threads that start, memory that is new) does not count.
fn second_time<T>(work: impl Fn() -> Result<T>) -> Result<(T, f64)> {
    work()?;
    let start = Instant::now();
    Ok((work()?, start.elapsed().as_secs_f64()))
}

/// Blocks at equal distances in the text, and how many bytes the whole text has.
fn sample(prepared: &Prepared<'_>) -> Result<(Vec<Block>, u64)> {
    let (mut kept, mut text_bytes) = (Vec::new(), 0);
    let (bad_lines, mut lines) = (prepared.config.text_rules().bad_lines, LineCheck::default());
    let (mut number, mut distance) = (0usize, 1);
    for (index, path) in prepared.files.iter().enumerate() {
        let mut reader = InputReader::open(path, index, &prepared.config.text_column)?;
        while let Some(block) = reader.next_block()? {
            text_bytes += block.bytes.len() as u64;
            let of_block = LineCheck::of(&block, path, bad_lines)?;
            lines.add_block(of_block, path, block.ends_file, bad_lines)?;
            if number.is_multiple_of(distance) {
                kept.push((number, block));
            }
            number += 1;
            if kept.len() > BLOCKS {
                distance *= 2;
                kept.retain(|(number, _)| number.is_multiple_of(distance));
            }
        }
    }
    Ok((kept.into_iter().map(|(_, block)| block).collect(), text_bytes))
}

/// Rows of the sample, packed.
struct Made {
    bytes: Vec<u8>,
    /// Where each row begins in `bytes`.
    rows: Vec<u32>,
    passes: usize,
}

/// Makes the instances of a few passes over the sample, with as many threads as the build would.
fn make(prepared: &Prepared<'_>, documents: &Documents) -> Result<Made> {
    let config = prepared.config;
    let width = Width::of(prepared.ids().size());
    let mut made = Made { bytes: Vec::new(), rows: Vec::new(), passes: 0 };
    let serial = config.random == RandomMode::Reference;
    let threads = if serial { 1 } else { prepared.pool.current_num_threads() };
    let mut makers = vec![prepared.resolved(1).keyed(&prepared.vocabulary); threads];
    let mask = prepared.vocabulary.mask_id();
    while made.passes < config.passes() && (made.rows.len() as u64) < ROWS {
        let unit = |keyed: &mut KeyedInstances, document: usize| -> Result<(Vec<u8>, Vec<u32>)> {
            let (mut rows, mut starts) = (Vec::new(), Vec::new());
            let mut counters = Counters::new(config.max_seq_length);
            keyed.make(documents, made.passes as u64, (document, document as u64), |_, row| {
                starts.push(rows.len() as u32);
                pack(row, width, &mut rows);
                counters.count(row, mask);
                Ok(())
            })?;
            Ok((rows, starts))
        };
        let all = (0..documents.len()).collect();
        for (rows, starts) in
            share_out(&prepared.pool, &mut makers, all, &AtomicBool::new(false), unit, &mut || {})?
        {
            let base = made.bytes.len() as u32;
            made.rows.extend(starts.into_iter().map(|start| base + start));
            made.bytes.extend_from_slice(&rows);
        }
        made.passes += 1;
    }
    Ok(made)
}

/// Writes the documents themselves, which are not packed.
fn write_documents_nowhere(
    prepared: &Prepared<'_>,
    plan: &Plan,
    tuning: &Tuning,
    documents: &Documents,
    scale: f64,
) -> Result<u64> {
    let form = document_form(prepared.stored_ids());
    let shards = (plan.shards as f64 / scale).round().max(1.0) as usize;
    // All threads have something to do, and every shard has the same number of row groups.
    let (groups, all) = (shards * tuning.workers.div_ceil(shards), documents.len());
    let items = (0..groups).map(|at| all * at / groups..all * (at + 1) / groups).collect();
    let encoder = || DocumentEncoder::new(prepared.stored_ids());
    let encode = |encoder: &mut DocumentEncoder, some| encoder.encode(Path::new(NOWHERE), documents, some);
    let mut encoded = encode_all(prepared, tuning, items, encoder, encode)?.into_iter();
    let of_shard = groups / shards;
    (0..shards).map(|_| bytes_of(prepared, plan, &form, encoded.by_ref().take(of_shard))).sum()
}

fn write_nowhere(prepared: &Prepared<'_>, plan: &Plan, tuning: &Tuning, made: &Made) -> Result<u64> {
    let mut order = made.rows.clone();
    Stream::new(prepared.config.random_seed, Domain::ShardOrder, &[0, 0]).shuffle(&mut order);
    let items = row_groups(0..order.len()).collect();
    let encoder = || RowEncoder::new(prepared.row_columns());
    let encode = |encoder: &mut RowEncoder, rows: Range<usize>| {
        encoder.encode(Path::new(NOWHERE), &made.bytes, plan.width, &order[rows])
    };
    let encoded = encode_all(prepared, tuning, items, encoder, encode)?;
    bytes_of(prepared, plan, &ShardForm::of_rows(prepared.row_columns()), encoded.into_iter())
}

/// Named in errors.
const NOWHERE: &str = "nowhere.parquet";

/// Encodes row groups as a build does, each worker with an encoder of its own.
fn encode_all<E: Send>(
    prepared: &Prepared<'_>,
    tuning: &Tuning,
    items: Vec<Range<usize>>,
    encoder: impl Fn() -> Result<E>,
    encode: impl Fn(&mut E, Range<usize>) -> Result<EncodedRowGroup> + Sync,
) -> Result<Vec<EncodedRowGroup>> {
    let mut encoders = (0..tuning.workers).map(|_| encoder()).collect::<Result<Vec<_>>>()?;
    share_out(&prepared.pool, &mut encoders, items, &AtomicBool::new(false), encode, &mut || {})
}

/// The bytes of a shard of these row groups.
fn bytes_of(
    prepared: &Prepared<'_>,
    plan: &Plan,
    form: &ShardForm,
    mut groups: impl Iterator<Item = EncodedRowGroup>,
) -> Result<u64> {
    let footer = prepared.footer(plan.shards).of_shard(0);
    let mut shard = ShardWriter::new(Vec::new(), Path::new(NOWHERE), form, footer)?;
    groups.try_for_each(|group| shard.append(group))?;
    Ok(shard.finish()?.out.len() as u64)
}

/// How large the corpus and its data set are.
struct Sizes {
    rows: f64,
    /// Bytes of the rows when packed.
    packed: f64,
    text: Counts,
}

/// Bytes of the work folder beside the shards: the columns of the text, and in reference mode the rows.
fn scratch(config: &BuildConfig, plan: &Plan, sizes: &Sizes) -> u64 {
    let text: u64 = sizes.text.bytes(plan.width).iter().sum();
    let rows = match config.random {
        RandomMode::Keyed => 0.0,
        RandomMode::Reference => sizes.packed,
    };
    text + rows as u64
}

/// Peak resident memory: the larger of tokenizing and of making shards: some buckets at once, and beside them the index
/// of the documents where it fits, in reference mode the text and where each row is. The constants were measured on the
/// bench corpus.
fn memory(config: &BuildConfig, plan: &Plan, tuning: &Tuning, threads: usize, sizes: &Sizes) -> u64 {
    let [text, index] = sizes.text.bytes(plan.width);
    let held = match config.random {
        RandomMode::Reference => text as f64 + 12.0 * sizes.rows,
        RandomMode::Keyed if index <= tuning.index => index as f64,
        RandomMode::Keyed => 0.0,
    };
    let packed = match config.layout {
        Layout::Instances => sizes.packed / plan.units() as f64,
        Layout::Documents => (plan.width.bytes() as u64 * sizes.text.tokens / plan.units()) as f64,
    };
    let workers = plan.units().min(tuning.workers as u64);
    let making = held + workers as f64 * (MAKING + MAKING_PER_PACKED * packed);
    let tokenizing = TOKENIZER + threads as f64 * WORDS_PER_THREAD;
    (BASE + tokenizing.max(making)) as u64
}

/// Writing a file through to a solid-state disk.
const SECONDS_PER_SYNC: f64 = 0.004;
/// The program and a vocabulary of 30,000 words.
const BASE: f64 = 9e6;
/// The tokenizer, which is gone when instances are made.
const TOKENIZER: f64 = 2e6;
/// The words that a thread's tokenizer remembers.
const WORDS_PER_THREAD: f64 = 3.4e6;
/// Dictionaries, pages and compression of a row group.
const MAKING: f64 = 8e6;
/// A bucket on its way: documents, packed rows, a row group as columns, compressed ones that wait for their turn.
const MAKING_PER_PACKED: f64 = 3.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_largest_stage() {
        let config = BuildConfig { num_shards: Some(2), dupe_factor: 10, ..BuildConfig::default() };
        let plan = Plan::new(&config, 100, 1_000_000, 30_000);
        assert_eq!(plan.units(), 10);
        let text = Counts { documents: 100, sentences: 1_000, tokens: 1_000_000, ..Counts::default() };
        let sizes = Sizes { rows: 1e5, packed: 100.0 * 1e5, text };
        let of = |config: &BuildConfig, index, workers| {
            memory(config, &plan, &Tuning { index, workers }, 2, &sizes) as f64
        };
        let index = 16.0 * (1e2 + 1.0);
        assert_eq!(of(&config, 1 << 30, 0), BASE + TOKENIZER + 2.0 * WORDS_PER_THREAD);
        let unit = 100.0 * 1e5 / 10.0;
        let making = 3.0 * (MAKING + MAKING_PER_PACKED * unit);
        assert_eq!(of(&config, 1 << 30, 3), BASE + index + making);
        assert_eq!(of(&config, 1000, 3), BASE + making, "the index stays on disk");
        let reference = BuildConfig { random: RandomMode::Reference, ..config.clone() };
        let text = 2.0 * 1e6 + 4.0 * 1e3;
        assert_eq!(of(&reference, 0, 3), BASE + text + 12.0 * 1e5 + making);
        let documents = BuildConfig { layout: Layout::Documents, ..config };
        let of_bucket = MAKING + MAKING_PER_PACKED * 2.0 * 100_000.0;
        assert_eq!(of(&documents, 0, 3), BASE + 3.0 * of_bucket);
    }
}
