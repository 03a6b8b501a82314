//! Builds the row groups of one unit of the [`Plan`] in keyed mode: one bucket of documents in one pass.
//!
//! The rows of a bucket are masked and shuffled. With `--layout documents`, the rows are the documents themselves, in
//! the order of the pass. Instances and documents are counted along the way.
//!
//! The result is a pure function of the options, the text and the unit's pass and bucket. A random next sentence comes
//! from another document of the same bucket. Documents are assigned to buckets at random in every pass, so all other
//! documents of the text are equally likely. Memory use is limited to one bucket and its rows. `reference_rows`
//! implements reference mode.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use bert_random::{Domain, Permutation, Random, Stream};

use crate::builder::plan::Plan;
use crate::builder::prepare::PreparedBuild;
use crate::builder::token_store::{Store, StoreReader};
use crate::builder::write_shards::{PieceStats, ShardPiece};
use crate::config::Layout;
use crate::documents::id_width::Tally;
use crate::documents::order_of_pass;
use crate::error::Result;
use crate::instance::coverage::{SampledBlocks, Uncovered};
use crate::instance::masking::KeyedInstances;
use crate::shard::documents::DocumentEncoder;
use crate::shard::row::{pack, tally_of};
use crate::shard::writer::{RowEncoder, shard_name};

/// The data that every thread needs to build row groups.
pub(crate) struct BucketJob<'a> {
    pub(crate) prepared: &'a PreparedBuild<'a>,
    pub(crate) store: &'a Store,
    pub(crate) plan: &'a Plan,
    /// Flag that is set when the caller has given up. Later results are discarded.
    pub(crate) stop: &'a AtomicBool,
}

impl BucketJob<'_> {
    /// Returns the order of the documents in a pass.
    fn order(&self, pass: u64) -> Permutation {
        order_of_pass(self.prepared.config.random_seed, pass, self.store.counts.documents)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn path(&self, shard: usize) -> PathBuf {
        PathBuf::from(shard_name(shard, self.plan.shards, self.prepared.config.held_out))
    }
}

/// The buffers of one worker thread.
// Aligned to separate cache lines to avoid false sharing: threads that write to adjacent lines slow each other down.
#[repr(align(128))]
pub(crate) struct BucketWorker<'a> {
    job: &'a BucketJob<'a>,
    store: StoreReader<'a>,
    keyed: KeyedInstances,
    encoder: Encoder,
    rows: Vec<u8>,
    /// The pass of the last unit, and the order of the documents in this pass.
    order: Option<(u64, Permutation)>,
}

enum Encoder {
    Rows(Box<RowEncoder>),
    Documents(DocumentEncoder),
}

impl<'a> BucketWorker<'a> {
    pub(crate) fn new(job: &'a BucketJob<'a>) -> Result<Self> {
        let prepared = job.prepared;
        Ok(Self {
            job,
            store: job.store.reader(job.stop),
            keyed: prepared.resolved(1).keyed(&prepared.vocabulary),
            encoder: match prepared.config.layout {
                Layout::Instances => Encoder::Rows(Box::new(RowEncoder::new(prepared.row_columns())?)),
                Layout::Documents => Encoder::Documents(DocumentEncoder::new(prepared.stored_ids())?),
            },
            rows: Vec::new(),
            order: None,
        })
    }

    /// Builds the pieces of a unit that belong to the shards for which `wanted` is true.
    pub(crate) fn build_unit(&mut self, unit: u64, wanted: &[bool]) -> Result<Vec<ShardPiece>> {
        let Self { job, store, keyed, encoder, rows, order } = self;
        let (pass, bucket) = job.plan.address(unit);
        order.take_if(|(of, _)| *of != pass);
        let (_, order) = order.get_or_insert_with(|| (pass, job.order(pass)));
        let numbers =
            |positions: Range<u64>| positions.map(|position| order.get(position)).collect::<Vec<_>>();
        let unit = Unit { number: unit, pass, bucket, numbers: &numbers, wanted };
        match encoder {
            Encoder::Rows(encoder) => generate_rows(job, store, keyed, (encoder, rows), &unit),
            Encoder::Documents(encoder) => copy_documents(job, store, keyed, encoder, &unit),
        }
    }
}

/// One bucket of documents in one pass.
struct Unit<'a> {
    number: u64,
    pass: u64,
    bucket: u64,
    /// Maps positions in the pass to document numbers in text order.
    numbers: &'a dyn Fn(Range<u64>) -> Vec<u64>,
    /// Whether each shard is wanted.
    wanted: &'a [bool],
}

/// Builds the shuffled rows of a unit. The counts are attached to the shard in which the unit begins.
fn generate_rows(
    job: &BucketJob<'_>,
    store: &mut StoreReader<'_>,
    keyed: &mut KeyedInstances,
    (encoder, rows): (&mut RowEncoder, &mut Vec<u8>),
    unit: &Unit<'_>,
) -> Result<Vec<ShardPiece>> {
    let config = job.prepared.config;
    let plan = job.plan;
    let &Unit { number: unit, pass, bucket: number, numbers, wanted } = unit;
    let mut numbers = numbers(plan.positions(number));
    let (bucket, tokens_before) = store.read(&mut numbers)?;
    let sample = SampledBlocks::new(job.store.counts.tokens);
    let mut stats = PieceStats::new(config.max_seq_length);
    let mut offsets = Vec::new();
    let mask = job.prepared.vocabulary.mask_id();
    rows.clear();
    for (index, document) in bucket.documents().iter().enumerate() {
        if job.is_stopped() {
            return Ok(Vec::new());
        }
        stats.tally.add_document(pass, document.hash());
        keyed.generate(bucket.documents(), pass, (index, bucket.number(index)), |pair, row| {
            offsets.push(rows.len() as u32);
            pack(row, plan.width, rows);
            stats.counters.count(row, mask);
            stats.counters.own_tokens += pair.own_tokens();
            for segment in pair.segments() {
                sample.cover(tokens_before[segment.document as usize], segment.range(), &mut stats.covered);
            }
            Ok(())
        })?;
    }
    stats.covered.normalize();
    drop(bucket);
    Stream::new(config.random_seed, Domain::ShardOrder, &[pass, number]).shuffle(&mut offsets);
    let mut stats = Some(stats);
    let mut pieces = Vec::new();
    for piece in plan.pieces(unit) {
        let stats = stats.take();
        if !wanted[piece.shard] {
            continue;
        }
        let piece_rows = piece.rows(offsets.len() as u64);
        let path = job.path(piece.shard);
        let tally = tally_of(rows, plan.width, &offsets[piece_rows.clone()]);
        let encode = |group: Range<usize>| encoder.encode(&path, rows, plan.width, &offsets[group]);
        let wanted_still = |_: &Range<usize>| !job.is_stopped();
        let groups =
            plan.row_groups(piece_rows).take_while(wanted_still).map(encode).collect::<Result<_>>()?;
        pieces.push(ShardPiece { shard: piece.shard, groups, rows: tally, stats });
    }
    Ok(pieces)
}

/// Copies the documents of a unit unchanged, in the order of the pass, and counts the instances that each row group
/// yields on its own. With `--layout documents`, the rows of the data set are its documents.
fn copy_documents(
    job: &BucketJob<'_>,
    store: &mut StoreReader<'_>,
    keyed: &mut KeyedInstances,
    encoder: &mut DocumentEncoder,
    unit: &Unit<'_>,
) -> Result<Vec<ShardPiece>> {
    let pass = unit.pass;
    let mask = job.prepared.vocabulary.mask_id();
    let all = job.plan.positions(unit.bucket);
    let mut pieces = Vec::new();
    for piece in job.plan.pieces(unit.number).filter(|piece| unit.wanted[piece.shard]) {
        let mut groups = Vec::new();
        let mut stats = PieceStats::new(job.prepared.config.max_seq_length);
        let mut tally = Tally::default();
        let path = job.path(piece.shard);
        for group in job.plan.row_groups(piece.rows(all.end - all.start)) {
            let numbers = (unit.numbers)(all.start + group.start as u64..all.start + group.end as u64);
            let (bucket, _) = store.read(&mut numbers.clone())?;
            for (index, document) in bucket.documents().iter().enumerate() {
                if job.is_stopped() {
                    return Ok(Vec::new());
                }
                let hash = document.hash();
                let tokens = document.tokens() as u64;
                let mut has_instance = false;
                stats.tally.add_document(pass, hash);
                tally.add_document(hash);
                keyed.generate(bucket.documents(), pass, (index, bucket.number(index)), |pair, row| {
                    stats.counters.count(row, mask);
                    stats.counters.own_tokens += pair.own_tokens();
                    has_instance = true;
                    Ok(())
                })?;
                // Tokens cut off in one pass may appear in another; a document that yields no row is never covered.
                stats
                    .uncovered
                    .add(Uncovered { sampled: tokens, tokens: if has_instance { 0 } else { tokens } });
            }
            let positions = numbers.iter().filter_map(|&number| bucket.index_of(number));
            groups.push(encoder.encode(&path, bucket.documents(), positions)?);
        }
        pieces.push(ShardPiece { shard: piece.shard, groups, rows: tally, stats: Some(stats) });
    }
    Ok(pieces)
}
