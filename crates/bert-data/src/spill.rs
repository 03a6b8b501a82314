//! Rows on their way to their shards: a compact form, and one scratch file that holds them.
//!
//! In go masked instances in the order they are made, out they come bucket by bucket or by their number. The file is
//! what keeps memory flat in `dupe_factor`. Not for anything that must survive a crash: the file is removed when it
//! is dropped. Nothing here is from the reference, which holds all instances in memory.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::masking::MaskedInstance;

/// Bytes before the variable part of a packed row: tokens, first segment, masks (two bytes each), label.
const HEAD: usize = 7;

/// How ids are packed: two bytes where the vocabulary allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Two,
    Four,
}

impl Width {
    pub(crate) fn of(vocabulary: usize) -> Self {
        if vocabulary <= 1 << 16 { Self::Two } else { Self::Four }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    fn put(self, ids: &[u32], out: &mut Vec<u8>) {
        match self {
            Self::Two => ids.iter().for_each(|&id| out.extend_from_slice(&(id as u16).to_le_bytes())),
            Self::Four => ids.iter().for_each(|&id| out.extend_from_slice(&id.to_le_bytes())),
        }
    }

    fn get(self, bytes: &[u8], out: &mut Vec<i32>) {
        match self {
            Self::Two => {
                out.extend(bytes.as_chunks().0.iter().map(|&pair| i32::from(u16::from_le_bytes(pair))))
            }
            Self::Four => out.extend(bytes.as_chunks().0.iter().map(|&four| u32::from_le_bytes(four) as i32)),
        }
    }
}

/// Appends the packed form of a row. Sequences are at most 65,535 tokens long.
pub(crate) fn pack(row: &MaskedInstance, width: Width, out: &mut Vec<u8>) {
    let first = row.segment_ids.partition_point(|&segment| segment == 0);
    for number in [row.tokens.len(), first, row.masked_lm_positions.len()] {
        out.extend_from_slice(&(number as u16).to_le_bytes());
    }
    out.push(u8::from(row.is_random_next));
    width.put(&row.tokens, out);
    Width::Two.put(&row.masked_lm_positions, out);
    width.put(&row.masked_lm_ids, out);
}

/// A packed row, looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedRow<'a> {
    bytes: &'a [u8],
    width: Width,
}

impl<'a> PackedRow<'a> {
    /// The row that begins `bytes`.
    pub(crate) fn first_of(bytes: &'a [u8], width: Width) -> Self {
        let row = Self { bytes, width };
        let length = row.length();
        Self { bytes: &bytes[..length], width }
    }

    fn number(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[2 * at], self.bytes[2 * at + 1]]))
    }

    /// Number of bytes of the packed form.
    pub(crate) fn length(&self) -> usize {
        HEAD + self.number(0) * self.width.bytes() + self.number(2) * (2 + self.width.bytes())
    }

    pub(crate) fn tokens(&self) -> usize {
        self.number(0)
    }

    pub(crate) fn first_segment_tokens(&self) -> usize {
        self.number(1)
    }

    pub(crate) fn next_sentence_label(&self) -> i8 {
        self.bytes[6] as i8
    }

    /// Appends tokens, positions and ids to three buffers.
    pub(crate) fn unpack(&self, tokens: &mut Vec<i32>, positions: &mut Vec<i32>, ids: &mut Vec<i32>) {
        let tokens_end = HEAD + self.number(0) * self.width.bytes();
        let positions_end = tokens_end + self.number(2) * 2;
        self.width.get(&self.bytes[HEAD..tokens_end], tokens);
        Width::Two.get(&self.bytes[tokens_end..positions_end], positions);
        self.width.get(&self.bytes[positions_end..], ids);
    }
}

/// The rows in some packed bytes, first to last: where each begins.
pub(crate) fn row_offsets(bytes: &[u8], width: Width) -> Vec<u32> {
    let mut offsets = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        offsets.push(at as u32);
        at += PackedRow::first_of(&bytes[at..], width).length();
    }
    offsets
}

/// How much memory the buckets of a spill take together before they go to disk.
const BUFFERS: usize = 8 << 20;

/// Rows in buckets, in one scratch file.
#[derive(Debug)]
pub(crate) struct Spill {
    path: PathBuf,
    file: File,
    end: u64,
    buffers: Vec<Vec<u8>>,
    /// Where the parts of each bucket lie in the file.
    parts: Vec<Vec<(u64, u32)>>,
    buffer_size: usize,
}

impl Spill {
    pub(crate) fn create(path: &Path, buckets: usize) -> Result<Self> {
        let file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(path)
            .map_err(Error::io("create", path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            end: 0,
            buffers: vec![Vec::new(); buckets],
            parts: vec![Vec::new(); buckets],
            buffer_size: (BUFFERS / buckets).clamp(1 << 12, 1 << 20),
        })
    }

    pub(crate) fn push(&mut self, bucket: usize, row: &[u8]) -> Result<()> {
        self.buffers[bucket].extend_from_slice(row);
        if self.buffers[bucket].len() >= self.buffer_size {
            self.flush(bucket)?;
        }
        Ok(())
    }

    fn flush(&mut self, bucket: usize) -> Result<()> {
        let buffer = &mut self.buffers[bucket];
        self.file.write_all(buffer).map_err(Error::io("write", &self.path))?;
        self.parts[bucket].push((self.end, buffer.len() as u32));
        self.end += buffer.len() as u64;
        buffer.clear();
        Ok(())
    }

    /// Ends writing; the buffers are given back.
    pub(crate) fn finish(mut self) -> Result<FinishedSpill> {
        for bucket in 0..self.buffers.len() {
            if !self.buffers[bucket].is_empty() {
                self.flush(bucket)?;
            }
        }
        Ok(FinishedSpill { path: self.path, parts: self.parts })
    }
}

/// A spill that is only read; many threads may, each with its own handle.
#[derive(Debug)]
pub(crate) struct FinishedSpill {
    path: PathBuf,
    parts: Vec<Vec<(u64, u32)>>,
}

impl FinishedSpill {
    /// The rows of a bucket, in the order they were pushed.
    pub(crate) fn bucket(&self, bucket: usize) -> Result<Vec<u8>> {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.path)?;
            let total: usize = self.parts[bucket].iter().map(|&(_, length)| length as usize).sum();
            let mut bytes = vec![0; total];
            let mut at = 0;
            for &(offset, length) in &self.parts[bucket] {
                file.seek(SeekFrom::Start(offset))?;
                file.read_exact(&mut bytes[at..at + length as usize])?;
                at += length as usize;
            }
            Ok(bytes)
        };
        read().map_err(Error::io("read", &self.path))
    }

    /// A handle for reading single rows by their place; for a spill of one bucket places are running sums.
    pub(crate) fn open(&self) -> Result<RowFile<'_>> {
        let file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        Ok(RowFile { path: &self.path, file })
    }
}

impl Drop for FinishedSpill {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Reads single rows from a spill.
#[derive(Debug)]
pub(crate) struct RowFile<'a> {
    path: &'a Path,
    file: File,
}

impl RowFile<'_> {
    pub(crate) fn read(&mut self, range: std::ops::Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + (range.end - range.start) as usize, 0);
        self.file
            .seek(SeekFrom::Start(range.start))
            .and_then(|_| self.file.read_exact(&mut out[start..]))
            .map_err(Error::io("read", self.path))
    }
}
