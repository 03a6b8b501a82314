//! From rows in their slots to finished shards.
//!
//! In goes a [`RowSource`] of row groups, out come Parquet files in the work folder, each with a receipt. Row groups are
//! read, shuffled and encoded in parallel, also those of one shard, and written in order by whoever has the next one; a
//! thread that only waits for the disk ends the files. Shards that an earlier run finished are kept if they verify. Not for which row
//! is in which group (`slots`, `reference`).

use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::build::{BuildProgress, BuildStage, Prepared};
use crate::conservation::Tally;
use crate::document::Documents;
use crate::document_shard::write_document_shard;
use crate::error::Result;
use crate::files::{Written, digest_file};
use crate::footer::Footer;
use crate::manifest::ShardEntry;
use crate::output::Output;
use crate::packed::{PackedRow, Width, row_offsets};
use crate::parallel::{in_order, share_out};
use crate::part::Part;
use crate::plan::Plan;
use crate::rng::{Domain, Random, Stream};
use crate::shard::{EncodedRowGroup, GroupEncoder, ShardWriter, shard_name};
use crate::spill::Spilled;

/// Where the row groups of the shards come from.
pub(crate) trait RowSource: Sync {
    /// The packed rows of a row group, and where each begins, in their final order.
    fn load(&self, shard: usize, group: usize) -> Result<(Vec<u8>, Vec<u32>)>;
}

/// Slots of a spill, each shuffled.
pub(crate) struct ShuffledSlots<'a> {
    pub(crate) spilled: &'a Spilled,
    pub(crate) seed: u64,
    pub(crate) buckets: usize,
    pub(crate) width: Width,
}

impl RowSource for ShuffledSlots<'_> {
    fn load(&self, shard: usize, group: usize) -> Result<(Vec<u8>, Vec<u32>)> {
        let bytes = self.spilled.slot(shard * self.buckets + group)?;
        let mut offsets = row_offsets(&bytes, self.width);
        let address = [shard as u64, group as u64];
        Stream::new(self.seed, Domain::ShardOrder, &address).shuffle(&mut offsets);
        Ok((bytes, offsets))
    }
}

/// What a finished shard holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardReceipt {
    /// Of which build.
    build: String,
    /// Its place among the shards.
    pub(crate) shard: u64,
    pub(crate) rows: Tally,
    pub(crate) entry: ShardEntry,
}

fn receipt_name(shard: usize) -> String {
    format!("shard-{shard:05}.json")
}

/// The receipt of a shard that an earlier run finished, if it holds.
fn kept_shard(output: &Output<'_>, build: &str, shard: usize, shards: usize) -> Result<Option<ShardReceipt>> {
    let Some(receipt) = output.work.read_receipt::<ShardReceipt>(&receipt_name(shard)) else {
        return Ok(None);
    };
    let name = shard_name(shard, shards);
    let path = output.find(&name);
    let named = (receipt.build.as_str(), receipt.shard, &receipt.entry.file) == (build, shard as u64, &name);
    let holds = named && path.exists() && digest_file(&path)? == receipt.entry.blake3;
    Ok(holds.then_some(receipt))
}

/// What writing shards needs to know.
pub(crate) struct ShardJob<'a> {
    pub(crate) prepared: &'a Prepared<'a>,
    pub(crate) output: &'a Output<'a>,
    pub(crate) plan: &'a Plan,
    pub(crate) part: Part,
    /// Row groups at a time.
    pub(crate) writers: usize,
    pub(crate) build: &'a str,
    /// What the shards say of themselves.
    pub(crate) footer: &'a Footer,
    /// Rows of all shards of this part, for the progress.
    pub(crate) rows: u64,
}

impl ShardJob<'_> {
    /// Where a shard is made.
    fn path(&self, shard: usize) -> PathBuf {
        self.output.work.path(&shard_name(shard, self.plan.shards))
    }
}

/// Makes the shards of this part, or keeps them; in their order.
pub(crate) fn make_shards(
    job: &ShardJob<'_>,
    source: &dyn RowSource,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Vec<ShardReceipt>> {
    let (mut receipts, missing) = kept_shards(job, progress)?;
    let done = receipts.iter().map(|receipt| receipt.rows.count).sum();
    thread::scope(|scope| {
        let (finished, to_end) = mpsc::sync_channel(job.writers);
        let ender = scope.spawn(move || end_shards(job, to_end));
        let written = write_shards(job, source, &missing, done, finished, progress);
        let ended = ender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Where the ender failed, the writer only sees that nobody listens.
        receipts.extend(ended?);
        written
    })?;
    receipts.sort_unstable_by_key(|receipt| receipt.shard);
    Ok(receipts)
}

/// The receipts of the shards of this part that an earlier run finished, and the shards that are missing.
fn kept_shards(
    job: &ShardJob<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<(Vec<ShardReceipt>, Vec<usize>)> {
    let own: Vec<usize> = (0..job.plan.shards).filter(|&shard| job.part.has_shard(shard)).collect();
    let (mut receipts, mut missing) = (Vec::new(), Vec::new());
    for &shard in &own {
        match kept_shard(job.output, job.build, shard, job.plan.shards)? {
            Some(receipt) => receipts.push(receipt),
            None => missing.push(shard),
        }
    }
    if !receipts.is_empty() {
        let (done, total) = (receipts.len() as u64, own.len() as u64);
        progress(BuildProgress { stage: BuildStage::KeptShards, done, total });
    }
    Ok((receipts, missing))
}

/// Makes shards of the documents themselves, or keeps them; in their order. `ranges` has the documents of each shard.
pub(crate) fn make_document_shards(
    job: &ShardJob<'_>,
    documents: &Documents,
    ranges: &[Range<usize>],
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Vec<ShardReceipt>> {
    let (mut receipts, missing) = kept_shards(job, progress)?;
    let mut workers = vec![(); job.writers];
    // Some at a time, so that memory does not grow with their number.
    for some in missing.chunks(job.writers) {
        let write = |(): &mut (), shard: usize| {
            let (files, range) = (job.output.work.files, ranges[shard].clone());
            let marked = job.prepared.marked();
            let (footer, path) = (job.footer.of_shard(shard), job.path(shard));
            let (rows, written) = write_document_shard(files, documents, marked, range, footer, &path)?;
            finish_shard(job, shard, rows, written)
        };
        for receipt in job.prepared.pool.install(|| share_out(&mut workers, some.to_vec(), write)) {
            receipts.push(receipt?);
        }
        let done = receipts.iter().map(|receipt| receipt.rows.count).sum();
        progress(BuildProgress { stage: BuildStage::Writing, done, total: job.rows });
    }
    receipts.sort_unstable_by_key(|receipt| receipt.shard);
    Ok(receipts)
}

/// Writes the receipt of a shard that is in its place.
fn finish_shard(job: &ShardJob<'_>, shard: usize, rows: Tally, written: Written) -> Result<ShardReceipt> {
    let file = shard_name(shard, job.plan.shards);
    let entry = ShardEntry { file, rows: rows.count, bytes: written.bytes, blake3: written.blake3 };
    let receipt = ShardReceipt { build: job.build.to_owned(), shard: shard as u64, rows, entry };
    job.output.work.write_receipt(&receipt_name(shard), &receipt)?;
    Ok(receipt)
}

/// A shard whose row groups are all written.
type Finished<'a> = (usize, ShardWriter<'a>);

/// Waits for the disk: ends each file, puts it in its place and writes its receipt.
fn end_shards<'a>(job: &ShardJob<'a>, shards: mpsc::Receiver<Finished<'a>>) -> Result<Vec<ShardReceipt>> {
    let mut receipts = Vec::new();
    for (shard, writer) in shards {
        let (rows, written) = writer.finish()?;
        receipts.push(finish_shard(job, shard, rows, written)?);
    }
    Ok(receipts)
}

/// Encodes the row groups of some shards and writes them in order.
fn write_shards<'a>(
    job: &ShardJob<'a>,
    source: &dyn RowSource,
    shards: &[usize],
    rows_before: u64,
    finished: mpsc::SyncSender<Finished<'a>>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<()> {
    let columns = job.prepared.row_columns();
    let mut encoders = (0..job.writers).map(|_| GroupEncoder::new(columns)).collect::<Result<Vec<_>>>()?;
    let groups = shards.iter().flat_map(|&shard| (0..job.plan.buckets).map(move |group| (shard, group)));
    let encode = |encoder: &mut GroupEncoder, (shard, group): (usize, usize)| {
        let (bytes, offsets) = source.load(shard, group)?;
        let width = job.plan.width;
        let rows = offsets.iter().map(|&offset| PackedRow::first_of(&bytes[offset as usize..], width));
        Ok((shard, group, encoder.encode(&job.path(shard), group, rows)?))
    };
    let (mut open, mut rows): (Option<ShardWriter<'a>>, u64) = (None, rows_before);
    let write = |(shard, group, encoded): (usize, usize, EncodedRowGroup)| {
        rows += encoded.rows();
        let mut writer = match open.take() {
            Some(writer) => writer,
            None => {
                let footer = job.footer.of_shard(shard);
                ShardWriter::create(job.output.work.files, &job.path(shard), columns, footer)?
            }
        };
        writer.append(encoded)?;
        if group + 1 < job.plan.buckets {
            open = Some(writer);
        } else if finished.send((shard, writer)).is_err() {
            // The thread that ends files has stopped, which it does for an error only.
            return Ok(None);
        }
        Ok(Some(rows))
    };
    // As many wait to be written as are encoded.
    let room = 2 * job.writers;
    in_order(
        &job.prepared.pool,
        &mut encoders,
        room,
        groups.map(|group| Ok((1, group))),
        encode,
        write,
        |done| progress(BuildProgress { stage: BuildStage::Writing, done, total: job.rows }),
    )
}
