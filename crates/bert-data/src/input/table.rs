//! Reads tables of text: JSON, Parquet, CSV and TSV, where one row is one document.
//!
//! Such files come from `datasets` and from exports of Wikipedia. Only the text column is read. [`InputReader`] reads
//! every kind of input as [`Block`]s in bounded memory. [`json_text`] returns the text of a JSON row. The reference
//! reads plain text only.

use std::path::{Path, PathBuf};

use arrow_array::Array;
use parquet::arrow::ProjectionMask;
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

pub use crate::input::json::json_text;

use crate::config::{TEXT_COLUMN, recorded_name};
use crate::error::{Error, InputProblem, Locate, Result};
use crate::input::blocks::reject_bomb;
use crate::input::bytes::file_range::{FileRange, RangeDigests};
use crate::input::dump::ArticleReader;
use crate::input::recognize::Layout;
use crate::input::remarks::{Remark, Remarks};
use crate::input::separated::SeparatedReader;
use crate::input::text_column::TextColumn;
use crate::input::{BLOCK, Block, BlockReader, Format, InputEntry, OpenInput, Reading};
use crate::parquet::open::{Batches, ParquetFile};
use bert_storage::{digest_file, open_file};

/// Number of rows decoded at a time; an article has a few kilobytes.
const ROWS: usize = 64;
/// Maximum number of rows of a block, reached if rows are short or null.
const ROWS_OF_BLOCK: usize = 1 << 16;
/// Maximum number of bytes that a decoded batch may produce: fewer rows are decoded at a time if pages are large,
/// because a row may be as large as its page.
const BYTES: u64 = 256 << 20;

/// Reader of one input file of any format as blocks.
pub enum InputReader {
    /// A file of lines: text or JSON.
    Lines(BlockReader),
    /// A Parquet file.
    Rows(RowReader),
    /// A file of comma- or tab-separated values.
    Separated(Box<SeparatedReader>),
    /// A Wikipedia dump, or the output of WikiExtractor.
    Articles(Box<ArticleReader>),
}

impl InputReader {
    /// Opens a file; `file` is its index in the list, `text_column` the text column of tables except JSON.
    ///
    /// # Errors
    /// The errors of [`Format::detect`] and [`RowReader::open`]; [`InputProblem::Column`].
    pub fn open(path: &Path, file: usize, text_column: &str) -> Result<Self> {
        Self::open_with(path, file, Reading { text_column, ..Reading::default() })
    }

    /// Opens a file that is recognized and read with these options; `file` is its index in the list.
    ///
    /// # Errors
    /// As [`InputReader::open`].
    pub fn open_with(path: &Path, file: usize, reading: Reading<'_>) -> Result<Self> {
        let text_column = reading.text_column;
        let (source, layout) = match OpenInput::open(path, reading)? {
            OpenInput::Parquet => return RowReader::open(path, file, text_column).map(Self::Rows),
            OpenInput::Articles(source, kind) => {
                return Ok(Self::Articles(Box::new(ArticleReader::new(path, file, *source, kind))));
            }
            OpenInput::Text(source, layout) => (*source, layout),
        };
        Ok(match layout {
            Layout::Lines => Self::Lines(BlockReader::new(path, file, Format::Text, source)),
            Layout::JsonLines => Self::Lines(BlockReader::new(path, file, Format::Jsonl, source)),
            Layout::JsonValues => Self::Lines(BlockReader::from_values(path, file, source)),
            Layout::Form(form) => Self::Lines(BlockReader::with_form(path, file, source, form)),
            Layout::Separated(by) => {
                Self::Separated(Box::new(SeparatedReader::new(path, file, source, by, text_column)?))
            }
        })
    }

    /// Opens a range of a divided file; `file` is its index in the list.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub(crate) fn open_range(path: &Path, file: usize, range: FileRange) -> Result<Self> {
        BlockReader::open_range(path, file, range).map(Self::Lines)
    }

    /// Returns the digests of a range; valid after the last block.
    pub(crate) fn range_digests(&self) -> Option<RangeDigests> {
        match self {
            Self::Lines(reader) => reader.range_digests(),
            _ => None,
        }
    }

    /// Returns the next block, or `None` after the last block of the file.
    ///
    /// # Errors
    /// The errors of [`BlockReader::next_block`] and [`RowReader::next_block`].
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        match self {
            Self::Lines(reader) => reader.next_block(),
            Self::Rows(reader) => reader.next_block(),
            Self::Separated(reader) => reader.next_block(),
            Self::Articles(reader) => reader.next_block(),
        }
    }

    /// Returns the manifest entry of the file; valid after the last block.
    ///
    /// # Errors
    /// [`Error::Storage`] when a Parquet file cannot be read again for its digest.
    pub fn entry(&self) -> Result<InputEntry> {
        match self {
            Self::Lines(reader) => Ok(reader.entry()),
            Self::Rows(reader) => reader.entry(),
            Self::Separated(reader) => Ok(reader.entry()),
            Self::Articles(reader) => Ok(reader.entry()),
        }
    }

    /// Returns the manifest entry of the file without its size and digest; valid after the last block.
    pub(crate) fn description(&self) -> InputEntry {
        let (format, lines, dump) = match self {
            Self::Lines(reader) => (reader.format(), 0, None),
            Self::Rows(_) => (Format::Parquet, 0, None),
            Self::Separated(reader) => (reader.format(), 0, None),
            Self::Articles(reader) => (reader.format(), reader.rows_read(), reader.pages()),
        };
        InputEntry { path: String::new(), bytes: 0, format, lines, dump, blake3: String::new() }
    }

    /// Returns the number of bytes of the file behind the blocks so far; for Parquet, in proportion to the rows.
    pub fn bytes_read(&self) -> u64 {
        match self {
            Self::Lines(reader) => reader.bytes_read(),
            Self::Rows(reader) => reader.bytes_read(),
            Self::Separated(reader) => reader.bytes_read(),
            Self::Articles(reader) => reader.bytes_read(),
        }
    }

    /// Returns the remarks on the file, once the last block is read; `text_column` is the requested column.
    pub(crate) fn remarks(&self, path: &Path, text_column: &str) -> Remarks {
        let mut remarks = Remarks::default();
        match self {
            Self::Lines(reader) => {
                remarks.add_count(Remark::IgnoredBytes, path, reader.ignored());
                if let Some(counts) = reader.form_counts() {
                    remarks.add_form(reader.format(), path, counts);
                }
            }
            Self::Rows(_) => {}
            Self::Articles(reader) => remarks.add_count(Remark::IgnoredBytes, path, reader.ignored()),
            Self::Separated(reader) => {
                remarks.add_count(Remark::IgnoredBytes, path, reader.ignored());
                // A user who names a column knows that the file is a table.
                let rows = if text_column == TEXT_COLUMN { reader.rows_read() } else { 0 };
                remarks.add_count(Remark::Table, path, rows);
            }
        }
        remarks
    }
}

/// Reader of the text column of a Parquet file as blocks.
pub struct RowReader {
    path: PathBuf,
    file: usize,
    batches: Batches,
    /// `None` if the file has no rows and no column of text.
    column: Option<TextColumn>,
    bytes: u64,
    rows: u64,
    rows_read: u64,
    text_bytes: u64,
    done: bool,
}

impl RowReader {
    /// Opens a file and finds its text column.
    ///
    /// # Errors
    /// [`Error::Storage`], [`InputProblem::Parquet`], [`InputProblem::Column`], [`InputProblem::Codec`].
    pub fn open(path: &Path, file: usize, column: &str) -> Result<Self> {
        let source = open_file(path).map_err(Error::io("open", path))?;
        let bytes = source.metadata().map_err(Error::io("read", path))?.len();
        let unreadable = |source| InputProblem::Parquet(source).located(path);
        // A column of this name, or a path such as `doc.text`.
        let is_root = |root: &str| {
            column.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let ParquetFile { builder, largest_page } = ParquetFile::open(source, is_root).map_err(unreadable)?;
        let groups = builder.metadata().row_groups();
        let counts = groups.iter().map(|group| group.num_rows().max(0) as u64);
        let rows = counts.fold(0, u64::saturating_add);
        let found = match TextColumn::find(builder.schema().fields(), column) {
            // A writer without rows may have chosen any type.
            Err(_) if rows == 0 => None,
            found => Some(found.map_err(|problem| problem.located(path))?),
        };
        let mask = match &found {
            Some(_) => ProjectionMask::columns(builder.parquet_schema(), [column]),
            None => ProjectionMask::none(builder.parquet_schema().num_columns()),
        };
        let is_lzo = |chunk: &ColumnChunkMetaData| {
            chunk.column_path().parts().first().is_some_and(|root| is_root(root))
                && chunk.compression() == Compression::LZO
        };
        if groups.iter().flat_map(|group| group.columns()).any(is_lzo) {
            return Err(InputProblem::Codec("lzo").located(path).into());
        }
        let at_once = (BYTES / largest_page.max(1)).clamp(1, ROWS as u64) as usize;
        let builder = builder.with_projection(mask).with_batch_size(at_once);
        let batches = Batches::new(builder).map_err(unreadable)?;
        let path = path.to_owned();
        Ok(Self { path, file, batches, column: found, bytes, rows, rows_read: 0, text_bytes: 0, done: false })
    }

    /// Returns the next block of whole rows, or `None` after the last block of the file.
    ///
    /// # Errors
    /// [`InputProblem::Batch`], [`InputProblem::RowTooLong`], [`InputProblem::RowNotUtf8`], [`InputProblem::Bomb`].
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let first_line = self.rows_read + 1;
        let mut bytes = Vec::new();
        let mut row_ends = Vec::new();
        let mut null_rows = Vec::new();
        while bytes.len() < BLOCK && row_ends.len() < ROWS_OF_BLOCK {
            let Some(batch) = self.batches.next() else {
                self.done = true;
                self.check_rows()?;
                break;
            };
            let path = &self.path;
            let rows = self.rows_read;
            let batch = batch.map_err(|source| InputProblem::Batch(rows, source).located(path))?;
            // Without columns, the batch has no text.
            let (Some(root), Some(column)) = (batch.columns().first(), &self.column) else { continue };
            for at in 0..root.len() {
                let start = bytes.len();
                let text = column.append(root, at, &mut bytes);
                let text = text.map_err(|problem| problem.in_row(rows + at as u64 + 1).located(path))?;
                if !text {
                    null_rows.push(row_ends.len());
                }
                self.text_bytes += (bytes.len() - start) as u64;
                row_ends.push(bytes.len());
            }
            self.rows_read += root.len() as u64;
            reject_bomb(&self.path, "Parquet", self.text_bytes, self.bytes)?;
        }
        Ok(Some(Block {
            file: self.file,
            format: Format::Parquet,
            first_line,
            bytes,
            row_ends,
            null_rows,
            lists: self.column.as_ref().is_some_and(TextColumn::has_lists),
            wiki: None,
            ends_file: self.done,
        }))
    }

    /// Compares the number of rows with the number in the footer.
    fn check_rows(&self) -> Result<()> {
        let found = self.rows_read;
        let expected = self.rows;
        if self.column.is_some() && found != expected {
            return Err(InputProblem::RowCount { found, expected }.located(&self.path).into());
        }
        Ok(())
    }

    fn entry(&self) -> Result<InputEntry> {
        Ok(InputEntry {
            path: recorded_name(&self.path),
            bytes: self.bytes,
            format: Format::Parquet,
            lines: self.rows_read,
            dump: None,
            blake3: digest_file(&self.path)?,
        })
    }

    fn bytes_read(&self) -> u64 {
        match self.rows {
            0 => self.bytes,
            rows => (u128::from(self.bytes) * u128::from(self.rows_read) / u128::from(rows)) as u64,
        }
    }
}
