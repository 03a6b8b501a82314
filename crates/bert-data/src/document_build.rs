//! A data set of documents (`--layout documents`): the tokenized text to shards, and pass 0 counted.
//!
//! In goes the tokenized text, out come the shards of this part with receipts, the counts of the instances that a loader
//! would make of their documents in pass 0, and what the law of conservation needs: rows are documents here. The documents
//! are read twice, once to be counted and once to be written, and both must have seen the same. Not for the columns and
//! the encoding (`document_shard`). The reference stores instances only.

use std::ops::Range;

use crate::budget::Tuning;
use crate::build::{BuildProgress, BuildStage, Prepared};
use crate::conservation::{MadeTally, Tally};
use crate::document::{DocumentReader, Documents, Look};
use crate::document_shard::{DocumentRow, documents_of_shards, write_document_shard};
use crate::error::Result;
use crate::keyed::KeyedInstances;
use crate::manifest::ShardEntry;
use crate::output::Output;
use crate::parallel::share_out;
use crate::part::Part;
use crate::plan::Plan;
use crate::report::Counters;
use crate::shard::shard_name;
use crate::shards::ShardReceipt;

/// What making shards of documents needs to know.
pub(crate) struct DocumentJob<'a> {
    pub(crate) prepared: &'a Prepared<'a>,
    pub(crate) documents: &'a Documents,
    pub(crate) plan: &'a Plan,
    pub(crate) tuning: &'a Tuning,
    pub(crate) part: Part,
    pub(crate) output: &'a Output<'a>,
    pub(crate) build: &'a str,
}

/// Counts and writes the documents of this part's shards.
pub(crate) fn make_documents(
    job: &DocumentJob<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<(MadeTally, Counters, Vec<ShardReceipt>)> {
    let ranges = documents_of_shards(job.documents, job.plan.shards)?;
    let own: Vec<(usize, Range<usize>)> =
        ranges.into_iter().enumerate().filter(|(shard, _)| job.part.has_shard(*shard)).collect();
    let mut made = see_documents(job.documents)?;
    let counters = count_pass(job, &own, &mut made.rows, progress)?;
    let shards = write_shards(job, own, progress)?;
    Ok((made, counters, shards))
}

/// Every document once, as rows of all shards.
fn see_documents(documents: &Documents) -> Result<MadeTally> {
    let (mut made, mut reader) = (MadeTally::default(), documents.reader());
    for document in 0..documents.len() {
        made.see_document(0, reader.number_of(document), reader.document(Look::Here, document)?);
    }
    made.all_rows = documents.len() as u64;
    Ok(made)
}

/// A thread's buffers and sums.
struct Counter<'a> {
    reader: DocumentReader<'a>,
    keyed: KeyedInstances,
    row: DocumentRow,
    rows: Tally,
    counters: Counters,
}

impl Counter<'_> {
    fn count(&mut self, document: usize, mask: u32) -> Result<()> {
        let Self { reader, keyed, row, rows, counters } = self;
        row.read(reader, document)?;
        rows.see(&row.bytes(document));
        let mut pairs = Vec::new();
        keyed.draw(reader, 0, document, |_, pair| {
            pairs.push(pair);
            Ok(())
        })?;
        let masks = keyed.masks(0, document);
        for (number, pair) in (0..).zip(pairs) {
            counters.count(keyed.row(reader, &masks, number, pair)?, mask);
        }
        Ok(())
    }
}

/// Documents of one round for each thread.
const ROUND: usize = 1 << 12;

fn count_pass(
    job: &DocumentJob<'_>,
    own: &[(usize, Range<usize>)],
    rows: &mut Tally,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Counters> {
    let (prepared, config) = (job.prepared, job.prepared.config);
    let mask = prepared.vocabulary.mask_id();
    let keyed = config.keyed(&prepared.vocabulary);
    let counter = || Counter {
        reader: job.documents.reader(),
        keyed: keyed.clone(),
        row: DocumentRow::default(),
        rows: Tally::default(),
        counters: Counters::new(config.max_seq_length),
    };
    let mut workers: Vec<Counter<'_>> = (0..prepared.threads()).map(|_| counter()).collect();
    let documents: Vec<usize> = own.iter().flat_map(|(_, range)| range.clone()).collect();
    let (mut done, total) = (0, documents.len() as u64);
    for round in documents.chunks(ROUND * workers.len()) {
        let count = |worker: &mut Counter<'_>, document| worker.count(document, mask);
        let counted = prepared.pool.install(|| share_out(&mut workers, round.to_vec(), count));
        counted.into_iter().collect::<Result<()>>()?;
        done += round.len() as u64;
        progress(BuildProgress { stage: BuildStage::Instances, done, total });
    }
    let mut counters = Counters::new(config.max_seq_length);
    for worker in workers {
        rows.add(worker.rows);
        counters.add(&worker.counters);
    }
    Ok(counters)
}

fn write_shards(
    job: &DocumentJob<'_>,
    own: Vec<(usize, Range<usize>)>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Vec<ShardReceipt>> {
    let (files, marked) = (job.output.work.files, job.prepared.marked());
    let total = own.iter().map(|(_, range)| range.len() as u64).sum();
    let mut receipts = Vec::with_capacity(own.len());
    let mut done = 0;
    // Some shards at a time, so that memory does not grow with their number.
    for some in own.chunks(job.tuning.writers) {
        let mut workers = vec![(); job.tuning.writers];
        let write = |_: &mut (), (shard, range): (usize, Range<usize>)| -> Result<ShardReceipt> {
            let file = shard_name(shard, job.plan.shards);
            let path = job.output.work.path(&file);
            let (rows, written) = write_document_shard(files, job.documents, marked, range, &path)?;
            let entry = ShardEntry { file, rows: rows.count, bytes: written.bytes, blake3: written.blake3 };
            Ok(ShardReceipt::new(job.build, shard as u64, rows, entry))
        };
        for receipt in job.prepared.pool.install(|| share_out(&mut workers, some.to_vec(), write)) {
            let receipt = receipt?;
            done += receipt.rows.count;
            receipts.push(receipt);
        }
        progress(BuildProgress { stage: BuildStage::Writing, done, total });
    }
    Ok(receipts)
}
