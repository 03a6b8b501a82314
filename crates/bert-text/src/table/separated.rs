//! Reads CSV and TSV tables: one document in a column of each row.
//!
//! A row with a different number of fields than the first is rejected, because its text could come from the wrong
//! column.

use std::io::{self, BufRead, Read};

use bert_storage::did_you_mean;

use super::columns::{ColumnLookup, column_names, find_column};
use super::fields::FieldParser;
use crate::blocks::{NextRow, RowFile, RowSource};
use crate::error::{Error, Result, long_row, wrong_column};
use crate::json::listed;
use crate::recognize::are_column_names;
use crate::{Format, MAX_LINE_BYTES};

/// The text column of the rows of a CSV or TSV table.
pub(super) struct SeparatedRows {
    format: Format,
    text: Box<dyn BufRead + Send>,
    parser: FieldParser,
    /// Number of fields of the first row.
    fields: usize,
    /// Index of the text column.
    column: usize,
    /// Whether the parser still has the first row, which is not a header.
    has_first_row: bool,
}

impl SeparatedRows {
    /// Reads the first row and finds the text column, by its name or its number from 1.
    ///
    /// # Errors
    /// Fails when the file cannot be read, when the first row has an unclosed quote or is too long, or when the column
    /// is missing or occurs twice.
    pub(super) fn open(file: &mut RowFile, separator: u8, column: &str) -> Result<Self> {
        let (parser, skipped) = FieldParser::detect(&file.source.head, separator);
        let mut text = file.source.take_text();
        let read = io::copy(&mut text.by_ref().take(skipped as u64), &mut io::sink());
        read.map_err(|error| file.damaged(error))?;
        let format = if separator == b'\t' { Format::Tsv } else { Format::Csv };
        let mut rows = Self { format, text, parser, fields: 0, column: 0, has_first_row: false };
        // An empty file has no rows and needs no columns.
        if rows.parse_row(file)? {
            rows.fields = rows.parser.len();
            let found = rows.find_column(column);
            found.map_err(|problem| problem.at(&file.path))?;
        }
        Ok(rows)
    }

    /// Finds the text column in the first row.
    fn find_column(&mut self, column: &str) -> Result<(), Error> {
        let names = column_names(self.parser.texts());
        let is_header = are_column_names(&names);
        let (found, expected) = match find_column(&names, column) {
            ColumnLookup::Found(place) => {
                self.column = place.index;
                self.has_first_row = !place.first_row_is_header;
                return Ok(());
            }
            ColumnLookup::Twice => ("there twice".to_owned(), "text (see `.text_column`)"),
            ColumnLookup::Missing => {
                let similar = did_you_mean(column, names.iter().map(String::as_str));
                let found = if is_header || names.len() == 1 {
                    format!("missing (columns of its first line: {}{similar})", listed(&names))
                } else {
                    let longest = (0..names.len()).max_by_key(|&at| names[at].len()).unwrap_or_default() + 1;
                    format!(
                        "missing, and the first line is not a header ({}): give the column by its number, such as `.text_column {longest}`",
                        listed(&names)
                    )
                };
                (found, "text: this is a table of separated values (see `.text_column`)")
            }
        };
        Err(wrong_column(column, &found, expected))
    }

    /// Reads the next row into the parser; returns whether there was one.
    fn parse_row(&mut self, file: &RowFile) -> Result<bool> {
        if std::mem::take(&mut self.has_first_row) {
            return Ok(true);
        }
        loop {
            let (is_row, is_end) = match self.text.fill_buf() {
                Ok([]) => (self.parser.finish(), true),
                Ok(bytes) => {
                    let taken = self.parser.take(bytes);
                    let length = taken.unwrap_or(bytes.len());
                    self.text.consume(length);
                    (taken.is_some(), false)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(file.damaged(error)),
            };
            if let Some(line) = self.parser.open_quote {
                return Err(Error::data("the quote that begins a field here is never closed")
                    .at_line(&file.path, line));
            }
            if self.parser.row_size > MAX_LINE_BYTES {
                let problem = long_row(file.rows_read + 1, MAX_LINE_BYTES);
                return Err(problem.at(&file.path));
            }
            if is_row || is_end {
                return Ok(is_row);
            }
        }
    }
}

impl RowSource for SeparatedRows {
    fn next_row(&mut self, file: &RowFile, into: &mut Vec<u8>) -> Result<NextRow> {
        if !self.parse_row(file)? {
            return Ok(NextRow::End);
        }
        let found = self.parser.len() as u64;
        let expected = self.fields as u64;
        if found != expected {
            let line = self.parser.row_line;
            return Err(Error::data(format!(
                "{found} field(s), but the first row of this table has {expected}; put quotes around a field that \
                 contains the separator; tab-separated fields cannot contain tabs or line breaks"
            ))
            .at_line(&file.path, line));
        }
        into.extend_from_slice(self.parser.field(self.column));
        Ok(NextRow::Row)
    }

    fn format(&self) -> Format {
        self.format
    }
}
