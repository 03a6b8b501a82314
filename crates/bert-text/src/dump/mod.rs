//! Reads Wikipedia dumps, and the output of WikiExtractor: one document per article.
//!
//! [`ArticleRows`] reads the XML of a dump (`xxwiki-...-pages-articles.xml`) in bounded memory and returns the wikitext
//! of each article; redirects and pages of other namespaces are counted and left out. The wikitext is converted later,
//! on the threads of the tokenizer. The XML parser is `quick-xml`; its panics become errors.

mod doc_tags;
mod xml;

use std::sync::Arc;

use crate::blocks::{NextRow, RowFile, RowSource};
use crate::bytes::decompress::Source;
use crate::dump::doc_tags::{DocError, DocTags};
use crate::dump::xml::Dump;
use crate::error::{Error, Result};
use crate::recognize::Articles as Kind;
use crate::wikitext::Wiki;
use crate::{DumpPages, Format};

/// Maximum number of articles per block.
const ROWS: usize = 1 << 12;

/// Articles; a row of a dump is wikitext, a row of WikiExtractor's output is plain text.
pub(crate) struct ArticleRows(Articles);

enum Articles {
    Dump(Box<Dump>),
    DocTags(DocTags),
}

impl ArticleRows {
    /// Returns the articles of an open dump, or of other output with `<doc>` tags.
    pub(crate) fn new(source: &mut Source, kind: Kind) -> Self {
        Self(match kind {
            Kind::WikiDump => Articles::Dump(Box::new(Dump::new(source))),
            Kind::DocTags => Articles::DocTags(DocTags::new(source)),
        })
    }
}

/// Returns the error for a problem with a dump; the XML parser passes on the error of damaged compressed data.
fn failed(file: &RowFile, error: Error) -> Error {
    match error.cause() {
        Some(quick_xml::Error::Io(cause)) => {
            file.damaged(std::io::Error::new(cause.kind(), cause.to_string()))
        }
        _ => error.at(&file.path),
    }
}

impl RowSource for ArticleRows {
    fn next_row(&mut self, file: &RowFile, into: &mut Vec<u8>) -> Result<NextRow> {
        match &mut self.0 {
            Articles::Dump(dump) => dump.next_article(into).map_err(|problem| failed(file, problem)),
            Articles::DocTags(documents) => match documents.next_document(into) {
                Ok(true) => Ok(NextRow::Row),
                Ok(false) => Ok(NextRow::End),
                Err(DocError::Problem(problem)) => Err(problem.at(&file.path)),
                Err(DocError::Line(problem, line)) => Err(problem.at_line(&file.path, line)),
                Err(DocError::Io(error)) => Err(file.damaged(error)),
            },
        }
    }

    fn format(&self) -> Format {
        match &self.0 {
            Articles::Dump(_) => Format::WikiDump,
            Articles::DocTags(_) => Format::DocTags,
        }
    }

    fn max_rows(&self) -> usize {
        ROWS
    }

    fn wiki(&self) -> Option<Arc<Wiki>> {
        match &self.0 {
            Articles::Dump(dump) => Some(dump.wiki().clone()),
            Articles::DocTags(_) => None,
        }
    }

    fn pages(&self) -> Option<DumpPages> {
        match &self.0 {
            Articles::Dump(dump) => Some(dump.pages()),
            Articles::DocTags(_) => None,
        }
    }
}
