//! Collects the rows of a file in blocks: rows of a table, or articles of a wiki.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blocks::reject_bomb;
use crate::bytes::decompress::Source;
use crate::error::{Error, Result};
use crate::reading::recorded_name;
use crate::wikitext::Wiki;
use crate::{BLOCK, Block, DumpPages, Format, InputEntry};

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
    /// There was a row.
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

    /// Returns the maximum number of rows of a block.
    fn max_rows(&self) -> usize;

    /// Returns the wiki of the last row.
    fn wiki(&self) -> Option<Arc<Wiki>> {
        None
    }

    /// Returns the counts of the pages of a dump that are not articles.
    fn pages(&self) -> Option<DumpPages> {
        None
    }
}

/// Reader of the rows of a file as blocks.
pub struct RowBlocks {
    /// Index of the file in the list of inputs.
    index: usize,
    file: RowFile,
    pub(super) rows: Box<dyn RowSource>,
    text_bytes: u64,
    done: bool,
}

impl RowBlocks {
    pub(super) fn new(index: usize, file: RowFile, rows: impl RowSource + 'static) -> Self {
        Self { index, file, rows: Box::new(rows), text_bytes: 0, done: false }
    }

    /// Returns the next block of whole rows, or `None` after the last block of the file.
    ///
    /// # Errors
    /// Fails when compressed data expand by more than text can, or when a row is faulty.
    pub(super) fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let first_line = self.file.rows_read + 1;
        // All articles of a block are in one wiki.
        let mut wiki = self.rows.wiki();
        let mut bytes = Vec::new();
        let mut row_ends = Vec::new();
        while bytes.len() < BLOCK && row_ends.len() < self.rows.max_rows() {
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
            reject_bomb(&self.file.path, format, self.text_bytes, self.bytes_read())?;
        }
        let format = self.rows.format();
        let ends_file = self.done;
        let file = self.index;
        Ok(Some(Block { file, format, first_line, bytes, row_ends, wiki, ends_file, ..Block::default() }))
    }

    /// Returns the manifest entry of the file; valid after the last block.
    pub(super) fn entry(&self) -> InputEntry {
        InputEntry {
            path: recorded_name(&self.file.path),
            bytes: self.bytes_read(),
            format: self.rows.format(),
            lines: self.rows_read(),
            dump: self.rows.pages(),
            blake3: self.file.source.digest(),
        }
    }

    pub(super) fn rows_read(&self) -> u64 {
        self.file.rows_read
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.file.source.bytes_read()
    }

    /// Returns the number of ignored bytes after compressed data.
    pub(super) fn ignored(&self) -> u64 {
        self.file.source.ignored()
    }
}
