//! Whole builds: the same bytes however they run, and errors.

/// The same bytes for any memory budget, parts and interruptions.
pub(crate) mod any_size;
/// The public interface, end to end: shards, manifest, determinism, preview, inspection.
mod build;
/// The bytes of shards in every mode equal the digests of an earlier program.
mod digests;
/// Every kind of failure, without side effects.
pub(crate) mod errors;
/// Every n-th file operation fails, or the power does.
mod faults;
/// Held-out documents, and paragraphs on one line.
mod hold_out;
/// Two commands are the same build if contents and versions agree, regardless of paths.
mod identity;
