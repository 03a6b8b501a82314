//! Reads CSV and TSV tables: a header, and one document in a column of each row.
//!
//! CSV is parsed by the crate `csv`: a quoted field may contain separators and line ends. A row with another number of
//! fields than the header is rejected, because its text could come from the wrong column. TSV files have no quoting, as
//! for `finetune`; a field loses its outer quotes only if its inner quotes are doubled.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use bert_storage::did_you_mean;
use csv::{ByteRecord, ErrorKind};

use super::blocks::reject_bomb;
use super::bytes::decompress::Source;
use super::bytes::limited::{AHEAD, Limited, Limits, TooLong};
use super::json::listed;
use super::{BLOCK, Block, Format, InputEntry, MAX_LINE_BYTES};
use crate::error::{InputProblem, Locate, Result};

/// Maximum number of rows per block.
const ROWS: usize = 1 << 16;

/// Reader of the text column of a CSV or TSV table as blocks.
pub struct SeparatedReader {
    path: PathBuf,
    file: usize,
    format: Format,
    source: Source,
    rows: csv::Reader<Limited>,
    limits: Limits,
    /// Index of the text column.
    column: usize,
    rows_read: u64,
    text_bytes: u64,
    done: bool,
    /// Whether fields may be quoted.
    knows_quotes: bool,
    /// First line of the last row, if its last field has several lines.
    many_lines: Option<u64>,
}

impl SeparatedReader {
    /// Reads the header and finds the text column.
    ///
    /// # Errors
    /// [`InputProblem::Column`] if there is no column of this name; the errors of [`Self::next_block`].
    pub(super) fn new(
        path: &Path,
        file: usize,
        mut source: Source,
        separator: u8,
        column: &str,
    ) -> Result<Self> {
        let tabs = separator == b'\t';
        // If the header is quoted, so are the values.
        let head = source.head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&source.head);
        let knows_quotes = !tabs || head.starts_with(b"\"");
        let limits = Limits::of(MAX_LINE_BYTES);
        let rows = csv::ReaderBuilder::new()
            .delimiter(separator)
            .quoting(knows_quotes)
            .buffer_capacity(AHEAD)
            .from_reader(Limited::new(source.take_text(), limits.clone()));
        let format = if tabs { Format::Tsv } else { Format::Csv };
        let path = path.to_owned();
        let mut reader = Self {
            path,
            file,
            format,
            source,
            rows,
            limits,
            column: 0,
            rows_read: 0,
            text_bytes: 0,
            done: false,
            knows_quotes,
            many_lines: None,
        };
        reader.limits.begin_row();
        let header = match reader.rows.byte_headers() {
            Ok(header) => header.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect(),
            Err(error) => return Err(reader.failed(error)),
        };
        let header: Vec<String> = header;
        // An empty file has no rows and needs no columns.
        let found = header.iter().position(|name| name == column).or(header.is_empty().then_some(0));
        reader.column = found.ok_or_else(|| {
            let similar = did_you_mean(column, header.iter().map(String::as_str));
            let found = format!("missing (columns of its first line: {}{similar})", listed(&header));
            let (column, expected) =
                (column.to_owned(), "text: this is a table of separated values (see --text-column)");
            InputProblem::Column { column, found, expected }.located(&reader.path)
        })?;
        Ok(reader)
    }

    /// Returns the next block of whole rows, or `None` after the last block of the file.
    ///
    /// # Errors
    /// [`InputProblem::Fields`], [`InputProblem::OpenQuote`], [`InputProblem::RowTooLong`], [`InputProblem::Bomb`], and
    /// the errors of decompression.
    pub(super) fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let first_line = self.rows_read + 1;
        let (mut bytes, mut row_ends, mut record) = (Vec::new(), Vec::new(), ByteRecord::new());
        while bytes.len() < BLOCK && row_ends.len() < ROWS && !self.done {
            self.limits.begin_row();
            match self.rows.read_byte_record(&mut record) {
                Ok(is_row) => self.done = !is_row,
                Err(error) => return Err(self.failed(error)),
            }
            if self.done {
                self.reject_open_quote()?;
                break;
            }
            let text = record.get(self.column).unwrap_or_default();
            bytes.extend_from_slice(&if self.knows_quotes { Cow::Borrowed(text) } else { unquoted(text) });
            row_ends.push(bytes.len());
            self.rows_read += 1;
            let many_lines = record.iter().next_back().is_some_and(|field| field.contains(&b'\n'));
            self.many_lines = record.position().filter(|_| many_lines).map(csv::Position::line);
        }
        self.text_bytes += bytes.len() as u64;
        if let Some(format) = self.source.compression {
            reject_bomb(&self.path, format, self.text_bytes, self.bytes_read())?;
        }
        let (file, format, null_rows, wiki) = (self.file, self.format, Vec::new(), None);
        Ok(Some(Block { file, format, first_line, bytes, row_ends, null_rows, wiki, ends_file: self.done }))
    }

    /// Returns the manifest entry of the file; valid after the last block.
    pub(super) fn entry(&self) -> InputEntry {
        InputEntry {
            path: self.path.to_string_lossy().into_owned(),
            bytes: self.source.bytes_read(),
            format: self.format,
            lines: self.rows_read,
            dump: None,
            blake3: self.source.digest(),
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    /// Returns the number of ignored bytes after compressed data.
    pub(super) fn ignored(&self) -> u64 {
        self.source.ignored()
    }

    /// Returns the number of rows read.
    pub(super) fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// Rejects a file that ends within a quoted field, which then usually spans most of the file.
    fn reject_open_quote(&self) -> Result<()> {
        match self.many_lines {
            Some(line) if self.knows_quotes && self.limits.quotes() % 2 == 1 => {
                Err(InputProblem::OpenQuote.at_line(&self.path, line).into())
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, error: csv::Error) -> crate::Error {
        let row = self.rows_read + 1;
        match error.into_kind() {
            ErrorKind::Io(error) if error.get_ref().is_some_and(|error| error.is::<TooLong>()) => {
                InputProblem::RowTooLong { row, limit: MAX_LINE_BYTES }.located(&self.path).into()
            }
            ErrorKind::Io(error) => self.source.damaged(&self.path, error),
            ErrorKind::UnequalLengths { pos, expected_len: expected, len: found } => {
                let line = pos.map_or(row, |pos| pos.line());
                InputProblem::Fields { found, expected }.at_line(&self.path, line).into()
            }
            other => self.source.damaged(&self.path, io::Error::other(format!("{other:?}"))),
        }
    }
}

/// Returns a field without its outer quotes if its inner quotes are doubled, as pandas and DuckDB write them.
fn unquoted(field: &[u8]) -> Cow<'_, [u8]> {
    let inside = field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).unwrap_or_default();
    let inside = String::from_utf8_lossy(inside);
    let single = inside.replace("\"\"", "\"");
    if inside.len() > single.len() && !inside.replace("\"\"", "").contains('"') {
        single.into_bytes().into()
    } else {
        field.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsv_fields_lose_only_doubled_quotes() {
        let unquoted = |field: &str| String::from_utf8(unquoted(field.as_bytes()).into_owned()).unwrap();
        assert_eq!(unquoted("\"He said \"\"no\"\"\""), "He said \"no\"");
        for field in ["", "\"", "\"\"", "\"Hello\"", "5\" disk", "\"a\"\"b\" c\"", "\"No", "no\""] {
            assert_eq!(unquoted(field), field);
        }
    }
}
