//! Reads tables: JSON, Parquet, CSV and TSV.
//!
//! A row is a document of a corpus, an example of a task, or a new text. [`InputReader`] reads the text column of
//! corpora, which come from `datasets` and from exports of Wikipedia, as [`Block`]s in bounded memory, and every other
//! kind of input too. [`TableReader`] reads several columns row by row. Both use the same parser of separated values
//! (`fields.rs`), the same rules for names and numbers of columns (`columns.rs`), and the same leniency for JSON.
//! [`json_text`] returns the text of a JSON row. The reference reads plain text only.

mod columns;
mod fields;
mod lines;
mod parquet_rows;
mod rows;
mod separated;
mod text_column;

use std::path::{Path, PathBuf};

use bert_storage::digest_file;

pub use crate::json::json_text;
pub use columns::{ColumnLookup, ColumnPlace, find_column, value_at};
pub use lines::LineReader;
pub use rows::{Header, Row, RowValues, TableReader, TextFormat};

use parquet_rows::RowReader;
use separated::SeparatedRows;

use crate::blocks::{RowBlocks, RowFile};
use crate::bytes::decompress::HEAD;
use crate::bytes::file_range::{FileRange, RangeDigests, SharedRange};
use crate::dump::articles;
use crate::error::Result;
use crate::line_check::LineCheck;
use crate::open_input::OpenInput;
use crate::reading::{TEXT_COLUMN, recorded_name};
use crate::recognize::Layout;
use crate::remarks::{Remark, Remarks};
use crate::texts::TextRules;
use crate::{Block, BlockReader, Format, InputEntry, Reading, each_file};

/// Returns the format of each file. One error names all rejected files.
///
/// # Errors
/// Fails when [`Format::detect`] fails, when the first lines of a file are not UTF-8, or when a table has no text
/// column.
pub fn recognized(files: &[PathBuf], rules: TextRules<'_>) -> Result<Vec<Format>> {
    each_file(files, |path| {
        let input = OpenInput::open(path, rules.reading)?;
        if input.layout == Layout::Lines {
            let source = &input.source;
            LineCheck::check_head(&source.head, source.head.len() < HEAD, path, rules.bad_lines)?;
        }
        let format = input.format();
        // A table without the text column is rejected too.
        if matches!(format, Format::Parquet | Format::Csv | Format::Tsv) {
            InputReader::open_with(path, 0, rules.reading)?;
        }
        Ok(format)
    })
}

/// A reader that divides an input file of any format into blocks.
pub enum InputReader {
    /// A file of lines: text or JSON.
    Lines(BlockReader),
    /// A Parquet file.
    Parquet(RowReader),
    /// A file of comma- or tab-separated values, a Wikipedia dump, or the output of WikiExtractor.
    Rows(Box<RowBlocks>),
}

impl InputReader {
    /// Opens a file; `file` is its index in the list, and `text_column` is the text column of tables except JSON.
    ///
    /// # Errors
    /// Fails when [`Format::detect`] fails, when the head of a table cannot be read, or when its text column is missing
    /// or has a different type.
    pub fn open(path: &Path, file: usize, text_column: &str) -> Result<Self> {
        Self::open_with(path, file, Reading { text_column, ..Reading::default() })
    }

    /// Opens a file that is recognized and read with these options; `file` is its index in the list.
    ///
    /// # Errors
    /// Fails as [`InputReader::open`] does.
    pub fn open_with(path: &Path, file: usize, reading: Reading<'_>) -> Result<Self> {
        let text_column = reading.text_column;
        let OpenInput { source, layout } = OpenInput::open(path, reading)?;
        Ok(match layout {
            Layout::Parquet => Self::Parquet(RowReader::open(path, file, text_column)?),
            Layout::Lines => Self::Lines(BlockReader::new(path, file, Format::Text, source)),
            Layout::JsonLines => Self::Lines(BlockReader::new(path, file, Format::Jsonl, source)),
            Layout::JsonValues => Self::Lines(BlockReader::from_values(path, file, source)),
            Layout::Form(format) => {
                Self::Lines(BlockReader::with_form(path, file, source, format, reading.line_breaks))
            }
            Layout::Articles(format) => {
                let mut open = RowFile::new(path, source);
                let rows = articles(&mut open.source, format);
                Self::Rows(Box::new(RowBlocks::new(file, open, rows)))
            }
            Layout::Separated(by) => {
                let mut open = RowFile::new(path, source);
                let rows = SeparatedRows::open(&mut open, by, text_column)?;
                Self::Rows(Box::new(RowBlocks::new(file, open, Box::new(rows))))
            }
        })
    }

    /// Opens a range of a divided file; `file` is its index in the list.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub fn open_range(path: &Path, file: usize, range: FileRange) -> Result<Self> {
        BlockReader::open_range(path, file, range).map(Self::Lines)
    }

    /// Returns the digests of a range; they are complete after the last block.
    pub fn range_digests(&self) -> Option<RangeDigests> {
        match self {
            Self::Lines(reader) => reader.range.as_ref().map(SharedRange::digests),
            _ => None,
        }
    }

    /// Returns the next block, or `None` after the last block of the file.
    ///
    /// # Errors
    /// Fails when [`BlockReader::next_block`] fails, or when a row cannot be read; the error names the row.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        match self {
            Self::Lines(reader) => reader.next_block(),
            Self::Parquet(reader) => reader.next_block(),
            Self::Rows(reader) => reader.next_block(),
        }
    }

    /// Returns the manifest entry of the file, which is complete after the last block. The entry of a range has no
    /// digest.
    ///
    /// # Errors
    /// Fails when a Parquet file cannot be read again for its digest.
    pub fn entry(&self) -> Result<InputEntry> {
        let blake3 = match self {
            Self::Lines(reader) if reader.range.is_some() => String::new(),
            Self::Lines(reader) => reader.source.digest(),
            Self::Parquet(reader) => digest_file(&reader.path)?,
            Self::Rows(reader) => reader.file.source.digest(),
        };
        Ok(InputEntry { blake3, ..self.description() })
    }

    /// Returns the manifest entry of the file without its digest; it is complete after the last block.
    pub fn description(&self) -> InputEntry {
        let (path, format, lines, dump) = match self {
            Self::Lines(reader) => (&reader.path, reader.format, reader.next_line - 1, None),
            Self::Parquet(reader) => (&reader.path, Format::Parquet, reader.rows_read, None),
            Self::Rows(reader) => {
                (&reader.file.path, reader.rows.format(), reader.file.rows_read, reader.rows.pages())
            }
        };
        let path = recorded_name(path);
        InputEntry { path, bytes: self.bytes_read(), format, lines, dump, blake3: String::new() }
    }

    /// Returns the number of bytes of the file that were read for the blocks so far; for Parquet, in proportion to the
    /// rows.
    pub fn bytes_read(&self) -> u64 {
        match self {
            Self::Lines(reader) => reader.bytes_read(),
            Self::Parquet(reader) => reader.bytes_read(),
            Self::Rows(reader) => reader.file.source.bytes_read(),
        }
    }

    /// Returns the remarks on the file, once the last block is read; `text_column` is the requested column.
    pub fn remarks(&self, path: &Path, text_column: &str) -> Remarks {
        let mut remarks = Remarks::default();
        match self {
            Self::Lines(reader) => {
                remarks.add_count(Remark::IgnoredBytes, path, reader.source.ignored());
                if let Some(counts) = reader.form_counts() {
                    remarks.add_form(reader.format, path, counts);
                }
            }
            Self::Parquet(_) => {}
            Self::Rows(reader) => {
                remarks.add_count(Remark::IgnoredBytes, path, reader.file.source.ignored());
                // A user who names a column knows that the file is a table.
                let is_table = reader.rows.format().has_columns() && text_column == TEXT_COLUMN;
                remarks.add_count(Remark::Table, path, if is_table { reader.file.rows_read } else { 0 });
            }
        }
        remarks
    }
}
