//! Reads tables of text: JSON, Parquet, CSV and TSV, where one row is one document.
//!
//! Such files come from `datasets` and from exports of Wikipedia. Only the text column is read. [`InputReader`] reads
//! every kind of input as [`Block`]s in bounded memory. [`json_text`] returns the text of a JSON row. The reference
//! reads plain text only.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Fields};
use parquet::arrow::ProjectionMask;
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

pub use crate::input::json::json_text;

use crate::config::TEXT_COLUMN;
use crate::error::{Error, InputProblem, Locate, Result};
use crate::input::blocks::reject_bomb;
use crate::input::bytes::file_range::{FileRange, RangeDigests};
use crate::input::dump::ArticleReader;
use crate::input::recognize::Layout;
use crate::input::remarks::{Remark, Remarks};
use crate::input::separated::SeparatedReader;
use crate::input::{BLOCK, Block, BlockReader, Format, InputEntry, MAX_LINE_BYTES, OpenInput};
use crate::parquet::open::{Batches, ParquetFile};
use bert_storage::{did_you_mean, digest_file, open_file};

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
    /// The errors of [`Format::of`] and [`RowReader::open`]; [`InputProblem::Column`].
    pub fn open(path: &Path, file: usize, text_column: &str) -> Result<Self> {
        let (source, layout) = match OpenInput::of(path)? {
            OpenInput::Parquet => return RowReader::open(path, file, text_column).map(Self::Rows),
            OpenInput::Articles(source, kind) => {
                return Ok(Self::Articles(Box::new(ArticleReader::new(path, file, *source, kind))));
            }
            OpenInput::Text(source, layout) => (*source, layout),
        };
        Ok(match layout {
            Layout::Lines => Self::Lines(BlockReader::new(path, file, Format::Text, source)),
            Layout::JsonLines => Self::Lines(BlockReader::new(path, file, Format::Jsonl, source)),
            Layout::JsonValues => Self::Lines(BlockReader::of_values(path, file, source)),
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
            Self::Lines(reader) => remarks.add_count(Remark::IgnoredBytes, path, reader.ignored()),
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
        let ParquetFile { builder, largest_page } =
            ParquetFile::open(source, |root| root == column).map_err(unreadable)?;
        let groups = builder.metadata().row_groups();
        let rows = groups.iter().map(|group| group.num_rows().max(0) as u64).sum();
        let root = match check_column(builder.schema().fields(), column) {
            // A writer without rows may have chosen any type.
            Err(_) if rows == 0 => None,
            checked => {
                checked.map_err(|problem| problem.located(path))?;
                let roots = builder.parquet_schema().root_schema().get_fields();
                roots.iter().position(|root| root.name() == column)
            }
        };
        let mask = ProjectionMask::roots(builder.parquet_schema(), root);
        let is_lzo = |chunk: &ColumnChunkMetaData| {
            chunk.column_path().parts().first().is_some_and(|root| root == column)
                && chunk.compression() == Compression::LZO
        };
        if groups.iter().flat_map(|group| group.columns()).any(is_lzo) {
            return Err(InputProblem::Codec("lzo").located(path).into());
        }
        let at_once = (BYTES / largest_page.max(1)).clamp(1, ROWS as u64) as usize;
        let builder = builder.with_projection(mask).with_batch_size(at_once);
        let batches = Batches::of(builder).map_err(unreadable)?;
        let path = path.to_owned();
        Ok(Self { path, file, batches, bytes, rows, rows_read: 0, text_bytes: 0, done: false })
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
        let (mut bytes, mut row_ends, mut null_rows) = (Vec::new(), Vec::new(), Vec::new());
        while bytes.len() < BLOCK && row_ends.len() < ROWS_OF_BLOCK {
            let Some(batch) = self.batches.next() else {
                self.done = true;
                break;
            };
            let (path, rows) = (&self.path, self.rows_read);
            let batch = batch.map_err(|source| InputProblem::Batch(rows, source).located(path))?;
            // Without columns, the batch has no text.
            let Some(column) = batch.columns().first() else { continue };
            for at in 0..column.len() {
                let text =
                    checked_row(column, at, rows + at as u64 + 1).map_err(|problem| problem.located(path))?;
                match text {
                    Some(text) => bytes.extend_from_slice(text),
                    None => null_rows.push(row_ends.len()),
                }
                self.text_bytes += text.map_or(0, |text| text.len() as u64);
                row_ends.push(bytes.len());
            }
            self.rows_read += column.len() as u64;
            reject_bomb(&self.path, "Parquet", self.text_bytes, self.bytes)?;
        }
        let (file, format, wiki) = (self.file, Format::Parquet, None);
        Ok(Some(Block { file, format, first_line, bytes, row_ends, null_rows, wiki, ends_file: self.done }))
    }

    fn entry(&self) -> Result<InputEntry> {
        Ok(InputEntry {
            path: self.path.to_string_lossy().into_owned(),
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

/// Rejects a text column that is missing, duplicated, or neither text nor all null.
fn check_column(fields: &Fields, column: &str) -> Result<(), InputProblem> {
    let names = |is_listed: fn(&DataType) -> bool| {
        let listed = fields.iter().filter(|field| is_listed(field.data_type()));
        listed.map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
    };
    let mut of_name = fields.iter().filter(|field| field.name() == column).map(|field| field.data_type());
    let found = match (of_name.next(), of_name.next()) {
        (None, _) => {
            let similar = did_you_mean(column, fields.iter().map(|field| field.name().as_str()));
            format!("missing (columns: {}{similar})", names(|_| true))
        }
        (Some(_), Some(_)) => "there twice".to_owned(),
        (Some(kind), None) if is_text(kind) || *kind == DataType::Null => return Ok(()),
        (Some(kind), None) => {
            let kind = kind.to_string().to_lowercase();
            match names(is_text) {
                texts if texts.is_empty() => kind,
                texts => format!("{kind} (columns of text: {texts})"),
            }
        }
    };
    Err(InputProblem::Column { column: column.to_owned(), found, expected: "text (see --text-column)" })
}

/// Returns whether a column contains text. Old writers (Impala, Hive, Spark) do not mark their bytes as UTF-8.
fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::Binary)
}

/// Returns the bytes of a row, `None` for a null; `number` is named in errors.
fn checked_row(column: &ArrayRef, at: usize, number: u64) -> Result<Option<&[u8]>, InputProblem> {
    let Some(bytes) = utf8_or_binary(column, at) else { return Ok(None) };
    if bytes.len() > MAX_LINE_BYTES {
        return Err(InputProblem::RowTooLong { row: number, limit: MAX_LINE_BYTES });
    }
    if *column.data_type() == DataType::Binary && str::from_utf8(bytes).is_err() {
        return Err(InputProblem::RowNotUtf8 { row: number });
    }
    Ok(Some(bytes))
}

/// Returns the bytes of a row of a column of text, `None` for a null.
fn utf8_or_binary(column: &ArrayRef, at: usize) -> Option<&[u8]> {
    match column.data_type() {
        _ if column.is_null(at) => None,
        DataType::Utf8 => Some(column.as_string::<i32>().value(at).as_bytes()),
        DataType::Binary => Some(column.as_binary::<i32>().value(at)),
        _ => None,
    }
}
