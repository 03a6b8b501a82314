//! Reads the text column of Parquet files as blocks.

use std::path::{Path, PathBuf};

use arrow_array::Array;
use bert_storage::open_file;
use parquet::arrow::ProjectionMask;
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

use super::text_column::TextColumn;
use crate::blocks::{ROWS, reject_bomb};
use crate::error::{Error, Result, no_parquet};
use crate::parquet::open::{Batches, ParquetFile};
use crate::{BLOCK, Block, Format};

/// Number of rows decoded at a time; an article has a few kilobytes.
const ROWS_AT_ONCE: u64 = 64;
/// Maximum number of bytes that a decoded batch may produce: fewer rows are decoded at a time if pages are large,
/// because a row may be as large as its page.
const BYTES: u64 = 256 << 20;

/// Reader of the text column of a Parquet file as blocks.
pub struct RowReader {
    pub(super) path: PathBuf,
    file: usize,
    batches: Batches,
    /// The text column; `None` if the file has no rows and no column of text.
    column: Option<TextColumn>,
    bytes: u64,
    rows: u64,
    pub(super) rows_read: u64,
    text_bytes: u64,
    done: bool,
}

impl RowReader {
    /// Opens a file and finds its text column.
    ///
    /// # Errors
    /// Fails when the file cannot be read, when it is damaged or uses features or a compression that this program
    /// cannot read, or when the text column is missing or has a different type.
    pub fn open(path: &Path, file: usize, column: &str) -> Result<Self> {
        let source = open_file(path).map_err(Error::io("open", path))?;
        let bytes = source.metadata().map_err(Error::io("read", path))?.len();
        let unreadable = |source| no_parquet().because(source).at(path);
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
            found => Some(found.map_err(|problem| problem.at(path))?),
        };
        let mask = match &found {
            Some(_) => {
                // The names of a path may have dots themselves.
                let schema = builder.parquet_schema();
                let is_inside = |path: &str| {
                    path.strip_prefix(column).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                let leaves =
                    (0..schema.num_columns()).filter(|&leaf| is_inside(&schema.column(leaf).path().string()));
                ProjectionMask::leaves(schema, leaves)
            }
            None => ProjectionMask::none(builder.parquet_schema().num_columns()),
        };
        let is_lzo = |chunk: &ColumnChunkMetaData| {
            chunk.column_path().parts().first().is_some_and(|root| is_root(root))
                && chunk.compression() == Compression::LZO
        };
        if groups.iter().flat_map(|group| group.columns()).any(is_lzo) {
            return Err(Error::data(
                "compressed with lzo; supported are snappy, gzip, zstd, brotli, lz4 and no compression",
            )
            .at(path));
        }
        let at_once = (BYTES / largest_page.max(1)).clamp(1, ROWS_AT_ONCE) as usize;
        let builder = builder.with_projection(mask).with_batch_size(at_once);
        let batches = Batches::new(builder).map_err(unreadable)?;
        let path = path.to_owned();
        Ok(Self { path, file, batches, column: found, bytes, rows, rows_read: 0, text_bytes: 0, done: false })
    }

    /// Returns the next block of whole rows, or `None` after the last block of the file.
    ///
    /// # Errors
    /// Fails when rows cannot be read or are not as many as the file declares, when a row is too long or not UTF-8, or
    /// when the file expands by more than text can.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let first_line = self.rows_read + 1;
        let mut bytes = Vec::new();
        let mut row_ends = Vec::new();
        let mut null_rows = Vec::new();
        while bytes.len() < BLOCK && row_ends.len() < ROWS {
            let Some(batch) = self.batches.next() else {
                self.done = true;
                self.check_rows()?;
                break;
            };
            let path = &self.path;
            let rows = self.rows_read;
            let batch = batch.map_err(|source| {
                Error::data(format!("after row {rows}: cannot be read as Parquet")).because(source).at(path)
            })?;
            // Without columns, the batch has no text.
            let (Some(root), Some(column)) = (batch.columns().first(), &self.column) else { continue };
            for at in 0..root.len() {
                let start = bytes.len();
                let number = rows + at as u64 + 1;
                let has_text = column.append(root, at, number, &mut bytes);
                if !has_text.map_err(|problem| problem.at(path))? {
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
            source_lines: None,
            ends_file: self.done,
        }))
    }

    /// Checks that as many rows were read as the footer declares.
    fn check_rows(&self) -> Result<()> {
        let found = self.rows_read;
        let expected = self.rows;
        if self.column.is_some() && found != expected {
            return Err(Error::data(format!(
                "{found} row(s) were read, but the footer of the file declares {expected}: the file is damaged; \
                 write it again"
            ))
            .at(&self.path));
        }
        Ok(())
    }

    pub(super) fn bytes_read(&self) -> u64 {
        match self.rows {
            0 => self.bytes,
            rows => (u128::from(self.bytes) * u128::from(self.rows_read) / u128::from(rows)) as u64,
        }
    }
}
