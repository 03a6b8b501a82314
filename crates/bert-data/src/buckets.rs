//! From documents to row groups of shards, a bucket at a time, in keyed mode.
//!
//! In goes a unit of the [`Plan`] (a bucket of documents in a pass), out come its row groups, encoded for their shards, and what
//! was counted on the way: rows, masked and shuffled, or (`--layout documents`) the documents themselves in the order of the
//! pass. All of it is a pure function of the options, the text and the unit's address: a random next sentence comes from
//! another document of the bucket, and which documents these are is drawn anew in every pass, so that every other
//! document of the text is equally likely. Memory is a bucket and its rows. Not for the reference's mode (`reference`), nor
//! for writing shards (`shards`).

use std::ops::Range;
use std::path::PathBuf;

use crate::bucket::{Bucket, order_of_pass};
use crate::build::Prepared;
use crate::column::Column;
use crate::config::{BuildConfig, Layout};
use crate::conservation::Tally;
use crate::coverage::{Looked, Unseen};
use crate::document::{Counts, DocumentColumns, DocumentReader, Documents, Look, Span};
use crate::document_shard::DocumentEncoder;
use crate::error::Result;
use crate::keyed::KeyedInstances;
use crate::packed::{PackedRow, pack};
use crate::permutation::Permutation;
use crate::plan::{Plan, row_groups};
use crate::report::Counters;
use crate::rng::{Domain, Random, Stream};
use crate::shard::{RowEncoder, shard_name};
use crate::shards::{Made, ShardPiece};

/// The order of the documents in every pass.
pub(crate) fn orders(config: &BuildConfig, documents: u64) -> Vec<Permutation> {
    let order = |pass| order_of_pass(config.random_seed, pass, documents);
    (0..config.passes() as u64).map(order).collect()
}

/// What making row groups needs to know.
pub(crate) struct BucketJob<'a> {
    pub(crate) prepared: &'a Prepared<'a>,
    pub(crate) documents: &'a Documents,
    pub(crate) plan: &'a Plan,
    pub(crate) orders: &'a [Permutation],
}

impl BucketJob<'_> {
    /// The documents at the places of a pass, by their numbers in the order of the text.
    fn numbers(&self, pass: u64, places: Range<u64>) -> Vec<u64> {
        let order = &self.orders[pass as usize];
        places.map(|place| order.at(place)).collect()
    }

    fn nothing_made(&self) -> Made {
        Made { counters: Counters::new(self.prepared.config.max_seq_length), ..Made::default() }
    }

    fn path(&self, shard: usize) -> PathBuf {
        PathBuf::from(shard_name(shard, self.plan.shards))
    }
}

/// A thread's buffers.
// On cache lines of its own: threads that write to neighbouring ones slow each other down.
#[repr(align(128))]
pub(crate) struct BucketMaker<'a> {
    job: &'a BucketJob<'a>,
    store: DocumentReader<'a>,
    keyed: KeyedInstances,
    encoder: Encoder,
    rows: Vec<u8>,
}

enum Encoder {
    Rows(RowEncoder),
    Documents(DocumentEncoder),
}

/// Documents of the store in memory, and where they lie in it.
struct ReadBucket {
    bucket: Bucket,
    /// Where each begins among the tokens of the corpus, and among those of the bucket.
    starts: Vec<(u64, u64)>,
}

impl ReadBucket {
    /// Reads these documents, by their numbers in the order of the text.
    fn new(store: &mut DocumentReader<'_>, mut numbers: Vec<u64>) -> Result<Self> {
        // As they lie in the store.
        numbers.sort_unstable();
        let mut counts = Counts::default();
        let (mut text, mut index) = (Vec::new(), Vec::new());
        let mut starts = Vec::with_capacity(numbers.len());
        for &number in &numbers {
            let Span { sentences: own, tokens: range } = store.span(number as usize)?;
            [counts.sentences, counts.tokens]
                .iter()
                .for_each(|at| index.extend_from_slice(&at.to_le_bytes()));
            text.extend_from_slice(store.packed()?);
            starts.push((range.start, counts.tokens));
            counts.documents += 1;
            counts.sentences += own.end - own.start;
            counts.tokens += range.end - range.start;
        }
        [counts.sentences, counts.tokens].iter().for_each(|at| index.extend_from_slice(&at.to_le_bytes()));
        let columns = DocumentColumns { text: Column::Resident(text), index: Column::Resident(index) };
        let documents = Documents::new(store.documents().width, [(columns, counts)]);
        Ok(Self { bucket: Bucket::ascending(documents, numbers), starts })
    }

    /// Where tokens of the bucket, which are in one document, lie in the corpus.
    fn in_corpus(&self, tokens: Range<u64>) -> Range<u64> {
        let document = self.starts.partition_point(|&(_, start)| start <= tokens.start) - 1;
        let (corpus, bucket) = self.starts[document];
        tokens.start - bucket + corpus..tokens.end - bucket + corpus
    }
}

impl<'a> BucketMaker<'a> {
    pub(crate) fn new(job: &'a BucketJob<'a>) -> Result<Self> {
        let prepared = job.prepared;
        Ok(Self {
            job,
            store: job.documents.reader(),
            keyed: prepared.config.keyed(&prepared.vocabulary),
            encoder: match prepared.config.layout {
                Layout::Instances => Encoder::Rows(RowEncoder::new(prepared.row_columns())?),
                Layout::Documents => Encoder::Documents(DocumentEncoder::new(prepared.marked())?),
            },
            rows: Vec::new(),
        })
    }

    /// Makes a unit: of what goes to shards that are `wanted`.
    pub(crate) fn make(&mut self, unit: u64, wanted: &[bool]) -> Result<Vec<ShardPiece>> {
        let Self { job, store, keyed, encoder, rows } = self;
        match encoder {
            Encoder::Rows(encoder) => make_rows(job, store, keyed, (encoder, rows), unit, wanted),
            Encoder::Documents(encoder) => copy_documents(job, store, keyed, encoder, unit, wanted),
        }
    }
}

/// The rows of a unit, shuffled. What was counted goes with the shard that the unit begins in.
fn make_rows(
    job: &BucketJob<'_>,
    store: &mut DocumentReader<'_>,
    keyed: &mut KeyedInstances,
    (encoder, rows): (&mut RowEncoder, &mut Vec<u8>),
    unit: u64,
    wanted: &[bool],
) -> Result<Vec<ShardPiece>> {
    let (config, plan) = (job.prepared.config, job.plan);
    let (pass, number) = plan.address(unit);
    let read = ReadBucket::new(store, job.numbers(pass, plan.places(number)))?;
    let (looked, mut made) = (Looked::new(job.documents.tokens()), job.nothing_made());
    let (mut offsets, mask) = (Vec::new(), job.prepared.vocabulary.mask_id());
    let mut reader = read.bucket.documents().reader();
    rows.clear();
    for place in 0..read.bucket.len() {
        reader.document(Look::Here, place)?;
        made.tally.see_document(pass, reader.hash()?);
        keyed.make_with(&mut reader, pass, (place, read.bucket.number(place)), |pair, row| {
            offsets.push(rows.len() as u32);
            pack(row, plan.width, rows);
            made.counters.count(row, mask);
            made.counters.shown += pair.own_tokens();
            for tokens in pair.segments() {
                looked.show(read.in_corpus(tokens), &mut made.shown);
            }
            Ok(())
        })?;
    }
    made.shown.tidy();
    drop(reader);
    drop(read);
    Stream::new(config.random_seed, Domain::ShardOrder, &[pass, number]).shuffle(&mut offsets);
    let mut made = Some(made);
    let mut pieces = Vec::new();
    for piece in plan.pieces(unit) {
        let made = made.take();
        if !wanted[piece.shard] {
            continue;
        }
        let (mut tally, mut groups, path) = (Tally::default(), Vec::new(), job.path(piece.shard));
        for group in row_groups(piece.rows(offsets.len() as u64)) {
            let packed = |&offset: &u32| PackedRow::first_of(&rows[offset as usize..], plan.width);
            offsets[group.clone()].iter().for_each(|offset| tally.see(packed(offset).bytes()));
            groups.push(encoder.encode(&path, offsets[group].iter().map(packed))?);
        }
        pieces.push(ShardPiece { shard: piece.shard, groups, rows: tally, made });
    }
    Ok(pieces)
}

/// The documents of a unit as they are, in the order of the pass, and the counts of the instances that each row group gives by
/// itself. The rows of such a data set are its documents.
fn copy_documents(
    job: &BucketJob<'_>,
    store: &mut DocumentReader<'_>,
    keyed: &mut KeyedInstances,
    encoder: &mut DocumentEncoder,
    unit: u64,
    wanted: &[bool],
) -> Result<Vec<ShardPiece>> {
    let (pass, number) = job.plan.address(unit);
    let (mask, all) = (job.prepared.vocabulary.mask_id(), job.plan.places(number));
    let mut pieces = Vec::new();
    for piece in job.plan.pieces(unit).filter(|piece| wanted[piece.shard]) {
        let (mut groups, mut made) = (Vec::new(), job.nothing_made());
        let (mut tally, path) = (Tally::default(), job.path(piece.shard));
        for group in row_groups(piece.rows(all.end - all.start)) {
            let numbers = job.numbers(pass, all.start + group.start as u64..all.start + group.end as u64);
            let bucket = ReadBucket::new(store, numbers.clone())?.bucket;
            let mut reader = bucket.documents().reader();
            for place in 0..bucket.len() {
                let (span, mut gives) = (reader.span(place)?, false);
                let hash = reader.hash()?;
                made.tally.see_document(pass, hash);
                tally.see_document(hash);
                keyed.make_with(&mut reader, pass, (place, bucket.number(place)), |pair, row| {
                    made.counters.count(row, mask);
                    made.counters.shown += pair.own_tokens();
                    gives = true;
                    Ok(())
                })?;
                let tokens = span.tokens.end - span.tokens.start;
                // What one pass cuts off, another may show; a document that gives no row never will.
                made.unseen.add(Unseen { of: tokens, tokens: if gives { 0 } else { tokens } });
            }
            let places = numbers.iter().filter_map(|&number| bucket.place_of(number));
            groups.push(encoder.encode(&path, &mut reader, places)?);
        }
        pieces.push(ShardPiece { shard: piece.shard, groups, rows: tally, made: Some(made) });
    }
    Ok(pieces)
}
