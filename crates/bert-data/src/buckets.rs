//! From documents to rows, a bucket at a time, in keyed mode.
//!
//! In goes a unit of the [`Plan`] (a bucket of documents in a pass), out come its rows, masked, shuffled and encoded for their
//! shards, and what was counted on the way. All of it is a pure function of the options, the text and the unit's address:
//! a random next sentence comes from another document of the bucket, and which documents these are is drawn anew in
//! every pass, so that every other document of the text is equally likely. Memory is a bucket and its rows. Not for the
//! reference's mode (`reference`), nor for writing shards (`shards`).

use std::ops::Range;
use std::path::PathBuf;

use crate::build::Prepared;
use crate::column::Column;
use crate::config::BuildConfig;
use crate::conservation::{MadeTally, Tally};
use crate::coverage::{Looked, Shown};
use crate::document::{Counts, DocumentReader, Documents, Look, Span};
use crate::error::Result;
use crate::keyed::KeyedInstances;
use crate::packed::{PackedRow, pack};
use crate::permutation::Permutation;
use crate::plan::{Plan, row_groups};
use crate::report::Counters;
use crate::rng::{Domain, Random, Stream};
use crate::shard::{GroupEncoder, shard_name};
use crate::shards::{Made, ShardPiece};

/// The order of the documents in every pass.
pub(crate) fn orders(config: &BuildConfig, documents: u64) -> Vec<Permutation> {
    let order =
        |pass| Permutation::new(documents, &mut Stream::new(config.random_seed, Domain::Buckets, &[pass]));
    (0..config.passes() as u64).map(order).collect()
}

/// What making rows needs to know.
pub(crate) struct BucketJob<'a> {
    pub(crate) prepared: &'a Prepared<'a>,
    pub(crate) documents: &'a Documents,
    pub(crate) plan: &'a Plan,
    pub(crate) orders: &'a [Permutation],
}

/// A thread's buffers.
// On cache lines of its own: threads that write to neighbouring ones slow each other down.
#[repr(align(128))]
pub(crate) struct BucketMaker<'a> {
    job: &'a BucketJob<'a>,
    store: DocumentReader<'a>,
    keyed: KeyedInstances,
    encoder: GroupEncoder,
    rows: Vec<u8>,
}

/// Some documents of a corpus, in memory.
struct Bucket {
    documents: Documents,
    /// Where each of them lies in the corpus.
    spans: Vec<Span>,
    /// Where each begins among the tokens of the bucket.
    starts: Vec<u64>,
}

impl Bucket {
    /// Reads these documents, by their numbers in the order of the text.
    fn read(store: &mut DocumentReader<'_>, numbers: &[u64]) -> Result<Self> {
        let mut counts = Counts::default();
        let (mut tokens, mut sentences, mut index) = (Vec::new(), Vec::new(), Vec::new());
        let (mut spans, mut starts) = (Vec::with_capacity(numbers.len()), Vec::new());
        for &number in numbers {
            let span = store.span(number as usize)?;
            index.extend_from_slice(&counts.sentences.to_le_bytes());
            for sentence in span.sentences.clone() {
                let start = store.sentence_start(Look::Here, sentence)? - span.tokens.start + counts.tokens;
                sentences.extend_from_slice(&start.to_le_bytes());
            }
            tokens.extend_from_slice(store.packed_tokens(Look::There, span.tokens.clone())?);
            starts.push(counts.tokens);
            counts.documents += 1;
            counts.sentences += span.sentences.end - span.sentences.start;
            counts.tokens += span.tokens.end - span.tokens.start;
            spans.push(span);
        }
        sentences.extend_from_slice(&counts.tokens.to_le_bytes());
        index.extend_from_slice(&counts.sentences.to_le_bytes());
        let resident = Column::Resident;
        let columns = [resident(tokens), resident(sentences), resident(index)];
        Ok(Self { documents: Documents::in_memory(store.documents().width, columns, counts), spans, starts })
    }

    /// Where tokens of the bucket, which are in one document, lie in the corpus.
    fn in_corpus(&self, tokens: Range<u64>) -> Range<u64> {
        let document = self.starts.partition_point(|&start| start <= tokens.start) - 1;
        let offset = |at: u64| at - self.starts[document] + self.spans[document].tokens.start;
        offset(tokens.start)..offset(tokens.end)
    }
}

impl<'a> BucketMaker<'a> {
    pub(crate) fn new(job: &'a BucketJob<'a>) -> Result<Self> {
        let prepared = job.prepared;
        Ok(Self {
            job,
            store: job.documents.reader(),
            keyed: prepared.config.keyed(&prepared.vocabulary),
            encoder: GroupEncoder::new(prepared.row_columns())?,
            rows: Vec::new(),
        })
    }

    /// Makes a unit. Only what goes to shards that are `wanted` is encoded; what was counted goes with the shard that the
    /// unit begins in.
    pub(crate) fn make(&mut self, unit: u64, wanted: &[bool]) -> Result<Vec<ShardPiece>> {
        let Self { job, store, keyed, encoder, rows } = self;
        let (config, plan) = (job.prepared.config, job.plan);
        let (pass, bucket) = plan.address(unit);
        let order = &job.orders[pass as usize];
        let mut numbers: Vec<u64> = plan.places(bucket).map(|place| order.at(place)).collect();
        // As they lie in the store; the rows are shuffled, so that this order is not seen.
        numbers.sort_unstable();
        let bucket_of = Bucket::read(store, &numbers)?;
        let looked = Looked::new(job.documents.tokens());
        let mut made = Made {
            tally: MadeTally::default(),
            counters: Counters::new(config.max_seq_length),
            shown: Shown::default(),
        };
        rows.clear();
        let (mut offsets, mask) = (Vec::new(), job.prepared.vocabulary.mask_id());
        let mut reader = bucket_of.documents.reader();
        for (index, span) in bucket_of.spans.iter().enumerate() {
            made.tally.see_document(pass, span);
            keyed.make_with(&mut reader, pass, (index, span.number), |pair, row| {
                offsets.push(rows.len() as u32);
                pack(row, plan.width, rows);
                made.counters.count(row, mask);
                made.counters.shown += pair.own_tokens();
                for tokens in pair.segments() {
                    looked.show(bucket_of.in_corpus(tokens), &mut made.shown);
                }
                Ok(())
            })?;
        }
        made.shown.tidy();
        drop(reader);
        drop(bucket_of);
        Stream::new(config.random_seed, Domain::ShardOrder, &[pass, bucket]).shuffle(&mut offsets);
        let mut made = Some(made);
        let mut pieces = Vec::new();
        for piece in plan.pieces(unit) {
            let made = made.take();
            if !wanted[piece.shard] {
                continue;
            }
            let (mut tally, mut groups) = (Tally::default(), Vec::new());
            let path = PathBuf::from(shard_name(piece.shard, plan.shards));
            for group in row_groups(piece.rows(offsets.len() as u64)) {
                let packed = |&offset: &u32| PackedRow::first_of(&rows[offset as usize..], plan.width);
                offsets[group.clone()].iter().for_each(|offset| tally.see(packed(offset).bytes()));
                groups.push(encoder.encode(&path, offsets[group].iter().map(packed))?);
            }
            pieces.push(ShardPiece { shard: piece.shard, groups, rows: tally, made });
        }
        Ok(pieces)
    }
}
