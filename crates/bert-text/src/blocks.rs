//! Reads a file as blocks of whole lines, decompressed, in bounded memory.
//!
//! [`RowBlocks`] collects the rows of a table, or the articles of a wiki, in blocks.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytes::decompress::{HEAD, Source};
use crate::bytes::file_range::{FileRange, SharedRange};
use crate::error::{Error, Result};
use crate::forms::text::FormCounts;
use crate::forms::{Converted, SharedCounts};
use crate::json::values::JsonValues;
use crate::line_check::{BadLines, LineCheck};
use crate::line_counts::LineCounts;
use crate::reading::LineBreaks;
use crate::recognize::Head;
use crate::recognize::known_format::reject_known_format;
use crate::threads::lock;
use crate::wikitext::Wiki;
use crate::{BLOCK, DumpPages, Format, MAX_LINE_BYTES};

/// Decompressed size in bytes from which the expansion ratio is checked.
const GROWN: u64 = 64 << 20;
/// Maximum expansion ratio of a larger text: text compresses 3 to 20 times, a decompression bomb a thousand times.
const GROWTH: u64 = 500;
/// Maximum number of rows of a block, reached if rows are short or null.
pub(crate) const ROWS: usize = 1 << 16;

/// Whole lines of one file, where every line but a file's last ends in `\n`; or whole rows of Parquet, CSV or TSV, or
/// whole articles.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Index of the file in the list of inputs.
    pub file: usize,
    /// Format of the file.
    pub format: Format,
    /// The number of the block's first line or row in its file, counted from 1.
    pub first_line: u64,
    /// The lines, or the rows' texts one after another.
    pub bytes: Vec<u8>,
    /// For a table: the end of each row's text in `bytes`.
    pub row_ends: Vec<usize>,
    /// For Parquet: the null rows, ascending, counted from 0 in this block.
    pub null_rows: Vec<usize>,
    /// For Parquet: whether each row is a list of sentences, which are the lines of its text.
    pub lists: bool,
    /// For a dump: the wiki in its header.
    pub wiki: Option<Arc<Wiki>>,
    /// For a file that is converted: the counts of its lines before the conversion.
    pub source_lines: Option<LineCounts>,
    /// Whether the file ends with this block. A file's last block may be empty.
    pub ends_file: bool,
}

impl Block {
    /// Checks the lines of text or JSON and returns their counts; the counts are 0 for a block of rows.
    ///
    /// # Errors
    /// Fails when a line is bad and `bad_lines` allows none.
    pub fn check_lines(&self, path: &Path, bad_lines: BadLines) -> Result<LineCheck> {
        let source = self.source_lines.as_ref();
        let mut check = LineCheck::begin(source, path, bad_lines)?;
        for (number, line) in self.lines().take_while(|_| !self.format.has_rows()) {
            check.decode(line, (path, number), bad_lines)?;
        }
        Ok(check.end(source))
    }

    /// Iterates over the lines without their `\n`, with their numbers.
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

    /// Iterates over the rows of a table: their numbers and texts, `None` for a null row.
    pub fn rows(&self) -> impl Iterator<Item = (u64, Option<&[u8]>)> {
        let starts = std::iter::once(0).chain(self.row_ends.iter().copied());
        let mut nulls = self.null_rows.iter().peekable();
        starts.zip(&self.row_ends).enumerate().map(move |(row, (start, &end))| {
            let text = nulls.next_if_eq(&&row).is_none().then(|| &self.bytes[start..end]);
            (self.first_line + row as u64, text)
        })
    }
}

/// Reader of the blocks of one file, or of a range of a file.
pub struct BlockReader {
    pub(crate) path: PathBuf,
    file: usize,
    pub(crate) format: Format,
    pub(crate) source: Source,
    /// The range, if not the whole file is read. No block of a range has `ends_file`, because the statistics of all
    /// ranges are added up first.
    pub(crate) range: Option<SharedRange>,
    text: Box<dyn BufRead + Send>,
    pub(crate) next_line: u64,
    text_bytes: u64,
    done: bool,
    /// Counts of the conversion, if the file has a form that is converted.
    counts: Option<SharedCounts>,
}

impl BlockReader {
    /// Opens a file of lines, plain or compressed; `file` is its index in the list.
    ///
    /// # Errors
    /// Fails when the file cannot be read or decompressed, or when it is in a format that is not text, whether
    /// compressed or not.
    pub fn open(path: &Path, file: usize, format: Format) -> Result<Self> {
        let source = Source::open(path)?;
        reject_known_format(path, &source.head, source.compression)?;
        Ok(Self::new(path, file, format, source))
    }

    /// Returns a reader of the lines of an open file.
    pub(super) fn new(path: &Path, file: usize, format: Format, mut source: Source) -> Self {
        let text = source.take_text();
        let path = path.to_owned();
        Self {
            path,
            file,
            format,
            source,
            range: None,
            text,
            next_line: 1,
            text_bytes: 0,
            done: false,
            counts: None,
        }
    }

    /// Opens a range of a file. Its lines are counted from 1.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub(super) fn open_range(path: &Path, file: usize, range: FileRange) -> Result<Self> {
        let (shared, text) = SharedRange::open(path, range)?;
        let reader = Self::new(path, file, range.format, Source::from_text(text));
        Ok(Self { range: Some(shared), ..reader })
    }

    /// Returns a reader of the values of an open JSON file, one value per line.
    pub(super) fn from_values(path: &Path, file: usize, source: Source) -> Self {
        let mut reader = Self::new(path, file, Format::Jsonl, source);
        reader.text = Box::new(JsonValues::new(reader.text));
        reader
    }

    /// Returns a reader of a file in a form that is converted to lines of text.
    pub(super) fn with_form(
        path: &Path,
        file: usize,
        source: Source,
        format: Format,
        breaks: LineBreaks,
    ) -> Self {
        let head = String::from_utf8_lossy(&source.head).into_owned();
        let lines: Vec<&str> = Head::new(&head, source.head.len() < HEAD).lines().collect();
        let mut reader = Self::new(path, file, format, source);
        let (text, counts) = Converted::new(format, &lines, breaks, reader.text, MAX_LINE_BYTES);
        reader.text = Box::new(text);
        reader.counts = Some(counts);
        reader
    }

    /// Returns the counts of the conversion, if the file has a form that is converted; they are set when the file
    /// ends.
    pub(super) fn form_counts(&self) -> Option<FormCounts> {
        self.counts.as_ref().map(|counts| lock(counts).form.clone())
    }

    /// Returns the next block, or `None` after the last block of the file.
    ///
    /// # Errors
    /// Fails when the file cannot be read, when compressed data are damaged or truncated or expand by more than text
    /// can, or when a line is longer than the limit.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(BLOCK + BLOCK / 4);
        let mut lines = 0;
        // Start of the current line.
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
            // Stop at the first line end after the block size, so that a block ends with a line.
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
            if bytes.len() - line_start > MAX_LINE_BYTES {
                let line = self.next_line + lines;
                return Err(Error::data(format!(
                    "this line is longer than {MAX_LINE_BYTES} bytes; break it between sentences or paragraphs, and \
                     write JSON with one row per line (jq -c)"
                ))
                .at_line(&self.path, line));
            }
        }
        self.text_bytes += bytes.len() as u64;
        if let Some(format) = self.source.compression {
            reject_bomb(&self.path, format, self.text_bytes, self.bytes_read())?;
        }
        let first_line = self.next_line;
        self.next_line += lines + u64::from(bytes.last().is_some_and(|&byte| byte != b'\n'));
        let ends_file = self.done && self.range.is_none();
        let format = self.format;
        let source_lines =
            self.counts.as_ref().and_then(|counts| lock(counts).lines.as_mut().map(std::mem::take));
        Ok(Some(Block {
            file: self.file,
            format,
            first_line,
            bytes,
            source_lines,
            ends_file,
            ..Block::default()
        }))
    }

    /// Returns the number of bytes read from disk so far.
    pub fn bytes_read(&self) -> u64 {
        self.range.as_ref().map_or_else(|| self.source.bytes_read(), SharedRange::bytes_read)
    }
}

/// Rejects a file of `compressed` bytes whose decompressed size exceeds the maximum expansion ratio.
pub(crate) fn reject_bomb(path: &Path, format: &'static str, text: u64, compressed: u64) -> Result<()> {
    if text > GROWN && text / GROWTH > compressed {
        return Err(Error::data(format!(
            "{compressed} bytes of {format} expand to {text} bytes or more, which text does not do; if this is \
             intended, give the file uncompressed"
        ))
        .at(path));
    }
    Ok(())
}

/// An open file of rows.
pub(crate) struct RowFile {
    pub(crate) path: PathBuf,
    pub(crate) source: Source,
    pub(crate) rows_read: u64,
}

impl RowFile {
    pub(crate) fn new(path: &Path, source: Source) -> Self {
        Self { path: path.to_owned(), source, rows_read: 0 }
    }

    /// Returns the error for a file that cannot be read or decompressed.
    pub(crate) fn damaged(&self, error: io::Error) -> Error {
        self.source.damaged(&self.path, error)
    }
}

/// The result of reading a row.
pub(crate) enum NextRow {
    /// A row was read.
    Row,
    /// The rows that follow belong to another block.
    NewBlock,
    /// The file ends.
    End,
}

/// The rows of a file.
pub(crate) trait RowSource: Send {
    /// Appends the text of the next row.
    fn next_row(&mut self, file: &RowFile, into: &mut Vec<u8>) -> Result<NextRow>;

    fn format(&self) -> Format;

    /// Returns the wiki of the last row.
    fn wiki(&self) -> Option<Arc<Wiki>> {
        None
    }

    /// Returns the counts of the pages of a dump that are not articles.
    fn pages(&self) -> Option<DumpPages> {
        None
    }
}

/// Reader of blocks of the rows of a file.
pub struct RowBlocks {
    /// Index of the file in the list of inputs.
    index: usize,
    pub(super) file: RowFile,
    pub(super) rows: Box<dyn RowSource>,
    text_bytes: u64,
    done: bool,
}

impl RowBlocks {
    pub(super) fn new(index: usize, file: RowFile, rows: Box<dyn RowSource>) -> Self {
        Self { index, file, rows, text_bytes: 0, done: false }
    }

    /// Returns the next block of whole rows, or `None` after the last block of the file.
    ///
    /// # Errors
    /// Fails when compressed data expand by more than text can, or when a row cannot be read.
    pub(super) fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let first_line = self.file.rows_read + 1;
        // All articles of a block belong to one wiki.
        let mut wiki = self.rows.wiki();
        let mut bytes = Vec::new();
        let mut row_ends = Vec::new();
        while bytes.len() < BLOCK && row_ends.len() < ROWS {
            match self.rows.next_row(&self.file, &mut bytes)? {
                NextRow::Row => {
                    row_ends.push(bytes.len());
                    self.file.rows_read += 1;
                    wiki = self.rows.wiki();
                }
                NextRow::NewBlock => break,
                NextRow::End => {
                    self.done = true;
                    break;
                }
            }
        }
        self.text_bytes += bytes.len() as u64;
        if let Some(format) = self.file.source.compression {
            reject_bomb(&self.file.path, format, self.text_bytes, self.file.source.bytes_read())?;
        }
        let format = self.rows.format();
        let ends_file = self.done;
        let file = self.index;
        Ok(Some(Block { file, format, first_line, bytes, row_ends, wiki, ends_file, ..Block::default() }))
    }
}
