//! Reads Wikipedia dumps, and the output of WikiExtractor: one document per article.
//!
//! [`ArticleRows`] reads the XML of a dump (`xxwiki-...-pages-articles.xml`) in bounded memory and returns the
//! wikitext of each article; redirects and pages of other namespaces are counted and left out. The threads that tokenize
//! convert the wikitext. The XML parser is `quick-xml`; its panics become errors.

mod articles;
mod doc_tags;
mod xml;

pub(super) use articles::ArticleRows;
