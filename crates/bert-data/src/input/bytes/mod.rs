//! Readers of bytes: decompression, the encoding, a limit for the parsers of other crates.

pub(crate) mod decompress;
pub(super) mod limited;
pub(super) mod utf16;
