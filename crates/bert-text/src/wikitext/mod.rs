//! Converts the wikitext of a page to the text that a reader sees.
//!
//! `convert` reads the source once, in linear time. The parsers of wikitext that exist for Rust build a tree, take
//! seconds for a page with unclosed templates or references, and name no SPDX licence, so this one is our own. It needs
//! no pages of templates: calls of templates are removed, except a few that are words of a sentence (`templates`).

mod convert;
mod lines;
mod namespaces;
mod tags;
mod templates;

pub(super) use namespaces::Namespaces;

/// The properties of a wiki in the header of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wiki {
    /// The language code in the attribute `xml:lang`; empty if it is missing.
    pub language: String,
    pub(super) namespaces: Namespaces,
}

/// Returns the plain text of an article's wikitext.
pub(crate) fn article_text(source: &str, wiki: &Wiki) -> String {
    convert::plain_text(source, &wiki.namespaces)
}

/// Returns the plain text of wikitext, with the names of namespaces that all wikis know.
#[must_use]
pub fn wikitext_to_text(source: &str) -> String {
    convert::plain_text(source, &Namespaces::default())
}
