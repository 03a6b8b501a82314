//! From documents to rows, in keyed mode.
//!
//! In go documents, out come rows in a spill. A unit is one document in one pass. A round of units goes through three
//! steps: pairs are drawn (in parallel), the rows are numbered and so get their slots (in order), and the rows of this
//! part are filled, masked and packed (in parallel), while the round before is written. A document that is too long for a
//! round is done alone, piece by piece. Not for the reference's mode (`reference`).

use std::ops::Range;

use crate::budget::Tuning;
use crate::build::{BuildProgress, BuildStage, Prepared};
use crate::conservation::{MadeTally, Tally};
use crate::coverage::{Coverage, Unseen};
use crate::document::{DocumentReader, Documents};
use crate::error::{Error, Result};
use crate::instance::Pair;
use crate::keyed::KeyedInstances;
use crate::packed::pack;
use crate::parallel::share_out;
use crate::part::Part;
use crate::plan::Plan;
use crate::report::Counters;
use crate::slots::Slots;
use crate::spill::{Rows, SegmentReceipt, SpillWriter, Spilled};
use crate::work::Work;

/// What making rows needs to know.
pub(crate) struct RowJob<'a> {
    pub(crate) prepared: &'a Prepared<'a>,
    pub(crate) documents: &'a Documents,
    pub(crate) plan: &'a Plan,
    pub(crate) tuning: &'a Tuning,
    pub(crate) part: Part,
    pub(crate) work: &'a Work<'a>,
    pub(crate) build: &'a str,
    pub(crate) coverage: &'a Coverage,
}

/// A thread's buffers.
// On cache lines of its own: threads that write to neighbouring ones slow each other down.
#[repr(align(128))]
struct Maker<'a> {
    job: &'a RowJob<'a>,
    reader: DocumentReader<'a>,
    keyed: KeyedInstances,
}

/// The pairs of a unit.
struct Drawn {
    unit: u64,
    tally: MadeTally,
    pairs: Vec<Pair>,
}

/// Some consecutive pairs of a unit, numbered.
struct Piece {
    unit: u64,
    /// The number of the first pair in its unit.
    first: u64,
    pairs: Vec<Pair>,
    slots: Vec<u32>,
    /// What the unit reports, where it ends with this piece.
    end: Option<MadeTally>,
}

/// The rows of a piece.
struct Made {
    rows: Rows,
    tally: Tally,
    counters: Counters,
    end: Option<MadeTally>,
}

/// Most tokens of the rows of a piece: few enough to share out a long document among threads.
const PIECE_TOKENS: usize = 1 << 16;

impl Maker<'_> {
    fn draw(&mut self, unit: u64) -> Result<Drawn> {
        let (pass, document) = self.job.address(unit);
        let tally = self.job.see(&mut self.reader, unit)?;
        let mut drawn = Drawn { unit, tally, pairs: Vec::new() };
        self.keyed.draw(&mut self.reader, pass, document, |_, pair| {
            self.job.show(pair);
            drawn.pairs.push(pair);
            Ok(())
        })?;
        drawn.tally.all_rows = drawn.pairs.len() as u64;
        Ok(drawn)
    }

    fn make(&mut self, piece: Piece) -> Result<Made> {
        let (pass, document) = self.job.address(piece.unit);
        let masks = self.keyed.masks(pass, document);
        let counters = Counters::new(self.job.prepared.config.max_seq_length);
        let mut made = Made { rows: Rows::default(), tally: Tally::default(), counters, end: piece.end };
        let (width, mask) = (self.job.plan.width, self.job.prepared.vocabulary.mask_id());
        for ((number, &pair), slot) in (piece.first..).zip(&piece.pairs).zip(piece.slots) {
            if !self.job.part.has_shard(slot as usize / self.job.plan.buckets) {
                continue;
            }
            let row = self.keyed.row(&mut self.reader, &masks, number, pair)?;
            let start = made.rows.bytes.len();
            pack(row, width, &mut made.rows.bytes);
            made.rows.ends.push((slot, made.rows.bytes.len() as u32));
            made.tally.see(&made.rows.bytes[start..]);
            made.counters.count(row, mask);
            made.counters.shown += pair.own_tokens();
        }
        Ok(made)
    }
}

/// Gives rows their numbers, and so their slots, in the order of the units.
struct Numberer {
    /// Pairs of a piece.
    piece: usize,
    row: u64,
    slots: Slots,
}

impl Numberer {
    fn piece(&mut self, unit: u64, first: u64, pairs: Vec<Pair>, end: Option<MadeTally>) -> Piece {
        let rows = self.row..self.row + pairs.len() as u64;
        self.row = rows.end;
        Piece { unit, first, pairs, slots: rows.map(|row| self.slots.slot(row)).collect(), end }
    }

    fn pieces(&mut self, drawn: Drawn, pieces: &mut Vec<Piece>) {
        let (mut pairs, mut first) = (drawn.pairs, 0);
        while pairs.len() > self.piece {
            let rest = pairs.split_off(self.piece);
            pieces.push(self.piece(drawn.unit, first, pairs, None));
            (pairs, first) = (rest, first + self.piece as u64);
        }
        pieces.push(self.piece(drawn.unit, first, pairs, Some(drawn.tally)));
    }
}

impl RowJob<'_> {
    /// The pass and the document of a unit.
    fn address(&self, unit: u64) -> (u64, usize) {
        let documents = self.documents.counts.documents;
        (unit / documents, (unit % documents) as usize)
    }

    /// What a unit reports of its document.
    fn see(&self, reader: &mut DocumentReader<'_>, unit: u64) -> Result<MadeTally> {
        let (pass, document) = self.address(unit);
        let mut tally = MadeTally::default();
        tally.see_document(pass, &reader.span(document)?);
        Ok(tally)
    }

    /// Marks the tokens of a pair as shown.
    fn show(&self, pair: Pair) {
        pair.segments().for_each(|tokens| self.coverage.show(tokens));
    }

    /// The size of a unit: its tokens, and at least one row.
    fn size(&self, reader: &mut DocumentReader<'_>, unit: u64) -> Result<u64> {
        let tokens = reader.tokens_of(self.address(unit).1)?;
        Ok(tokens + self.prepared.config.max_seq_length as u64)
    }
}

/// Makes the rows of all units behind the finished segments.
pub(crate) fn make_rows(
    job: &RowJob<'_>,
    kept: Vec<SegmentReceipt>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Spilled> {
    let (config, plan, tuning) = (job.prepared.config, job.plan, job.tuning);
    let total = job.documents.counts.documents * config.passes() as u64;
    let (mut unit, row) = kept.last().map_or((0, 0), |last| (last.units.1, last.all_rows.1));
    let sizes = (tuning.run_bytes, tuning.segment_bytes);
    let mut spill = SpillWriter::new(job.work, job.build, plan.slots(), sizes, config.max_seq_length, kept);
    let piece = (PIECE_TOKENS / config.max_seq_length).max(1);
    let mut numberer =
        Numberer { piece, row, slots: Slots::new(config.random_seed, plan.shards, plan.buckets) };
    let keyed = config.keyed(&job.prepared.vocabulary);
    let maker = || Maker { job, reader: job.documents.reader(), keyed: keyed.clone() };
    let mut makers: Vec<Maker<'_>> = (0..job.prepared.pool.current_num_threads()).map(|_| maker()).collect();
    show_kept(job, &mut makers, unit)?;
    let mut sizer = job.documents.reader();
    let mut waiting: Vec<Made> = Vec::new();
    while unit < total || !waiting.is_empty() {
        let first = unit;
        let (mut size, mut next_is_long) = (0, false);
        while unit < total && size < tuning.round_tokens && !next_is_long {
            let next = job.size(&mut sizer, unit)?;
            next_is_long = next >= tuning.round_tokens;
            if !next_is_long {
                size += next;
                unit += 1;
            }
        }
        let before = std::mem::take(&mut waiting);
        let (made, written) = job.prepared.pool.install(|| {
            rayon::join(|| make_round(&mut makers, first..unit, &mut numberer), || write(&mut spill, before))
        });
        written?;
        waiting = made?;
        if next_is_long && first == unit {
            make_long(job, &mut makers, unit, &mut numberer, &mut spill)?;
            unit += 1;
        }
        progress(BuildProgress { stage: BuildStage::Instances, done: unit, total });
    }
    spill.finish()
}

/// Marks what the units of the finished segments show: these are on disk only as rows, so their pairs are drawn again.
fn show_kept(job: &RowJob<'_>, makers: &mut [Maker<'_>], end: u64) -> Result<()> {
    let mut units = 0..end;
    while !units.is_empty() {
        let some = units.by_ref().take(ROUND_DOCUMENTS * makers.len()).collect();
        let show = |maker: &mut Maker<'_>, unit| {
            let (pass, document) = job.address(unit);
            maker.keyed.draw(&mut maker.reader, pass, document, |_, pair| {
                job.show(pair);
                Ok(())
            })
        };
        let shown = job.prepared.pool.install(|| share_out(makers, some, show));
        shown.into_iter().collect::<Result<()>>()?;
    }
    Ok(())
}

fn make_round(makers: &mut [Maker<'_>], units: Range<u64>, numberer: &mut Numberer) -> Result<Vec<Made>> {
    let drawn = share_out(makers, units.collect(), |maker, unit| maker.draw(unit));
    let mut pieces = Vec::with_capacity(drawn.len());
    for drawn in drawn {
        numberer.pieces(drawn?, &mut pieces);
    }
    share_out(makers, pieces, |maker, piece| maker.make(piece)).into_iter().collect()
}

/// Makes a unit that is too long for a round: its pairs are drawn one after another, and filled some at a time.
fn make_long(
    job: &RowJob<'_>,
    makers: &mut [Maker<'_>],
    unit: u64,
    numberer: &mut Numberer,
    spill: &mut SpillWriter<'_>,
) -> Result<()> {
    let (pass, document) = job.address(unit);
    let at_once = 2 * makers.len();
    let drawer = makers[0].keyed.clone();
    let mut reader = job.documents.reader();
    let mut tally = job.see(&mut reader, unit)?;
    let (mut pieces, mut pairs) = (Vec::new(), Vec::new());
    let mut fill = |pieces: Vec<Piece>| {
        let made = job.prepared.pool.install(|| share_out(makers, pieces, |maker, piece| maker.make(piece)));
        write(spill, made.into_iter().collect::<Result<_>>()?)
    };
    drawer.draw(&mut reader, pass, document, |_, pair| {
        job.show(pair);
        pairs.push(pair);
        tally.all_rows += 1;
        if pairs.len() == numberer.piece {
            let first = tally.all_rows - numberer.piece as u64;
            pieces.push(numberer.piece(unit, first, std::mem::take(&mut pairs), None));
        }
        if pieces.len() == at_once { fill(std::mem::take(&mut pieces)) } else { Ok(()) }
    })?;
    let first = tally.all_rows - pairs.len() as u64;
    pieces.push(numberer.piece(unit, first, pairs, Some(tally)));
    fill(pieces)
}

fn write(spill: &mut SpillWriter<'_>, made: Vec<Made>) -> Result<()> {
    for piece in made {
        spill.push(piece.rows, piece.tally, &piece.counters)?;
        if let Some(tally) = piece.end {
            spill.end_unit(&tally)?;
        }
    }
    Ok(())
}

/// Documents of one round of counting, for each thread.
const ROUND_DOCUMENTS: usize = 1 << 12;

/// A thread's buffers and its share of the counts.
// On cache lines of its own: threads that write to neighbouring ones slow each other down.
#[repr(align(128))]
struct Counting<'a> {
    reader: DocumentReader<'a>,
    keyed: KeyedInstances,
    counters: Counters,
}

/// Sees all documents, and of those in `own`, which ascend, makes the instances of pass 0 and keeps nothing but their
/// counts (`--layout documents`). The rows of such a data set are its documents.
pub(crate) fn count_pass(
    prepared: &Prepared<'_>,
    documents: &Documents,
    own: &[Range<usize>],
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<(MadeTally, Counters, Unseen)> {
    let (config, mask) = (prepared.config, prepared.vocabulary.mask_id());
    let empty = || Counters::new(config.max_seq_length);
    let keyed = config.keyed(&prepared.vocabulary);
    let worker = |_| Counting { reader: documents.reader(), keyed: keyed.clone(), counters: empty() };
    let threads = prepared.pool.current_num_threads();
    let mut workers: Vec<Counting<'_>> = (0..threads).map(worker).collect();
    let (mut made, mut unseen) = (MadeTally::default(), Unseen::default());
    let mut reader = documents.reader();
    for document in 0..documents.len() {
        made.see_document(0, &reader.span(document)?);
        made.all_rows += 1;
    }
    let total = own.iter().map(|range| range.len()).sum::<usize>() as u64;
    let mut all = own.iter().cloned().flatten();
    loop {
        let some: Vec<usize> = all.by_ref().take(ROUND_DOCUMENTS * threads).collect();
        if some.is_empty() {
            break;
        }
        let counted = prepared.pool.install(|| {
            share_out(&mut workers, some, |worker, document| {
                let Counting { reader, keyed, counters } = worker;
                let mut rows = 0;
                keyed.make_with(reader, 0, document, |pair, row| {
                    counters.count(row, mask);
                    counters.shown += pair.own_tokens();
                    rows += 1;
                    Ok(())
                })?;
                Ok::<_, Error>((reader.span(document)?, rows))
            })
        });
        for counted in counted {
            let (span, rows) = counted?;
            let tokens = span.tokens.end - span.tokens.start;
            // What one pass cuts off, another may show; a document that gives no row never will.
            unseen.of += tokens;
            unseen.tokens += if rows == 0 { tokens } else { 0 };
            made.rows.see_document(&span);
        }
        progress(BuildProgress { stage: BuildStage::Instances, done: made.rows.count, total });
    }
    let mut counters = empty();
    workers.iter().for_each(|worker| counters.add(&worker.counters));
    Ok((made, counters, unseen))
}
