//! Reads a file as blocks of whole lines, decompressed, in bounded memory.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use super::decompress::Source;
use super::json_values::JsonValues;
use super::known_format;
use super::{BLOCK, Format, InputEntry, LONGEST_LINE};
use crate::error::{InputProblem, Locate, Result};

/// What a compressed file may grow to before it is asked how much it has grown.
const GROWN: u64 = 64 << 20;
/// How much larger than itself a compressed file may then be: text is 3 to 20 times as large, a bomb a thousand times.
const GROWTH: u64 = 500;

/// Whole lines of one file: every line but a file's last ends in `\n`. Or whole rows of Parquet, CSV or TSV.
#[derive(Clone, Debug)]
pub struct Block {
    /// Which file, by its place in the list.
    pub file: usize,
    /// What the lines are.
    pub format: Format,
    /// The number of the block's first line or row in its file, counted from 1.
    pub first_line: u64,
    /// The lines, or the rows' texts one after another.
    pub bytes: Vec<u8>,
    /// Of a table: where each row's text ends in `bytes`.
    pub row_ends: Vec<usize>,
    /// Of Parquet: which rows are null, ascending, counted from 0 in this block.
    pub null_rows: Vec<usize>,
    /// Whether the file ends with this block. A file's last block may be empty.
    pub ends_file: bool,
}

impl Block {
    /// The lines without their `\n`, with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = self.bytes.as_slice();
        let mut number = self.first_line;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (line, after) = match rest.iter().position(|&byte| byte == b'\n') {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &rest[rest.len()..]),
            };
            rest = after;
            number += 1;
            Some((number - 1, line))
        })
    }

    /// The rows' texts of a block of a table with their numbers; none for a null.
    pub fn rows(&self) -> impl Iterator<Item = (u64, Option<&[u8]>)> {
        let starts = std::iter::once(0).chain(self.row_ends.iter().copied());
        let mut nulls = self.null_rows.iter().peekable();
        starts.zip(&self.row_ends).enumerate().map(move |(row, (start, &end))| {
            let text = nulls.next_if_eq(&&row).is_none().then(|| &self.bytes[start..end]);
            (self.first_line + row as u64, text)
        })
    }
}

/// Reads one file as blocks.
pub struct BlockReader {
    path: PathBuf,
    file: usize,
    format: Format,
    source: Source,
    text: Box<dyn BufRead + Send>,
    next_line: u64,
    text_bytes: u64,
    done: bool,
}

impl BlockReader {
    /// Opens a file of lines, plain or compressed; `file` is its place in the list.
    ///
    /// # Errors
    /// Those of opening and decompressing a file; [`InputProblem::KnownFormat`] for a file that is not text, compressed
    /// or not.
    pub fn open(path: &Path, file: usize, format: Format) -> Result<Self> {
        let source = Source::open(path)?;
        known_format::refuse(path, &source.head, source.compression)?;
        Ok(Self::new(path, file, format, source))
    }

    /// Reads the lines of an open file.
    pub(super) fn new(path: &Path, file: usize, format: Format, mut source: Source) -> Self {
        let (path, text) = (path.to_owned(), source.take_text());
        Self { path, file, format, source, text, next_line: 1, text_bytes: 0, done: false }
    }

    /// Reads the values of an open file of JSON as lines.
    pub(super) fn of_values(path: &Path, file: usize, source: Source) -> Self {
        let mut reader = Self::new(path, file, Format::Jsonl, source);
        reader.text = Box::new(JsonValues::new(reader.text));
        reader
    }

    /// The next block, or `None` after the one that ends the file.
    ///
    /// # Errors
    /// [`Error::Storage`], [`InputProblem::CorruptCompression`], [`InputProblem::LineTooLong`] or
    /// [`InputProblem::Bomb`].
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(BLOCK + BLOCK / 4);
        let mut lines = 0;
        // Where the line begins that is being read.
        let mut line_start = 0;
        let mut line_is_open = false;
        while bytes.len() < BLOCK || line_is_open {
            let available = match self.text.fill_buf() {
                Ok([]) => {
                    self.done = true;
                    break;
                }
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.source.damaged(&self.path, error)),
            };
            // Never past the first line end behind the block's size, so that a block ends with a line.
            let room = BLOCK.saturating_sub(bytes.len()).min(available.len());
            let end = available[room..].iter().position(|&byte| byte == b'\n').map(|at| room + at + 1);
            let taken = &available[..end.unwrap_or(available.len())];
            lines += taken.iter().filter(|&&byte| byte == b'\n').count() as u64;
            if let Some(last) = taken.iter().rposition(|&byte| byte == b'\n') {
                line_start = bytes.len() + last + 1;
            }
            bytes.extend_from_slice(taken);
            line_is_open = taken.last() != Some(&b'\n');
            let length = taken.len();
            self.text.consume(length);
            if bytes.len() - line_start > LONGEST_LINE {
                let line = self.next_line + lines;
                return Err(InputProblem::LineTooLong(LONGEST_LINE).at_line(&self.path, line).into());
            }
        }
        self.text_bytes += bytes.len() as u64;
        if let Some(format) = self.source.compression {
            refuse_bomb(&self.path, format, self.text_bytes, self.bytes_read())?;
        }
        let first_line = self.next_line;
        self.next_line += lines + u64::from(bytes.last().is_some_and(|&byte| byte != b'\n'));
        let (file, format, row_ends, null_rows) = (self.file, self.format, Vec::new(), Vec::new());
        Ok(Some(Block { file, format, first_line, bytes, row_ends, null_rows, ends_file: self.done }))
    }

    /// What was read, once the last block is out.
    #[must_use]
    pub fn entry(&self) -> InputEntry {
        InputEntry {
            path: self.path.to_string_lossy().into_owned(),
            bytes: self.source.bytes_read(),
            format: self.format,
            lines: self.next_line - 1,
            blake3: self.source.digest(),
        }
    }

    /// Bytes taken from disk so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    /// Bytes behind the compressed data that were ignored.
    pub(super) fn ignored(&self) -> u64 {
        self.source.ignored()
    }
}

/// Refuses text that has grown beyond what text can, out of so many bytes of a file.
pub(crate) fn refuse_bomb(path: &Path, format: &'static str, text: u64, compressed: u64) -> Result<()> {
    if text > GROWN && text / GROWTH > compressed {
        return Err(InputProblem::Bomb { format, text, compressed }.at(path).into());
    }
    Ok(())
}
