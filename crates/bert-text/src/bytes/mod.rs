//! Readers of bytes: decompression, ranges of a file, the encoding, a limit for the parsers of other crates.

pub(crate) mod decompress;
pub mod file_range;
pub(super) mod limited;
pub mod range_digest;
pub(super) mod utf16;
