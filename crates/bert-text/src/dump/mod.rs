//! Reads Wikipedia dumps, and the output of WikiExtractor: one document per article.
//!
//! [`Dump`] reads the XML of a dump (`xxwiki-...-pages-articles.xml`) in bounded memory and returns the wikitext of each
//! article; redirects and pages of other namespaces are counted and left out. The wikitext is converted later, on the
//! threads of the tokenizer. The XML parser is `quick-xml`; its panics become errors.

mod doc_tags;
mod xml;

use doc_tags::DocTags;
use xml::Dump;

use crate::Format;
use crate::blocks::RowSource;
use crate::bytes::decompress::Source;

/// Returns the articles of an open file: wikitext for a dump, plain text for the output of WikiExtractor.
pub(crate) fn articles(source: &mut Source, format: Format) -> Box<dyn RowSource> {
    match format {
        Format::WikiDump => Box::new(Dump::new(source)),
        _ => Box::new(DocTags::new(source)),
    }
}
