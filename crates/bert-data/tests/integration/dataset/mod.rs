//! Data sets: shards, stored documents, pages.

/// The columns of `transformers`, and the entries in shard footers.
mod columns;
/// Stored documents, from which the loader generates instances.
pub(crate) mod documents;
/// The data card and the page.
mod page;
