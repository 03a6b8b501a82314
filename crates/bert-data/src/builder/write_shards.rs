//! Writes encoded row groups as shards: Parquet files in the work folder, each with a receipt.
//!
//! Any thread can build a piece of a shard (`bucket_rows`, `reference_rows`). The thread that has the next piece writes
//! it, so the pieces are in order. Another thread finishes the files and waits for the disk. Shards that an earlier run
//! finished are reused if their digests match.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use bert_storage::{AtomicFile, digest_file};
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};

use crate::builder::output::Output;
use crate::builder::plan::Plan;
use crate::builder::prepare::{BuildProgress, BuildStage, PreparedBuild};
use crate::builder::token_store::Store;
use crate::dataset::invariants::BuildTally;
use crate::dataset::manifest::ShardEntry;
use crate::documents::id_width::Tally;
use crate::error::Result;
use crate::instance::coverage::{Counters, Coverage, CoveredRanges, Uncovered};
use crate::parallel::Workers;
use crate::shard::writer::{
    EncodedRowGroup, FinishedShard, ShardFormat, ShardWriter, shard_footer, shard_name,
};

/// Encoded rows of one shard.
pub(crate) struct ShardPiece {
    pub(crate) shard: usize,
    pub(crate) groups: Vec<EncodedRowGroup>,
    /// Tally of the rows as they were built.
    pub(crate) rows: Tally,
    /// Counts of the documents, if they are attached to this piece.
    pub(crate) stats: Option<PieceStats>,
}

/// Returns whether a file exists and has this digest.
pub(crate) fn has_digest(path: &Path, blake3: &str) -> Result<bool> {
    match digest_file(path) {
        Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => Ok(false),
        digest => Ok(digest? == blake3),
    }
}

/// The receipt of a finished shard in the work folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardReceipt {
    /// Digest of the build.
    build: String,
    written: WrittenShard,
    /// Counts of the rows of the shard, and of the documents that are counted together with it.
    #[serde(rename = "made")]
    stats: PieceStats,
}

/// Returns whether a file of a work folder is the receipt of a finished shard.
pub(crate) fn is_shard_receipt(name: &str) -> bool {
    name.starts_with("shard-") && name.ends_with(".json")
}

/// Returns the name of the receipt of a shard.
pub(crate) fn receipt_name(shard: usize) -> String {
    format!("shard-{shard:05}.json")
}

/// Returns the receipt of a shard that an earlier run finished, if the shard is intact.
fn cached_shard(output: &Output<'_>, build: &str, shard: usize, name: &str) -> Result<Option<ShardReceipt>> {
    let Some(receipt) = output.work.folder.read_checksummed::<ShardReceipt>(&receipt_name(shard))? else {
        return Ok(None);
    };
    let WrittenShard { shard: number, entry, .. } = &receipt.written;
    let is_same = (receipt.build.as_str(), *number, entry.file.as_str()) == (build, shard as u64, name);
    let is_valid = || match &output.objects {
        // A shard that was uploaded is compared again when the data set is committed.
        Some(objects) => objects.has_shard(entry),
        None => has_digest(&output.find(name)?, &entry.blake3),
    };
    Ok(if is_same && is_valid()? { Some(receipt) } else { None })
}

/// The data needed to write shards.
pub(crate) struct ShardJob<'a> {
    pub(crate) prepared: &'a PreparedBuild<'a>,
    pub(crate) output: &'a Output<'a>,
    pub(crate) plan: &'a Plan,
    pub(crate) store: &'a Store,
    pub(crate) format: ShardFormat,
    /// The entries that the footers of all shards have.
    pub(crate) footer: &'a [KeyValue],
    /// Flag that is set when the caller has given up. Later results are discarded.
    pub(crate) stop: &'a AtomicBool,
}

impl ShardJob<'_> {
    /// Returns the path at which a shard is written.
    fn path(&self, shard: usize) -> PathBuf {
        self.output.work.path(&shard_name(shard, self.plan.shards, self.prepared.config.held_out))
    }
}

/// Writes the shards of this part from pieces, in order, and reuses finished shards. Returns the shards and the sum of
/// their counts. `work` returns the pieces of an item that belong to wanted shards; over all items, in order, the
/// pieces must be in shard order. `progress` is called after each item, and after every tenth of a second without one.
/// If `progress` panics, the work ends; `work` may return anything once the job's `stop` flag is set.
pub(crate) fn write_shard_files<W: Send, T: Send + Clone>(
    job: &ShardJob<'_>,
    workers: &mut [W],
    items: impl FnOnce(&[bool]) -> Vec<T>,
    work: impl Fn(&mut W, T, &[bool]) -> Result<Vec<ShardPiece>> + Sync,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<(Vec<WrittenShard>, PieceStats)> {
    let mut sum = PartStats::new(job.prepared.config.max_seq_length, job.store.counts.tokens);
    let (mut shards, missing) = cached_shards(job, &mut sum, progress)?;
    let mut wanted = vec![false; job.plan.shards];
    missing.iter().for_each(|&shard| wanted[shard] = true);
    let items = items(&wanted);
    let total = items.len() as u64;
    thread::scope(|scope| {
        let (completed, receiver) = mpsc::sync_channel(workers.len());
        let finished_sum = &mut sum;
        let finisher = scope.spawn(move || finish_shards(job, receiver, finished_sum));
        let mut writer = PieceWriter { job, open: None, completed };
        let mut done = 0;
        let mut reported = 0;
        // As many items may wait to be written as are being built.
        let room = 2 * workers.len();
        let workers = Workers::new(&job.prepared.pool, workers, job.stop).with_max_in_flight(room);
        let written = workers.map_in_order(
            items.into_iter().map(|item| Ok((1, item))),
            |worker, item| work(worker, item, &wanted),
            |pieces: Vec<ShardPiece>| {
                for piece in pieces {
                    if !writer.write(piece)? {
                        return Ok(None);
                    }
                }
                done += 1;
                Ok(Some(done))
            },
            |done| {
                reported = done.unwrap_or(reported);
                progress(BuildProgress { stage: BuildStage::Instances, done: reported, total });
            },
        );
        let PieceWriter { open, completed, .. } = writer;
        if let Some(last) = open.filter(|_| written.is_ok()) {
            // This fails only if the finishing thread has returned an error, which is reported below.
            let _ = completed.send(last);
        }
        drop(completed);
        let finished = finisher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // If the finishing thread failed, the writer only sees a closed channel.
        shards.extend(finished?);
        written
    })?;
    shards.sort_unstable_by_key(|shard| shard.shard);
    Ok((shards, sum.finish()))
}

/// Writer that appends pieces to their shards.
struct PieceWriter<'a, 'j> {
    job: &'j ShardJob<'a>,
    open: Option<CompletedShard<'a>>,
    completed: mpsc::SyncSender<CompletedShard<'a>>,
}

impl<'a> PieceWriter<'a, '_> {
    /// Writes a piece; returns false if the finishing thread has stopped, which happens only after an error.
    fn write(&mut self, piece: ShardPiece) -> Result<bool> {
        if let Some(completed) = self.open.take_if(|open| open.shard != piece.shard)
            && self.completed.send(completed).is_err()
        {
            return Ok(false);
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let files = self.job.output.folder.files();
                let path = self.job.path(piece.shard);
                let footer = shard_footer(self.job.footer, piece.shard, self.job.plan.shards);
                let out = AtomicFile::create(files, &path)?;
                let writer = ShardWriter::new(out, &path, &self.job.format, footer)?;
                let stats = PieceStats::new(self.job.prepared.config.max_seq_length);
                self.open.insert(CompletedShard { shard: piece.shard, writer, stats })
            }
        };
        piece.groups.into_iter().try_for_each(|group| open.writer.append(group))?;
        open.stats.tally.rows.add(piece.rows);
        piece.stats.iter().for_each(|more| open.stats.add(more));
        Ok(true)
    }
}

/// Finds the shards of this part that an earlier run finished. Also returns the indices of the missing ones.
fn cached_shards(
    job: &ShardJob<'_>,
    sum: &mut PartStats,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<(Vec<WrittenShard>, Vec<usize>)> {
    let mut shards = Vec::new();
    let mut missing = Vec::new();
    for shard in (0..job.plan.shards).filter(|&shard| job.prepared.part.has(shard)) {
        let name = shard_name(shard, job.plan.shards, job.prepared.config.held_out);
        match cached_shard(job.output, &job.store.build, shard, &name)? {
            Some(receipt) => {
                sum.add(&receipt.stats);
                shards.push(receipt.written);
            }
            None => missing.push(shard),
        }
    }
    if !shards.is_empty() {
        let done = shards.len() as u64;
        let total = (shards.len() + missing.len()) as u64;
        progress(BuildProgress { stage: BuildStage::ReusedShards, done, total });
    }
    Ok((shards, missing))
}

/// A shard whose row groups are being written, or are all written and wait to be finished.
struct CompletedShard<'a> {
    shard: usize,
    writer: ShardWriter<AtomicFile<'a>>,
    stats: PieceStats,
}

/// Finishes each file: syncs and renames it and writes its receipt, until the work is stopped.
fn finish_shards<'a>(
    job: &ShardJob<'a>,
    shards: mpsc::Receiver<CompletedShard<'a>>,
    sum: &mut PartStats,
) -> Result<Vec<WrittenShard>> {
    let mut finished = Vec::new();
    for CompletedShard { shard, writer, stats } in shards {
        if job.stop.load(Ordering::Relaxed) {
            break;
        }
        let FinishedShard { rows, groups, out } = writer.finish()?;
        let name = shard_name(shard, job.plan.shards, job.prepared.config.held_out);
        let file = out.commit()?;
        if let Some(objects) = &job.output.objects {
            objects.upload(&job.path(shard), &name)?;
        }
        let entry = ShardEntry {
            file: name,
            rows: rows.count,
            row_groups: groups,
            bytes: file.bytes,
            blake3: file.blake3,
        };
        let written = WrittenShard { shard: shard as u64, rows, entry };
        let receipt = ShardReceipt { build: job.store.build.clone(), written, stats };
        job.output.work.folder.write_checksummed_unsynced(&receipt_name(shard), &receipt)?;
        sum.add(&receipt.stats);
        finished.push(receipt.written);
    }
    Ok(finished)
}

/// The counts from building the instances of some documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PieceStats {
    pub(crate) tally: BuildTally,
    pub(crate) counters: Counters,
    /// Covered tokens, if the shards hold instances.
    #[serde(rename = "shown")]
    pub(crate) covered: CoveredRanges,
    /// Uncovered tokens, if the shards hold documents.
    #[serde(rename = "unseen")]
    pub(crate) uncovered: Uncovered,
}

impl PieceStats {
    /// Returns empty counts for instances of at most `max_seq_length` tokens.
    pub(crate) fn new(max_seq_length: usize) -> Self {
        Self { counters: Counters::new(max_seq_length), ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.counters.add(&other.counters);
        self.covered.add(&other.covered);
        self.uncovered.add(other.uncovered);
    }
}

/// The sum of the counts of several shards; covered tokens are stored as a bit set to limit memory.
pub(crate) struct PartStats {
    pub(crate) tally: BuildTally,
    pub(crate) counters: Counters,
    pub(crate) coverage: Coverage,
    pub(crate) uncovered: Uncovered,
}

impl PartStats {
    /// Returns an empty sum for a text of `tokens` tokens and instances of at most `max_seq_length` tokens.
    pub(crate) fn new(max_seq_length: usize, tokens: u64) -> Self {
        let tally = BuildTally::default();
        let coverage = Coverage::new(tokens);
        Self { tally, counters: Counters::new(max_seq_length), coverage, uncovered: Uncovered::default() }
    }

    pub(crate) fn add(&mut self, stats: &PieceStats) {
        self.tally.add(&stats.tally);
        self.counters.add(&stats.counters);
        self.coverage.add(&stats.covered);
        self.uncovered.add(stats.uncovered);
    }

    pub(crate) fn finish(self) -> PieceStats {
        let Self { tally, counters, coverage, uncovered } = self;
        PieceStats { tally, counters, covered: coverage.covered(), uncovered }
    }
}

/// A finished shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenShard {
    /// Index of the shard.
    pub(crate) shard: u64,
    /// Tally of the rows as they were written.
    pub(crate) rows: Tally,
    pub(crate) entry: ShardEntry,
}
