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

use serde::{Deserialize, Serialize};

use crate::builder::output::Output;
use crate::builder::plan::Plan;
use crate::builder::prepare::Prepared;
use crate::builder::progress::{BuildProgress, BuildStage};
use crate::config::part::Part;
use crate::dataset::conservation::MadeTally;
use crate::dataset::manifest::ShardEntry;
use crate::dataset::report::Counters;
use crate::documents::tally::Tally;
use crate::error::Result;
use crate::instance::coverage::{Coverage, Shown, Unseen};
use crate::parallel::in_order;
use crate::shard::footer::Footer;
use crate::shard::writer::{EncodedRowGroup, FinishedShard, ShardForm, ShardWriter, shard_name};
use bert_storage::{AtomicFile, StagedFolder, digest_file};

/// The counts from building the instances of some documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Made {
    pub(crate) tally: MadeTally,
    pub(crate) counters: Counters,
    /// Covered tokens, if the shards hold instances.
    pub(crate) shown: Shown,
    /// Uncovered tokens, if the shards hold documents.
    pub(crate) unseen: Unseen,
}

impl Made {
    /// Returns empty counts for instances of at most `max_seq_length` tokens.
    pub(crate) fn new(max_seq_length: usize) -> Self {
        Self { counters: Counters::new(max_seq_length), ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.counters.add(&other.counters);
        self.shown.add(&other.shown);
        self.unseen.add(other.unseen);
    }
}

/// The sum of the counts of several shards; covered tokens are stored as a bit set to limit memory.
pub(crate) struct MadeSum {
    pub(crate) tally: MadeTally,
    pub(crate) counters: Counters,
    pub(crate) coverage: Coverage,
    pub(crate) unseen: Unseen,
}

impl MadeSum {
    /// Returns an empty sum for a text of `tokens` tokens and instances of at most `max_seq_length` tokens.
    pub(crate) fn new(max_seq_length: usize, tokens: u64) -> Self {
        let (tally, coverage) = (MadeTally::default(), Coverage::new(tokens));
        Self { tally, counters: Counters::new(max_seq_length), coverage, unseen: Unseen::default() }
    }

    pub(crate) fn add(&mut self, made: &Made) {
        self.tally.add(&made.tally);
        self.counters.add(&made.counters);
        self.coverage.add(&made.shown);
        self.unseen.add(made.unseen);
    }

    pub(crate) fn finish(self) -> Made {
        let Self { tally, counters, coverage, unseen } = self;
        Made { tally, counters, shown: coverage.shown(), unseen }
    }
}

/// Encoded rows of one shard.
pub(crate) struct ShardPiece {
    pub(crate) shard: usize,
    pub(crate) groups: Vec<EncodedRowGroup>,
    /// Tally of the rows as they were built.
    pub(crate) rows: Tally,
    /// Counts of the documents that were counted with this piece.
    pub(crate) made: Option<Made>,
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

impl WrittenShard {
    /// Removes the shard's receipt from a work folder, so that the next run rebuilds the shard.
    pub(crate) fn forget(&self, work: &StagedFolder<'_>) -> Result<()> {
        work.remove(&receipt_name(self.shard as usize))?;
        Ok(())
    }
}

impl Output<'_> {
    /// Returns whether a published shard matches the written one. Reads the whole file, also in a store.
    pub(crate) fn has_published(&self, shard: &WrittenShard) -> Result<bool> {
        has_digest(&self.path().join(&shard.entry.file), &shard.entry.blake3)
    }
}

/// Returns whether a file exists and has this digest.
pub(crate) fn has_digest(path: &Path, blake3: &str) -> Result<bool> {
    match digest_file(path) {
        Err(bert_storage::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
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
    /// Counts of the documents that were counted with this shard, and of the rows built for it.
    made: Option<Made>,
}

/// The shards of a part and the sum of their counts.
pub(crate) struct PartShards {
    pub(crate) shards: Vec<WrittenShard>,
    pub(crate) made: Made,
}

/// Returns whether a file of a work folder is the receipt of a finished shard.
pub(crate) fn is_note(name: &str) -> bool {
    name.starts_with("shard-") && name.ends_with(".json")
}

fn receipt_name(shard: usize) -> String {
    format!("shard-{shard:05}.json")
}

/// Returns the receipt of a shard that an earlier run finished, if the shard is intact.
fn kept_shard(output: &Output<'_>, build: &str, shard: usize, shards: usize) -> Result<Option<ShardReceipt>> {
    let Some(receipt) = output.work.folder.noted::<ShardReceipt>(&receipt_name(shard))? else {
        return Ok(None);
    };
    let name = shard_name(shard, shards);
    let WrittenShard { shard: number, entry, .. } = &receipt.written;
    let named = (receipt.build.as_str(), *number, &entry.file) == (build, shard as u64, &name);
    let holds = || match &output.objects {
        // A shard that was uploaded is compared again when the data set is committed.
        Some(objects) => objects.has_shard(entry),
        None => has_digest(&output.find(&name)?, &entry.blake3),
    };
    let is_whole = named && holds()?;
    Ok(is_whole.then_some(receipt))
}

/// The data needed to write shards.
pub(crate) struct ShardJob<'a> {
    pub(crate) prepared: &'a Prepared<'a>,
    pub(crate) output: &'a Output<'a>,
    pub(crate) plan: &'a Plan,
    pub(crate) part: Part,
    pub(crate) form: ShardForm,
    pub(crate) build: &'a str,
    /// Number of tokens in the text.
    pub(crate) tokens: u64,
    /// The description that is written to the footers of the shards.
    pub(crate) footer: &'a Footer,
    /// Set when the caller has given up; results produced after that are discarded.
    pub(crate) stop: &'a AtomicBool,
}

impl ShardJob<'_> {
    /// Returns the path at which a shard is written.
    fn path(&self, shard: usize) -> PathBuf {
        self.output.work.path(&shard_name(shard, self.plan.shards))
    }
}

/// Writes the shards of this part from pieces, in order, reusing finished shards. `work` returns the pieces of an item
/// that belong to wanted shards; over all items, in order, the pieces must be in shard order. `progress` is called
/// after each item and every tenth of a second. If it panics, the work ends; `work` may return anything once the job's
/// `stop` flag is set.
pub(crate) fn make_shards<W: Send, T: Send + Clone>(
    job: &ShardJob<'_>,
    workers: &mut [W],
    items: impl FnOnce(&[bool]) -> Vec<T>,
    work: impl Fn(&mut W, T, &[bool]) -> Result<Vec<ShardPiece>> + Sync,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PartShards> {
    let mut sum = MadeSum::new(job.prepared.config.max_seq_length, job.tokens);
    let (mut shards, missing) = kept_shards(job, &mut sum, progress)?;
    let mut wanted = vec![false; job.plan.shards];
    missing.iter().for_each(|&shard| wanted[shard] = true);
    let items = items(&wanted);
    let total = items.len() as u64;
    thread::scope(|scope| {
        let (finished, to_end) = mpsc::sync_channel(workers.len());
        let of_ended = &mut sum;
        let ender = scope.spawn(move || end_shards(job, to_end, of_ended));
        let mut writer = PieceWriter { job, open: None, finished };
        let (mut done, mut told) = (0, 0);
        let written = in_order(
            &job.prepared.pool,
            workers,
            // As many items may wait to be written as are being built.
            2 * workers.len(),
            items.into_iter().map(|item| Ok((1, item))),
            job.stop,
            |worker, item| work(worker, item, &wanted),
            |pieces: Vec<ShardPiece>| {
                for piece in pieces {
                    if !writer.take(piece)? {
                        return Ok(None);
                    }
                }
                done += 1;
                Ok(Some(done))
            },
            |done| {
                told = done.unwrap_or(told);
                progress(BuildProgress { stage: BuildStage::Instances, done: told, total });
            },
        );
        let PieceWriter { open, finished, .. } = writer;
        if let Some(last) = open.filter(|_| written.is_ok()) {
            // After an error the receiver is gone; the error is reported elsewhere.
            let _ = finished.send(last);
        }
        drop(finished);
        let ended = ender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // If the finishing thread failed, the writer only sees a closed channel.
        shards.extend(ended?);
        written
    })?;
    shards.sort_unstable_by_key(|shard| shard.shard);
    Ok(PartShards { shards, made: sum.finish() })
}

/// Appends pieces to their shards.
struct PieceWriter<'a, 'j> {
    job: &'j ShardJob<'a>,
    open: Option<Finished<'a>>,
    finished: mpsc::SyncSender<Finished<'a>>,
}

impl<'a> PieceWriter<'a, '_> {
    /// Writes a piece; returns false if the finishing thread has stopped, which happens only after an error.
    fn take(&mut self, piece: ShardPiece) -> Result<bool> {
        if let Some(ended) = self.open.take_if(|open| open.shard != piece.shard)
            && self.finished.send(ended).is_err()
        {
            return Ok(false);
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let (files, path) = (self.job.output.folder.files(), self.job.path(piece.shard));
                let footer = self.job.footer.of_shard(piece.shard);
                let out = AtomicFile::create(files, &path)?;
                let writer = ShardWriter::new(out, &path, &self.job.form, footer)?;
                self.open.insert(Finished { shard: piece.shard, writer, made: None })
            }
        };
        piece.groups.into_iter().try_for_each(|group| open.writer.append(group))?;
        let made = open.made.get_or_insert_with(|| Made::new(self.job.prepared.config.max_seq_length));
        made.tally.rows.add(piece.rows);
        piece.made.iter().for_each(|more| made.add(more));
        Ok(true)
    }
}

/// Returns the shards of this part that an earlier run finished, and the indices of the missing ones.
fn kept_shards(
    job: &ShardJob<'_>,
    sum: &mut MadeSum,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<(Vec<WrittenShard>, Vec<usize>)> {
    let (mut shards, mut missing) = (Vec::new(), Vec::new());
    for shard in (0..job.plan.shards).filter(|&shard| job.part.has(shard)) {
        match kept_shard(job.output, job.build, shard, job.plan.shards)? {
            Some(receipt) => {
                receipt.made.iter().for_each(|made| sum.add(made));
                shards.push(receipt.written);
            }
            None => missing.push(shard),
        }
    }
    if !shards.is_empty() {
        let (done, total) = (shards.len() as u64, (shards.len() + missing.len()) as u64);
        progress(BuildProgress { stage: BuildStage::KeptShards, done, total });
    }
    Ok((shards, missing))
}

/// A shard whose row groups are all written.
struct Finished<'a> {
    shard: usize,
    writer: ShardWriter<AtomicFile<'a>>,
    made: Option<Made>,
}

/// Finishes each file: waits for the disk, renames it and writes its receipt, until the work is stopped.
fn end_shards<'a>(
    job: &ShardJob<'a>,
    shards: mpsc::Receiver<Finished<'a>>,
    sum: &mut MadeSum,
) -> Result<Vec<WrittenShard>> {
    let mut ended = Vec::new();
    for Finished { shard, writer, made } in shards {
        if job.stop.load(Ordering::Relaxed) {
            break;
        }
        let FinishedShard { rows, groups, out } = writer.finish()?;
        let (name, file) = (shard_name(shard, job.plan.shards), out.commit()?);
        if let Some(objects) = &job.output.objects {
            objects.take(&job.path(shard), &name)?;
        }
        let entry = ShardEntry {
            file: name,
            rows: rows.count,
            row_groups: groups,
            bytes: file.bytes,
            blake3: file.blake3,
        };
        let written = WrittenShard { shard: shard as u64, rows, entry };
        let receipt = ShardReceipt { build: job.build.to_owned(), written, made };
        job.output.work.folder.note(&receipt_name(shard), &receipt)?;
        receipt.made.iter().for_each(|made| sum.add(made));
        ended.push(receipt.written);
    }
    Ok(ended)
}
