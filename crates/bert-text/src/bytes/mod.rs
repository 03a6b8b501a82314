//! Readers of bytes: decompression, ranges of a file and the encoding.

pub(crate) mod decompress;
pub mod file_range;
pub mod range_digest;
pub(super) mod utf16;
