//! Collects the articles of a dump or of WikiExtractor's output as blocks of rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::doc_tags::{DocError, DocTags};
use super::xml::{Dump, Next};
use crate::config::recorded_name;
use crate::error::{Error, InputProblem, Locate, Result};
use crate::input::blocks::reject_bomb;
use crate::input::bytes::decompress::Source;
use crate::input::recognize::Articles as Kind;
use crate::input::wikitext::Wiki;
use crate::input::{BLOCK, Block, DumpPages, Format, InputEntry};

/// Maximum number of articles per block.
const ROWS: usize = 1 << 12;

/// Reader of articles as blocks; a row of a dump is wikitext, a row of WikiExtractor's output is plain text.
pub struct ArticleReader {
    path: PathBuf,
    file: usize,
    source: Source,
    articles: Articles,
    rows_read: u64,
    text_bytes: u64,
    done: bool,
}

enum Articles {
    Dump(Box<Dump>),
    DocTags(DocTags),
}

impl ArticleReader {
    /// Returns a reader of an open dump, or of other output with `<doc>` tags.
    pub(crate) fn new(path: &Path, file: usize, mut source: Source, kind: Kind) -> Self {
        let articles = match kind {
            Kind::WikiDump => Articles::Dump(Box::new(Dump::new(&mut source))),
            Kind::DocTags => Articles::DocTags(DocTags::new(&mut source)),
        };
        Self { path: path.to_owned(), file, source, articles, rows_read: 0, text_bytes: 0, done: false }
    }

    /// Returns the next block of whole articles, or `None` after the last block of the file.
    ///
    /// # Errors
    /// The problems of a dump; [`InputProblem::OutsideDoc`], [`InputProblem::OpenDoc`], [`InputProblem::RowTooLong`],
    /// [`InputProblem::Bomb`], and the errors of decompression.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        let first_line = self.rows_read + 1;
        // All articles of a block are in one wiki.
        let mut wiki = self.wiki();
        let mut bytes = Vec::new();
        let mut row_ends = Vec::new();
        while bytes.len() < BLOCK && row_ends.len() < ROWS {
            match self.next_article(&mut bytes)? {
                Next::Article => {
                    row_ends.push(bytes.len());
                    self.rows_read += 1;
                    wiki = self.wiki();
                }
                Next::Dump => break,
                Next::End => {
                    self.done = true;
                    break;
                }
            }
        }
        self.text_bytes += bytes.len() as u64;
        if let Some(format) = self.source.compression {
            reject_bomb(&self.path, format, self.text_bytes, self.bytes_read())?;
        }
        Ok(Some(Block {
            file: self.file,
            format: self.format(),
            first_line,
            bytes,
            row_ends,
            wiki,
            ends_file: self.done,
            ..Block::default()
        }))
    }

    fn next_article(&mut self, into: &mut Vec<u8>) -> Result<Next> {
        match &mut self.articles {
            Articles::Dump(dump) => dump.next_article(into).map_err(|problem| self.failed(problem)),
            Articles::DocTags(documents) => {
                documents.next_document(into).map(Next::for_document).map_err(|error| match error {
                    DocError::Problem(problem) => problem.located(&self.path).into(),
                    DocError::Line(problem, line) => problem.at_line(&self.path, line).into(),
                    DocError::Io(error) => self.source.damaged(&self.path, error),
                })
            }
        }
    }

    /// Returns the error for a problem with a dump; damaged compressed data comes through the XML parser.
    fn failed(&self, problem: InputProblem) -> Error {
        match problem {
            InputProblem::DumpXml { source: quick_xml::Error::Io(error), .. } => {
                let again = std::io::Error::new(error.kind(), error.to_string());
                self.source.damaged(&self.path, again)
            }
            problem => problem.located(&self.path).into(),
        }
    }

    pub(crate) fn format(&self) -> Format {
        match self.articles {
            Articles::Dump(_) => Format::WikiDump,
            Articles::DocTags(_) => Format::DocTags,
        }
    }

    fn wiki(&self) -> Option<Arc<Wiki>> {
        match &self.articles {
            Articles::Dump(dump) => Some(dump.wiki().clone()),
            Articles::DocTags(_) => None,
        }
    }

    /// Returns the counts of the pages of a dump that are not articles.
    pub(crate) fn pages(&self) -> Option<DumpPages> {
        match &self.articles {
            Articles::Dump(dump) => Some(dump.pages()),
            Articles::DocTags(_) => None,
        }
    }

    /// Returns the manifest entry of the file; valid after the last block.
    pub(crate) fn entry(&self) -> InputEntry {
        InputEntry {
            path: recorded_name(&self.path),
            bytes: self.source.bytes_read(),
            format: self.format(),
            lines: self.rows_read,
            dump: self.pages(),
            blake3: self.source.digest(),
        }
    }

    pub(crate) fn rows_read(&self) -> u64 {
        self.rows_read
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    /// Returns the number of ignored bytes after compressed data.
    pub(crate) fn ignored(&self) -> u64 {
        self.source.ignored()
    }
}
