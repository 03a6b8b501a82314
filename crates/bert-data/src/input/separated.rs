//! Reads CSV and TSV tables: one document in a column of each row.
//!
//! The crate `csv` parses them: a quoted field may contain separators and line ends. A row with another number of fields
//! than the first is rejected, because its text could come from the wrong column. Fields of TSV are quoted only if the
//! first bytes of the file show it; else a field loses its outer quotes if its inner quotes are doubled.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bert_storage::did_you_mean;
use csv::{ByteRecord, ErrorKind};

use super::blocks::reject_bomb;
use super::bytes::decompress::Source;
use super::bytes::limited::{AHEAD, Limited, Limits, TooLong};
use super::bytes::quotes::Quotes;
use super::json::listed;
use super::recognize::are_column_names;
use super::{BLOCK, Block, Format, InputEntry, MAX_LINE_BYTES};
use crate::config::recorded_name;
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
    /// The first row, if the first line is not a header.
    first_row: Option<ByteRecord>,
    /// Number of lines before the table, which are comments.
    comments: u64,
}

/// Returns the number of lines, and of their bytes, at the beginning of a table that are comments.
fn leading_comments(head: &[u8], separator: u8) -> (u64, usize) {
    let is_comment =
        |line: &&[u8]| line.starts_with(b"#") && line.ends_with(b"\n") && !line.contains(&separator);
    let comments = head.split_inclusive(|&byte| byte == b'\n').take_while(is_comment);
    comments.fold((0, 0), |(lines, bytes), line| (lines + 1, bytes + line.len()))
}

/// Returns whether the fields of a table are quoted: always in CSV; in TSV if the header is quoted, or if all quoted
/// fields of several lines at its beginning are closed, as pandas and Python's `csv` write them.
fn knows_quotes(head: &[u8], separator: u8, quotes: Quotes) -> bool {
    separator != b'\t'
        || head.starts_with(b"\"")
        || quotes.long_fields() > 0 && quotes.unclosed(false).is_none()
}

impl SeparatedReader {
    /// Reads the first row and finds the text column, by its name or its number from 1.
    ///
    /// # Errors
    /// [`InputProblem::Column`] if there is no such column; the errors of [`Self::next_block`].
    pub(super) fn new(
        path: &Path,
        file: usize,
        mut source: Source,
        separator: u8,
        column: &str,
    ) -> Result<Self> {
        let head = source.head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&source.head);
        let (comments, skipped) = leading_comments(head, separator);
        let mut quotes = Quotes::new(separator, 1);
        quotes.follow(&head[skipped..]);
        let knows_quotes = knows_quotes(&head[skipped..], separator, quotes);
        let escapes = quotes.are_escaped();
        let mut limits = Limits::new(MAX_LINE_BYTES);
        if knows_quotes {
            limits = limits.with_quotes(Quotes::new(separator, comments + 1).with_escapes(escapes));
        }
        let before = source.head.len() - head.len() + skipped;
        let mut text = source.take_text();
        if skipped > 0 {
            let read = io::copy(&mut text.by_ref().take(before as u64), &mut io::sink());
            read.map_err(|error| source.damaged(path, error))?;
        }
        let rows = csv::ReaderBuilder::new()
            .delimiter(separator)
            .quoting(knows_quotes)
            .escape(escapes.then_some(b'\\'))
            .buffer_capacity(AHEAD)
            .has_headers(false)
            .from_reader(Limited::new(text, limits.clone()));
        let format = if separator == b'\t' { Format::Tsv } else { Format::Csv };
        let mut reader = Self {
            path: path.to_owned(),
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
            first_row: None,
            comments,
        };
        reader.find_column(column)?;
        Ok(reader)
    }

    /// Reads the first row and finds the text column.
    fn find_column(&mut self, column: &str) -> Result<()> {
        self.limits.begin_row();
        let mut first = ByteRecord::new();
        if !self.rows.read_byte_record(&mut first).map_err(|error| self.failed(error))? {
            // An empty file has no rows and needs no columns.
            return Ok(());
        }
        let names: Vec<String> = first
            .iter()
            .map(|name| String::from_utf8_lossy(name).trim_start_matches('\u{feff}').trim().to_owned())
            .collect();
        if let Some(found) = names.iter().position(|name| name == column) {
            self.column = found;
            return Ok(());
        }
        let is_header = are_column_names(&names);
        if let Some(number) = column.parse().ok().filter(|number| (1..=names.len()).contains(number)) {
            self.column = number - 1;
            // A name of one word is the name of the column, even if the column is given by its number.
            let has_name = is_header && !names[self.column].contains(' ');
            self.first_row = Some(first).filter(|_| !has_name);
            return Ok(());
        }
        let similar = did_you_mean(column, names.iter().map(String::as_str));
        let found = if is_header || names.len() == 1 {
            format!("missing (columns of its first line: {}{similar})", listed(&names))
        } else {
            let longest = (0..names.len()).max_by_key(|&at| names[at].len()).unwrap_or_default() + 1;
            format!(
                "missing, and the first line is no header ({}): give the column by its number, such as --text-column {longest}",
                listed(&names)
            )
        };
        let (column, expected) =
            (column.to_owned(), "text: this is a table of separated values (see --text-column)");
        Err(InputProblem::Column { column, found, expected }.located(&self.path).into())
    }

    /// Reads the next row; returns whether there was one.
    fn read_row(&mut self, record: &mut ByteRecord) -> Result<bool> {
        if let Some(first) = self.first_row.take() {
            *record = first;
            return Ok(true);
        }
        self.limits.begin_row();
        let is_row = self.rows.read_byte_record(record).map_err(|error| self.failed(error))?;
        let quotes = self.limits.quotes();
        match quotes.and_then(|quotes| quotes.unclosed(!is_row)) {
            Some(line) => Err(InputProblem::OpenQuote.at_line(&self.path, line).into()),
            None => Ok(is_row),
        }
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
        let mut bytes = Vec::new();
        let mut row_ends = Vec::new();
        let mut record = ByteRecord::new();
        while bytes.len() < BLOCK && row_ends.len() < ROWS {
            if !self.read_row(&mut record)? {
                self.done = true;
                break;
            }
            let text = record.get(self.column).unwrap_or_default();
            bytes.extend_from_slice(&if self.knows_quotes { Cow::Borrowed(text) } else { unquoted(text) });
            row_ends.push(bytes.len());
            self.rows_read += 1;
        }
        self.text_bytes += bytes.len() as u64;
        if let Some(format) = self.source.compression {
            reject_bomb(&self.path, format, self.text_bytes, self.bytes_read())?;
        }
        Ok(Some(Block {
            file: self.file,
            format: self.format,
            first_line,
            bytes,
            row_ends,
            ends_file: self.done,
            ..Block::default()
        }))
    }

    /// Returns the manifest entry of the file; valid after the last block.
    pub(super) fn entry(&self) -> InputEntry {
        InputEntry {
            path: recorded_name(&self.path),
            bytes: self.source.bytes_read(),
            format: self.format,
            lines: self.rows_read,
            dump: None,
            blake3: self.source.digest(),
        }
    }

    pub(super) fn format(&self) -> Format {
        self.format
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

    fn failed(&self, error: csv::Error) -> crate::Error {
        let row = self.rows_read + 1;
        match error.into_kind() {
            ErrorKind::Io(error) if error.get_ref().is_some_and(|error| error.is::<TooLong>()) => {
                InputProblem::RowTooLong { row, limit: MAX_LINE_BYTES }.located(&self.path).into()
            }
            ErrorKind::Io(error) => self.source.damaged(&self.path, error),
            ErrorKind::UnequalLengths { pos, expected_len: expected, len: found } => {
                let line = pos.map_or(row, |pos| pos.line() + self.comments);
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
