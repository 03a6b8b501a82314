//! One binary for all integration tests of the crate.
//!
//! Tests that need the reference material beside the workspace are ignored with that reason; `scripts/check --all` runs
//! them.

/// The same bytes whatever the memory, the parts and the stops.
mod any_size;
/// The public interface, end to end: shards, manifest, determinism, preview, inspection.
mod build;
/// Vocabularies and lower-casing that do not fit together.
mod casing;
/// The columns of `transformers`, and what shards say of themselves.
mod columns;
/// Which tokens the data shows, and the law counted again from the shards.
mod coverage;
/// Documents on disk, of which the loader makes instances.
mod digests; // the bytes of shards in every mode, against those of an earlier program
mod documents;
/// Masks that the loader makes.
mod dynamic;
/// Every way to fail, and that a failure changes nothing.
mod errors;
/// Every n-th file operation fails, or the power does.
mod faults;
/// What makes two commands the same build: contents and versions, not paths.
mod identity;
/// Files, folders, patterns, compression, line ends, encodings.
mod input;
/// Training a vocabulary gives the same bytes every time.
mod make_vocab;
/// Names of inputs: links, lists, hidden names, patterns, tables.
mod names;
/// Other segments than pairs, spans of words, ordinary random words.
mod objectives;
/// The data card and the page.
mod page;
/// Parquet as other programs write it.
mod parquet_writers;
/// Exactly the instances of the 2018 script.
mod reference;
/// Chinese words for whole-word masking.
mod segmenter;
/// The numbers of the bench corpus.
mod statistics;
/// What the tests share.
mod support;
/// JSON Lines and Parquet as inputs.
mod table;
/// The same ids as the reference's tokenizer.
mod tokenization;
/// Every place after the shuffle, and every document as a random next one, is equally likely.
mod uniformity;
/// Whole-word masking.
mod whole_words;
