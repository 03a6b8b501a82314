//! Rows on their way to their shards, on disk: sorted runs in segments, each with a receipt.
//!
//! In go rows in the order they are made, each with its slot (a bucket of a shard); out they come slot by slot, in the
//! order they were made. Rows are collected until a run is full, sorted by slot and written one run after another, each
//! followed by where its slots begin: so memory is one run, whatever the number of shards, and a slot is one piece of
//! each run. Some runs make a segment, which ends between two documents and gets a receipt with a digest. A restart
//! keeps the segments whose receipts hold and makes the others again; for that no fsync is needed, because what a power
//! cut damaged does not verify. Not for the order of rows within a slot (`shards`). The reference holds all in memory.

use std::fs::File;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::column::{ColumnDigest, ScratchFile, digest_of, read_exact_at};
use crate::conservation::{MadeTally, Tally};
use crate::error::{Error, Result};
use crate::report::Counters;
use crate::work::Work;

/// What a segment holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentReceipt {
    /// Of which build.
    pub(crate) build: String,
    /// The first (pass, document) unit, counted over all passes, and the one after the last.
    pub(crate) units: (u64, u64),
    /// The number of the first row, counted over all shards, and the one after the last.
    pub(crate) all_rows: (u64, u64),
    pub(crate) made: MadeTally,
    pub(crate) counters: Counters,
    /// Bytes of the rows of each run.
    runs: Vec<u64>,
    file: ColumnDigest,
}

/// Rows of one document, or of a part of a very long one.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) bytes: Vec<u8>,
    /// The slot of each row and where it ends in `bytes`.
    pub(crate) ends: Vec<(u32, u32)>,
}

/// Bytes of memory that a row takes beside its own: its end, and its place in the order.
pub(crate) const BESIDE_ROW: usize = 24;

/// Sorts rows into segments.
pub(crate) struct SpillWriter<'a> {
    work: &'a Work<'a>,
    slots: usize,
    run_bytes: u64,
    segment_bytes: u64,
    rows: Vec<Rows>,
    waiting: u64,
    segments: Vec<SegmentReceipt>,
    open: Option<(ScratchFile, Vec<u64>)>,
    next: SegmentReceipt,
}

fn data_name(segment: usize) -> String {
    format!("rows-{segment:06}")
}

fn receipt_name(segment: usize) -> String {
    format!("rows-{segment:06}.json")
}

impl<'a> SpillWriter<'a> {
    /// Goes on behind the segments that are finished already.
    pub(crate) fn new(
        work: &'a Work<'a>,
        build: &str,
        slots: usize,
        (run_bytes, segment_bytes): (u64, u64),
        max_seq_length: usize,
        segments: Vec<SegmentReceipt>,
    ) -> Self {
        let (unit, row) = segments.last().map_or((0, 0), |last| (last.units.1, last.all_rows.1));
        let next = SegmentReceipt {
            build: build.to_owned(),
            units: (unit, unit),
            all_rows: (row, row),
            made: MadeTally::default(),
            counters: Counters::new(max_seq_length),
            runs: Vec::new(),
            file: ColumnDigest { bytes: 0, xxh3: 0 },
        };
        Self {
            work,
            slots,
            run_bytes,
            segment_bytes,
            rows: Vec::new(),
            waiting: 0,
            segments,
            open: None,
            next,
        }
    }

    /// Takes rows; after those of a unit's last part the caller calls [`SpillWriter::end_unit`].
    pub(crate) fn push(&mut self, rows: Rows, tally: Tally, counters: &Counters) -> Result<()> {
        self.next.made.rows.add(tally);
        self.next.counters.add(counters);
        self.waiting += (rows.bytes.len() + BESIDE_ROW * rows.ends.len()) as u64;
        if !rows.ends.is_empty() {
            self.rows.push(rows);
        }
        if self.waiting >= self.run_bytes { self.write_run() } else { Ok(()) }
    }

    /// A (pass, document) unit is complete.
    pub(crate) fn end_unit(&mut self, made: &MadeTally) -> Result<()> {
        self.next.units.1 += 1;
        self.next.all_rows.1 += made.all_rows;
        self.next.made.add(made);
        let written: u64 = self.open.as_ref().map_or(0, |(_, runs)| runs.iter().sum());
        if written >= self.segment_bytes { self.end_segment() } else { Ok(()) }
    }

    fn write_run(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.waiting = 0;
        let mut order: Vec<(u32, u32, u32, u32)> = Vec::new();
        for (unit, rows) in (0..).zip(&rows) {
            let mut start = 0;
            for &(slot, end) in &rows.ends {
                order.push((slot, unit, start, end));
                start = end;
            }
        }
        // Within a slot the order in which they were made.
        order.sort_unstable();
        let (file, runs) = match &mut self.open {
            Some(open) => open,
            None => {
                let path = self.work.path(&data_name(self.segments.len()));
                self.open.insert((ScratchFile::create(self.work.files, &path)?, Vec::new()))
            }
        };
        let mut starts = vec![0u32; self.slots + 1];
        let mut length = 0;
        for &(slot, unit, start, end) in &order {
            file.push(&rows[unit as usize].bytes[start as usize..end as usize])?;
            length += end - start;
            starts[slot as usize + 1] = length;
        }
        // Slots without rows begin where the one before them ended.
        let mut last = 0;
        for start in &mut starts {
            last = last.max(*start);
            file.push(&last.to_le_bytes())?;
        }
        runs.push(u64::from(length));
        Ok(())
    }

    fn end_segment(&mut self) -> Result<()> {
        if !self.rows.is_empty() || self.open.is_none() {
            self.write_run()?;
        }
        let Some((file, runs)) = self.open.take() else { return Ok(()) };
        let receipt = SegmentReceipt { runs, file: file.finish()?, ..self.next.clone() };
        self.work.write_receipt(&receipt_name(self.segments.len()), &receipt)?;
        self.next.units.0 = receipt.units.1;
        self.next.all_rows.0 = receipt.all_rows.1;
        self.next.made = MadeTally::default();
        self.next.counters = Counters::new(receipt.counters.max_seq_length());
        self.segments.push(receipt);
        Ok(())
    }

    /// Ends the last segment.
    pub(crate) fn finish(mut self) -> Result<Spilled> {
        if self.next.units.0 < self.next.units.1 {
            self.end_segment()?;
        }
        Spilled::open(self.work, self.slots, &self.segments)
    }
}

/// The receipts of the segments of a build that are there and hold, from the first one on; what is behind them is
/// removed.
pub(crate) fn kept_segments(work: &Work<'_>, build: &str) -> Result<Vec<SegmentReceipt>> {
    let mut kept: Vec<SegmentReceipt> = Vec::new();
    loop {
        let at = kept.len();
        let end = kept.last().map_or((0, 0), |last| (last.units.1, last.all_rows.1));
        let receipt = work.read_receipt::<SegmentReceipt>(&receipt_name(at));
        let holds = |receipt: &SegmentReceipt| -> Result<bool> {
            let follows = receipt.build == build && (receipt.units.0, receipt.all_rows.0) == end;
            Ok(follows && digest_of(&work.path(&data_name(at)))?.as_ref() == Some(&receipt.file))
        };
        match receipt {
            Some(receipt) if holds(&receipt)? => kept.push(receipt),
            _ => break,
        }
    }
    for behind in kept.len().. {
        let removed = work.remove(&receipt_name(behind))?;
        if !(work.remove(&data_name(behind))? || removed) {
            return Ok(kept);
        }
    }
    Ok(kept)
}

/// All rows, made but not yet in their order. Many threads may read.
#[derive(Debug)]
pub(crate) struct Spilled {
    slots: usize,
    segments: Vec<(File, PathBuf)>,
    /// The segment of each run, where its rows begin and how many bytes they are.
    runs: Vec<(usize, u64, u64)>,
    pub(crate) made: MadeTally,
    pub(crate) counters: Counters,
}

impl Spilled {
    fn open(work: &Work<'_>, slots: usize, receipts: &[SegmentReceipt]) -> Result<Self> {
        let mut spilled = Self {
            slots,
            segments: Vec::new(),
            runs: Vec::new(),
            made: MadeTally::default(),
            counters: Counters::default(),
        };
        for (number, receipt) in receipts.iter().enumerate() {
            let path = work.path(&data_name(number));
            let file = File::open(&path).map_err(Error::io("open", &path))?;
            let mut start = 0;
            for &bytes in &receipt.runs {
                spilled.runs.push((number, start, bytes));
                start += bytes + 4 * (slots as u64 + 1);
            }
            spilled.segments.push((file, path));
            spilled.made.add(&receipt.made);
            if number == 0 {
                spilled.counters = Counters::new(receipt.counters.max_seq_length());
            }
            spilled.counters.add(&receipt.counters);
        }
        Ok(spilled)
    }

    /// The rows of a slot, in the order they were made.
    pub(crate) fn slot(&self, slot: usize) -> Result<Vec<u8>> {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        let mut rows = Vec::new();
        for &(segment, start, bytes) in &self.runs {
            let (file, path) = &self.segments[segment];
            let mut border = [0; 8];
            read_exact_at(file, &mut border, start + bytes + 4 * slot as u64)
                .map_err(Error::io("read", path))?;
            let [a, b, c, d, e, f, g, h] = border;
            let (from, to) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
            if from < to {
                let before = rows.len();
                rows.resize(before + (to - from) as usize, 0);
                read_exact_at(file, &mut rows[before..], start + u64::from(from))
                    .map_err(Error::io("read", path))?;
            }
        }
        Ok(rows)
    }

    /// How many sorted runs there are.
    #[cfg(test)]
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Forgets a run, as a fault would.
    #[cfg(test)]
    pub(crate) fn lose_run(&mut self, run: usize) {
        self.runs.remove(run);
    }

    /// Reads a run twice, as a fault would.
    #[cfg(test)]
    pub(crate) fn double_run(&mut self, run: usize) {
        self.runs.push(self.runs[run]);
    }
}
