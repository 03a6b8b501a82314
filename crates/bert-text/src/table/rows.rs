//! Reads several columns of a table as text and values, row by row: files of labelled examples and new texts.
//!
//! The text of CSV, TSV and JSON may come from a pipe. Corpora are read in blocks instead
//! ([`InputReader`](super::InputReader)), with the same parsers.

use std::io::{BufRead, Cursor, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::columns::{ColumnPlace, column_names};
use super::fields::FieldParser;
use super::lines::{LineReader, MAX_LINE_BYTES};
use crate::bytes::decompress::HEAD;
use crate::error::{Error, Result};
use crate::json::values::JsonValues;
use crate::json::{Repaired, repaired};
use crate::parquet::text_rows::TextRows;
use crate::recognize::{Head, is_json_lines, separator_of_csv};

/// The format of a file of texts or examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum TextFormat {
    /// One text per line.
    Text,
    /// Tab-separated, with a header that names the columns, or one or two texts per line.
    Tsv,
    /// Comma-separated with a header, quoted as in RFC 4180.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// Parquet with text columns.
    Parquet,
}

impl TextFormat {
    /// Returns the format for a file extension: `.tsv`; `.csv`; `.jsonl`, `.ndjson` and `.json`; `.parquet`; otherwise
    /// [`Self::Text`].
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        let end = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match end.as_str() {
            "tsv" => Self::Tsv,
            "csv" => Self::Csv,
            "jsonl" | "ndjson" | "json" => Self::Jsonl,
            "parquet" => Self::Parquet,
            _ => Self::Text,
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The first line of the row; in JSON over several lines and in Parquet the number of the row, from 1.
    pub line: u64,
    /// The values of the row.
    pub values: RowValues,
}

/// The values of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowValues {
    /// One for each column; `None` for a null, and for a column of Parquet that is not selected.
    Fields(Vec<Option<String>>),
    /// A JSON object.
    Object(Map<String, Value>),
}

/// The names of the columns of a table, or the values of its first row if it has no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The line of the names; 1 in Parquet.
    pub line: u64,
    /// The fields of the line without surrounding white space.
    pub names: Vec<String>,
}

/// Reader of a table.
pub struct TableReader {
    path: PathBuf,
    rows: Rows,
    /// The first row, if `next_row` still has to return it.
    first: Option<Row>,
}

type Text = Box<dyn BufRead>;

enum Rows {
    Separated { parser: FieldParser, text: LineReader<Text>, line: Vec<u8> },
    Json(LineReader<Text>),
    Parquet(TextRows),
}

impl TableReader {
    /// Returns a reader of a text in the format CSV, TSV or JSON; errors name `path`.
    ///
    /// # Errors
    /// Fails when the beginning of the text cannot be read.
    pub fn new(path: &Path, format: TextFormat, mut text: Text) -> Result<Self> {
        let mut head = Vec::new();
        text.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(Error::io("read", path))?;
        let start = String::from_utf8_lossy(&head);
        let start = Head::new(&start, head.len() < HEAD);
        let rows = if format == TextFormat::Jsonl {
            let is_lines = is_json_lines(&start);
            let text: Text = Box::new(Cursor::new(head).chain(text));
            let text: Text = if is_lines { text } else { Box::new(JsonValues::new(text)) };
            Rows::Json(LineReader::new(text, path))
        } else {
            let separator = if format == TextFormat::Tsv { b'\t' } else { separator_of_csv(&start) };
            let (parser, skipped) = FieldParser::detect(&head, separator);
            let text: Text = Box::new(Cursor::new(head.split_off(skipped)).chain(text));
            let text = LineReader::new(text, path).after_lines(parser.line - 1);
            Rows::Separated { parser, text, line: Vec::new() }
        };
        Ok(Self { path: path.to_owned(), rows, first: None })
    }

    /// Opens a Parquet file.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or when it is not a Parquet file, is damaged or uses features that this
    /// program cannot read.
    pub fn parquet(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), rows: Rows::Parquet(TextRows::open(path)?), first: None })
    }

    /// Returns the header; `None` for JSON, whose rows have names, and for an empty file.
    ///
    /// # Errors
    /// Fails as [`Self::next_row`] does.
    pub fn header(&mut self) -> Result<Option<Header>> {
        match &self.rows {
            Rows::Json(_) => return Ok(None),
            Rows::Parquet(rows) => return Ok(Some(Header { line: 1, names: rows.names().to_vec() })),
            Rows::Separated { .. } => self.first = self.read_row()?,
        }
        Ok(self.first.as_ref().and_then(|row| match &row.values {
            RowValues::Fields(fields) => {
                Some(Header { line: row.line, names: column_names(fields.iter().flatten().cloned()) })
            }
            RowValues::Object(_) => None,
        }))
    }

    /// Selects the columns to read from a Parquet file. The first row of separated values is not read again if all
    /// columns were found by their names in it.
    ///
    /// # Errors
    /// Fails when a Parquet file cannot be read, or when one of its columns has values other than text, numbers and
    /// truth values.
    pub fn select(&mut self, columns: &[ColumnPlace]) -> Result<()> {
        if columns.iter().all(|place| place.first_row_is_header) {
            self.first = None;
        }
        match &mut self.rows {
            Rows::Parquet(rows) => rows.select(&columns.iter().map(|place| place.index).collect::<Vec<_>>()),
            _ => Ok(()),
        }
    }

    /// Returns the word for the separator of the fields in messages.
    #[must_use]
    pub fn separator(&self) -> &'static str {
        match &self.rows {
            Rows::Separated { parser, .. } => match parser.separator {
                b'\t' => "tab",
                b';' => "semicolon",
                b'|' => "bar",
                _ => "comma",
            },
            _ => "comma",
        }
    }

    /// Returns the next row; blank lines are not rows.
    ///
    /// # Errors
    /// Fails when a quote is not closed or not allowed, when a row is not a JSON object, when a Parquet file cannot be
    /// read or has a text that is not UTF-8, or when [`LineReader::next_line`] fails.
    pub fn next_row(&mut self) -> Result<Option<Row>> {
        match self.first.take() {
            None => self.read_row(),
            first => Ok(first),
        }
    }

    fn read_row(&mut self) -> Result<Option<Row>> {
        let path = &self.path;
        match &mut self.rows {
            Rows::Parquet(rows) => {
                let values = rows.next_values()?;
                Ok(values.map(|values| Row { line: rows.rows_read(), values: RowValues::Fields(values) }))
            }
            Rows::Json(lines) => {
                while let Some((line, text)) = lines.next_line()? {
                    if text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').is_empty() {
                        continue;
                    }
                    let object = object(text);
                    let object = object.map_err(|source| {
                        Error::data(format!("not a JSON object: {source}")).at_line(path, line)
                    })?;
                    return Ok(Some(Row { line, values: RowValues::Object(object) }));
                }
                Ok(None)
            }
            Rows::Separated { parser, text, line } => {
                if !fields(parser, text, line, path)? {
                    return Ok(None);
                }
                let values = RowValues::Fields(parser.texts().map(Some).collect());
                Ok(Some(Row { line: parser.row_line, values }))
            }
        }
    }
}

/// Reads the fields of the next row into the parser; returns whether there is one. `line` contains the bytes of the
/// last line that are not parsed yet.
fn fields(
    parser: &mut FieldParser,
    text: &mut LineReader<Text>,
    line: &mut Vec<u8>,
    path: &Path,
) -> Result<bool> {
    loop {
        let taken = parser.take(line);
        line.drain(..taken.unwrap_or(line.len()));
        let next = if taken.is_none() { text.next_line()? } else { None };
        let is_end = taken.is_none() && next.is_none();
        let is_row = taken.is_some() || is_end && parser.finish();
        let is_too_long = parser.is_in_quotes() && parser.row_size > MAX_LINE_BYTES;
        if let Some(line) = parser.open_quote.or_else(|| is_too_long.then_some(parser.row_line)) {
            return Err(Error::data("the quote that begins a field here is never closed").at_line(path, line));
        }
        if let Some(line) = parser.stray_quote {
            return Err(Error::data(
                "a quote inside an unquoted field; put the whole field in quotes and double the quotes inside it",
            )
            .at_line(path, line));
        }
        if is_row || is_end {
            return Ok(is_row);
        }
        if let Some((_, text)) = next {
            line.extend_from_slice(text.as_bytes());
            line.push(b'\n');
        }
    }
}

/// Parses a JSON object, with the leniency of Python's `json`. Half of a surrogate pair is an error.
fn object(json: &str) -> serde_json::Result<Map<String, Value>> {
    serde_json::from_str(json).or_else(|error| match repaired(json) {
        Repaired { json, half_pair: false } => serde_json::from_str(&json).map_err(|_| error),
        _ => Err(error),
    })
}
